// Random graphs: R-MAT, power law, communities, citations, ratings, R-MAT twins of 13 public graphs, and
// hypergraphs.
//
// R-MAT (Chakrabarti, Zhan, Faloutsos: R-MAT, a recursive model for graph mining, SDM 2004) halves the matrix
// in both directions, level by level, and sends each edge into one of the quadrants: skewed degrees and
// self-similar blocks from one number. It has no communities. The community generator is a degree-corrected
// block model (Karrer and Newman 2011), in which the order of the vertices can be the blocks' or a shuffled
// one: what an ordering is worth is the difference between the two.

#include <algorithm>
#include <bit>
#include <numeric>
#include <string_view>
#include <vector>

#include "common/matrix/generators/generators.hpp"
#include "common/matrix/generators/hubs.hpp"
#include "common/matrix/parallel.hpp"
#include "common/matrix/random.hpp"

namespace stages::recipes {
namespace {

using random::Purpose;
using random::Word;

constexpr Offset kMaxEntries = Offset{1} << 40;

/// Adds hubs and mirroring, which all graphs can have, to the edges of `base`.
template <class Base>
Recipe graph_recipe(const Parameters& p, Index n, Offset edges, Offset hub_max, bool mirrored, Base base) {
  const HubRows hubs = plan_hubs(p, n, n, edges, hub_max);
  // The last of them are the hubs'.
  return drawn_recipe(n, n, edges, mirrored, [=, from = edges - hubs.total()](Offset k) {
    return k < from ? base(k) : hubs(k - from);
  });
}

bool mirrored(const Parameters& p) { return p.choice("symmetric", {"no", "yes"}) == "yes"; }

constexpr GeneratorParameter kSymmetric{"symmetric", "no", "yes: each edge drawn is entered both ways"},
    kEdgeFactor{"edge_factor", "8", "edges drawn = edge_factor * n"},
    kEdges{"edges", "", "edges drawn; repeats fall out afterwards"};

/// `edges` if given, else edge_factor * n.
Offset edge_count(const Parameters& p, Index n) {
  if (p.given("edges") && p.given("edge_factor")) p.reject("give edges or edge_factor, not both");
  if (p.given("edges")) return p.count("edges", 0, kMaxEntries);
  return p.count("edge_factor", 0, 1'000'000) * n;
}

/// Edge k of R-MAT(n, a): the quadrants' shares are a, b, b, b with b = (1 - a) / 3, in units of 2^-32. Each
/// random word decides two levels. An edge outside n x n is drawn again, from the words that follow.
auto rmat_edges(Index n, Word a, Word seed) {
  const Word key = random::key(seed, Purpose::edges), b = ((Word{1} << 32U) - a) / 3;
  const int levels = n < 2 ? 0 : static_cast<int>(std::bit_width(static_cast<Word>(n) - 1));
  return [=, nodes = static_cast<Word>(n)](Offset k) {
    random::Stream words(key, static_cast<Word>(k));
    for (;;) {
      Word row = 0, col = 0;
      Word word = 0;
      for (int level = 0; level < levels; ++level) {
        word = level % 2 == 0 ? words.next() : word >> 32U;
        const Word u = word & 0xFFFFFFFFU;
        const Word right = (u >= a) ^ (u >= a + b) ^ (u >= a + 2 * b);
        row = 2 * row + (u >= a + b);
        col = 2 * col + right;
      }
      if (row < nodes && col < nodes) return place_at(row, col);
    }
  };
}

Recipe plan_rmat(const Parameters& p) {
  if (p.given("n") && p.given("scale")) p.reject("give n or scale, not both");
  const Index n = p.given("n") ? p.index("n", 1) : static_cast<Index>(Index{1} << p.count("scale", 0, 30));
  return graph_recipe(p, n, edge_count(p, n), p.index("hub_max"), mirrored(p),
                      rmat_edges(n, p.share("a", 0.25), p.seed()));
}

/// A vertex out of n by popularity: rank = n * u^skew for uniform u, so that the rank-r vertex is drawn in
/// proportion to r^(1/skew - 1), and degrees follow a power law with exponent 2 + 1 / (skew - 1). skew = 1 is
/// uniform.
Word popular(random::Stream& words, Word n, int skew) {
  const Word u = words.next();
  Word power = u;
  for (int i = 1; i < skew; ++i) power = random::scale(power, u);
  return random::scale(power, n);
}

int skew_of(const Parameters& p, std::string_view name) { return static_cast<int>(p.count(name, 1, 16)); }

Recipe plan_powerlaw(const Parameters& p) {
  const Index n = p.index("n", 1);
  const int skew = skew_of(p, "skew"), col_skew = p.given("col_skew") ? skew_of(p, "col_skew") : skew;
  const auto nodes = static_cast<Word>(n);
  const Word key = random::key(p.seed(), Purpose::edges);
  // One relabelling for both directions: the vertex that many others name also names many.
  const random::Permutation relabel(nodes, random::key(p.seed(), Purpose::relabel));
  return graph_recipe(p, n, edge_count(p, n), p.index("hub_max"), mirrored(p), [=](Offset k) {
    random::Stream words(key, static_cast<Word>(k));
    const Word row = popular(words, nodes, skew), col = popular(words, nodes, col_skew);
    return place_at(relabel(row), relabel(col));
  });
}

/// A row is drawn by popularity within a block that is drawn by popularity too; its column comes from the
/// same block with probability `inside`, else from any block. Block b owns the vertices from b * n / blocks.
Recipe plan_communities(const Parameters& p) {
  const Index n = p.index("n", 1);
  const auto nodes = static_cast<Word>(n), blocks = static_cast<Word>(p.count("blocks", 1, n));
  const Word inside = p.share("inside"), key = random::key(p.seed(), Purpose::edges);
  const int skew = skew_of(p, "skew"), block_skew = skew_of(p, "block_skew");
  const bool shuffled = p.choice("order", {"planted", "shuffled"}) == "shuffled";
  const random::Permutation relabel(nodes, random::key(p.seed(), Purpose::relabel));
  const auto member = [=](random::Stream& words, Word block) {
    const Word begin = block * nodes / blocks;
    return begin + popular(words, (block + 1) * nodes / blocks - begin, skew);
  };
  return graph_recipe(p, n, edge_count(p, n), p.index("hub_max"), mirrored(p), [=](Offset k) {
    random::Stream words(key, static_cast<Word>(k));
    const Word block = popular(words, blocks, block_skew);
    const Word other = (words.next() >> 32U) < inside ? block : popular(words, blocks, block_skew);
    const Word row = member(words, block), col = member(words, other);
    return shuffled ? place_at(relabel(row), relabel(col)) : place_at(row, col);
  });
}

/// A public graph as R-MAT: its rows, its edges, a skew that brings its longest row near, and hub rows of its
/// real maximum where R-MAT alone stays below.
struct Twin {
  std::string_view name;
  Index n;
  Offset edges;
  int a_percent;
  Index hub_max;
};
constexpr Twin kTwins[] = {
    {"arxiv", 169'343, 1'166'243, 52, 13'155},     {"collab", 235'868, 2'358'104, 50, 0},
    {"citation", 2'927'963, 30'387'995, 50, 0},    {"ddi", 4'267, 2'135'822, 40, 2'234},
    {"protein", 132'534, 79'122'504, 40, 0},       {"ppa", 576'289, 42'463'862, 50, 0},
    {"reddit", 232'965, 114'615'892, 48, 0},       {"products", 2'449'029, 123'718'280, 50, 0},
    {"youtube", 1'138'499, 5'980'886, 57, 28'754}, {"amazon", 1'569'960, 264'339'468, 50, 0},
    {"yelp", 716'847, 13'954'819, 48, 4'886},      {"wikikg2", 2'500'604, 16'109'182, 57, 0},
    {"am", 881'680, 5'668'682, 60, 140'000},
};

constexpr Index kRunBlock = 4096;  ///< rows that runs=yes sorts by length

/// The rows of `p` in another order: those of each kRunBlock by length, the shortest first, rows of one length
/// in the order that they had. A row keeps its columns.
Pattern with_runs(const Pattern& p, int threads) {
  Pattern out{p.rows, p.cols, Buffer<Offset>(p.row_ptr.size(), 0), Buffer<Index>(p.col_idx.size())};
  const Offset blocks = (Offset{p.rows} + kRunBlock - 1) / kRunBlock;
  parallel_blocks(blocks, 1, threads, [&](int, Offset begin_block, Offset end_block) {
    for (Offset b = begin_block; b < end_block; ++b) {
      const Offset begin = b * kRunBlock, end = std::min<Offset>(p.rows, begin + kRunBlock);
      const auto length = [&](Offset row) {
        return p.row_ptr[static_cast<std::size_t>(row) + 1] - p.row_ptr[static_cast<std::size_t>(row)];
      };
      std::vector<Offset> order(static_cast<std::size_t>(end - begin));
      std::iota(order.begin(), order.end(), begin);
      std::ranges::stable_sort(order, {}, length);
      Offset at = p.row_ptr[static_cast<std::size_t>(begin)];  // a block has as many entries as before
      for (std::size_t k = 0; k < order.size(); ++k) {
        const Index* const from = p.col_idx.data() + p.row_ptr[static_cast<std::size_t>(order[k])];
        std::copy_n(from, length(order[k]), out.col_idx.data() + at);
        at += length(order[k]);
        out.row_ptr[static_cast<std::size_t>(begin) + k + 1] = at;
      }
    }
  });
  return out;
}

Recipe plan_twin(const Parameters& p) {
  const std::string_view name =
      p.choice("graph", {"arxiv", "collab", "citation", "ddi", "protein", "ppa", "reddit", "products",
                         "youtube", "amazon", "yelp", "wikikg2", "am"});
  const Twin& twin = *std::ranges::find(kTwins, name, &Twin::name);
  const auto shrink = static_cast<Index>(p.count("shrink", 1, twin.n / 64));
  const Offset thin = shrink * p.count("thin", 1, 1000);
  const Index n = twin.n / shrink;
  const Word a = ((static_cast<Word>(twin.a_percent) << 32U) + 50) / 100;
  Recipe recipe =
      graph_recipe(p, n, twin.edges / thin, twin.hub_max / thin, false, rmat_edges(n, a, p.seed()));
  if (p.choice("runs", {"no", "yes"}) == "yes") {
    // Two patterns at a time, as when repeats fall out: no more memory than without.
    recipe.make = [make = std::move(recipe.make)](int threads) { return with_runs(make(threads), threads); };
  }
  return recipe;
}

/// Pin k of a netlist: rows are nets, columns are cells. The first two pins of each net come one after the
/// other, the rest goes to nets by popularity; a pin's cell lies near its net, as placed circuits are. Behind
/// them long nets (clock, reset), whose pins are anywhere.
Recipe plan_hypergraph(const Parameters& p) {
  const Index nets = p.index("nets", 1), cells = p.index("cells", 1);
  const auto rows = static_cast<Word>(nets), cols = static_cast<Word>(cells);
  const Offset pins = p.count("pins_per_net", 2, 1'000'000) * nets;  // without those of long nets
  const Offset long_nets = p.count("long_nets", 0, nets);
  const auto long_length = static_cast<Offset>((cols * p.share("long_share")) >> 32U);
  const int skew = skew_of(p, "skew");
  const Word key = random::key(p.seed(), Purpose::edges);
  const random::Permutation relabel(rows, random::key(p.seed(), Purpose::relabel));
  return drawn_recipe(nets, cells, pins + long_nets * long_length, false, [=](Offset k) {
    random::Stream words(key, static_cast<Word>(k));
    if (k >= pins) {
      const auto net = static_cast<Word>((k - pins) / long_length);
      return place_at(net * rows / static_cast<Word>(long_nets), words.below(cols));
    }
    const auto pair = static_cast<Word>(k) / 2;
    const Word net = pair < rows ? pair : relabel(popular(words, rows, skew));
    const Word centre = net * cols / rows;
    // The fourth power of a uniform number, to either side: most cells are near the net's centre.
    const Word distance = popular(words, cols, 4) / 2;
    const bool left = words.next() >> 63U != 0;
    return place_at(net, (left ? centre + cols - distance : centre + distance) % cols);
  });
}

/// Each vertex names earlier ones: half of them recent ones, half of them famous ones.
Recipe plan_citation(const Parameters& p) {
  const Index n = p.index("n", 2);
  const Offset per_row = p.count("per_row", 0, 1'000'000);
  const Word recent = p.share("recent"), key = random::key(p.seed(), Purpose::edges);
  const int skew = skew_of(p, "skew");
  return drawn_recipe(n, n, per_row * n, false, [=](Offset k) {
    random::Stream words(key, static_cast<Word>(k));
    const Word row = 1 + words.below(static_cast<Word>(n) - 1);
    const bool is_recent = (words.next() >> 32U) < recent;
    const Word col = popular(words, row, is_recent ? 2 * skew : skew);
    return place_at(row, is_recent ? row - 1 - col : col);
  });
}

/// Users and the items that they rated.
Recipe plan_ratings(const Parameters& p) {
  const Index users = p.index("users", 1), items = p.index("items", 1);
  const auto rows = static_cast<Word>(users), cols = static_cast<Word>(items);
  const int skew = skew_of(p, "skew"), col_skew = skew_of(p, "col_skew");
  const Word key = random::key(p.seed(), Purpose::edges);
  const random::Permutation user(rows, random::key(p.seed(), Purpose::relabel)),
      item(cols, random::key(p.seed(), Purpose::cells));
  return drawn_recipe(users, items, p.count("per_row", 0, 1'000'000) * users, false, [=](Offset k) {
    random::Stream words(key, static_cast<Word>(k));
    const Word row = popular(words, rows, skew);
    return place_at(user(row), item(popular(words, cols, col_skew)));
  });
}

}  // namespace

std::vector<Generator> graph_generators() {
  return {
      {{"rmat",
        "skewed, self-similar graphs without communities: web and social graphs as benchmarks model them",
        "gen:rmat:scale=17,edge_factor=8,a=0.57,seed=1",
        {{"scale", "12", "n = 2^scale rows and columns"},
         {"n", "", "rows and columns, if not a power of two"},
         kEdgeFactor,
         kEdges,
         {"a", "0.57", "share of the upper left quadrant on each level; 0.25 is uniform"},
         kSymmetric,
         kHubMax,
         kHubShare}},
       plan_rmat},
      {{"powerlaw",
        "row and column lengths that follow a power law, at random places: social and citation networks",
        "gen:powerlaw:n=1e5,edge_factor=10,skew=3,hub_max=2e4",
        {{"n", "4096", "rows and columns"},
         kEdgeFactor,
         kEdges,
         {"skew", "3", "1 (uniform) to 16: row lengths follow a power law with exponent 2 + 1 / (skew - 1)"},
         {"col_skew", "", "the same for columns; as skew if not given"},
         kSymmetric,
         kHubMax,
         kHubShare}},
       plan_powerlaw},
      {{"communities",
        "graphs of dense groups, in an order that shows them or hides them: web hosts, co-purchases",
        "gen:communities:n=1e5,blocks=500,inside=0.9,order=shuffled",
        {{"n", "4096", "rows and columns"},
         kEdgeFactor,
         kEdges,
         {"blocks", "64", "communities, all of one size"},
         {"inside", "0.9", "share of the edges that stay inside a community (others may, by chance)"},
         {"skew", "2", "degrees within a community: as powerlaw's skew"},
         {"block_skew", "1", "the same for how many edges a community has"},
         {"order", "planted",
          "planted: communities one after the other; shuffled: the same graph, renumbered"},
         kSymmetric,
         kHubMax,
         kHubShare}},
       plan_communities},
      {{"citation",
        "each row names earlier ones, recent or famous: papers, patents",
        "gen:citation:n=35000,per_row=12",
        {{"n", "4096", "rows and columns"},
         {"per_row", "12", "mean entries per row, as drawn"},
         {"recent", "0.5", "share of the entries that are near the diagonal"},
         {"skew", "3", "1 (even) to 8: how much more the first ones are named, as powerlaw's skew"}}},
       plan_citation},
      {{"ratings",
        "many rows of unequal length, few columns, some of which most have: users and items",
        "gen:ratings:users=1e5,items=2e3",
        {{"users", "1e5", "rows"},
         {"items", "2e3", "columns"},
         {"per_row", "20", "mean entries per row, as drawn"},
         {"skew", "2", "1 (even) to 16: lengths of rows, as powerlaw's skew"},
         {"col_skew", "3", "the same for columns"}}},
       plan_ratings},
      {{"twin",
        "R-MAT twins of 13 public graphs for learning on graphs: sizes and skew of the originals",
        "gen:twin:reddit,shrink=16,thin=16",
        {{"graph", "arxiv",
          "arxiv, collab, citation, ddi, protein, ppa, reddit, products, youtube, amazon, yelp, wikikg2 or "
          "am"},
         {"shrink", "1", "divides rows, edges and hubs: the same mean row length in a smaller matrix"},
         {"thin", "1", "divides edges and hubs only: shorter rows"},
         {"runs", "no", "yes: neighbouring rows are of equal length: the rows of each 4096 sorted by length"},
         kHubShare}},
       plan_twin},
      {{"hypergraph",
        "nets of a placed circuit and their cells: short rows near a diagonal, a few very long",
        "gen:hypergraph:nets=1e4,cells=1.1e4",
        {{"nets", "1e4", "hyperedges: rows"},
         {"cells", "1.1e4", "vertices: columns"},
         {"pins_per_net", "4", "mean pins of a net; two belong to each, the rest is drawn by popularity"},
         {"skew", "3", "1 (even) to 16: lengths of nets, as powerlaw's skew"},
         {"long_nets", "2", "nets that touch a share of all cells: clock, reset"},
         {"long_share", "0.02", "that share, as drawn"}}},
       plan_hypergraph}};
}

}  // namespace stages::recipes
