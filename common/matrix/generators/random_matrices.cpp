// Matrices whose entries lie anywhere with the same probability, in as many rows and columns as asked:
// uniform, a fixed number per row, hypersparse. And those that are even but for one thing: a few long rows
// among short ones, pruned weights, whose rows and columns are kept to different shares, and the structure of
// linear programs.
//
// Exactly as many distinct entries as asked come from a pseudo-random permutation of the cells (or of a row's
// columns): its first nnz values are nnz different cells, computed one by one, without a list of those taken.

#include <algorithm>

#include "common/matrix/generators/generators.hpp"
#include "common/matrix/random.hpp"

namespace stages::recipes {
namespace {

using random::Purpose;
using random::Word;

Recipe distinct_cells(const Parameters& p, Shape s, Offset nnz) {
  const Offset cells = Offset{s.rows} * s.cols;
  if (nnz > cells)
    p.reject("{} entries do not fit into {} x {}, which has {} places; ask for fewer", nnz, s.rows, s.cols,
             cells);
  return drawn_cells(s.rows, s.cols, nnz, random::key(p.seed(), Purpose::cells));
}

Recipe plan_uniform(const Parameters& p) {
  if (p.given("nnz") && p.given("per_row")) p.reject("give nnz or per_row, not both");
  const Shape s = p.shape();
  const Offset nnz =
      p.given("nnz") ? p.count("nnz", 0, Offset{1} << 40) : p.count("per_row", 0, Offset{1} << 31) * s.rows;
  return distinct_cells(p, s, nnz);
}

Recipe plan_hypersparse(const Parameters& p) {
  return distinct_cells(p, p.shape(), p.count("nnz", 0, Offset{1} << 40));
}

Recipe plan_fixed(const Parameters& p) {
  if (p.given("zeros") && p.given("per_row")) p.reject("give zeros or per_row, not both");
  const Shape s = p.shape();
  // Rounded to the nearest count of zeros: 80 % of 1024 is 819, and 205 entries remain.
  const auto rounded_zeros =
      static_cast<Index>((static_cast<Word>(s.cols) * p.share("zeros") + (Word{1} << 31U)) >> 32U);
  const Offset per_row = p.given("per_row") ? p.count("per_row", 0, s.cols) : s.cols - rounded_zeros;
  const Word key = random::key(p.seed(), Purpose::row_sample);
  return drawn_recipe(s.rows, s.cols, per_row * s.rows, false, [=](Offset k) {
    const Offset row = k / per_row;
    const random::Permutation columns(static_cast<Word>(s.cols), random::mix(key ^ static_cast<Word>(row)));
    return place_at(row, columns(static_cast<Word>(k % per_row)));
  });
}

Recipe plan_hubs_among_short(const Parameters& p) {
  const Shape s = p.shape();
  const Offset hubs = p.count("hubs", 0, s.rows);
  const Offset per_row = p.count("per_row", 0, s.cols);
  const Offset hub_length = hubs == 0 ? 0 : p.count("hub_length", 0, s.cols);
  const Offset in_short = (s.rows - hubs) * per_row;
  const random::Permutation place(static_cast<Word>(std::max(s.rows, 1)),
                                  random::key(p.seed(), Purpose::hub_rows));
  const Word key = random::key(p.seed(), Purpose::row_sample);
  // Rows are counted with the hubs last, and then put in their places.
  return drawn_recipe(s.rows, s.cols, in_short + hubs * hub_length, false, [=](Offset k) {
    const bool in_hub = k >= in_short;
    const Offset length = in_hub ? hub_length : per_row;
    const Offset from_part = in_hub ? k - in_short : k;
    const Word row = place(static_cast<Word>((in_hub ? s.rows - hubs : 0) + from_part / length));
    const random::Permutation columns(static_cast<Word>(s.cols), random::mix(key ^ row));
    return place_at(row, columns(static_cast<Word>(from_part % length)));
  });
}

Recipe plan_pruned(const Parameters& p) {
  const Index rows = p.index("rows"), cols = p.index("cols");
  constexpr Word kOne = Word{1} << 32U;
  const Word kept = kOne - p.share("zeros");
  const Word row_spread = p.share("row_spread"), col_spread = p.share("col_spread");
  const Word key = random::key(p.seed(), Purpose::keep);
  const Word row_key = random::key(p.seed(), Purpose::row_shares);
  const Word col_key = random::key(p.seed(), Purpose::col_shares);
  // A factor in [1 - spread, 1 + spread), in units of 2^-31 so that products of two fit into a word.
  const auto factor = [](Word of, Index line, Word spread) {
    const Word u = random::Stream(of, static_cast<Word>(line)).next();
    return (kOne - spread + random::scale(u, 2 * spread)) >> 1U;
  };
  return row_recipe(rows, cols, Offset{rows} * cols, false, [=](Index i, auto&& emit) {
    const Word of_row = std::min(kOne, (kept * factor(row_key, i, row_spread)) >> 31U);
    random::Stream words(key, static_cast<Word>(i));
    for (Index j = 0; j < cols; ++j) {
      const Word share = (of_row * factor(col_key, j, col_spread)) >> 31U;
      if ((words.next() >> 32U) < share) emit(j);
    }
  });
}

Recipe plan_lp(const Parameters& p) {
  const Index rows = p.index("rows", 2), cols = p.index("cols", 1);
  const Offset per_col = p.count("per_col", 0, rows);
  const auto coupling_rows = static_cast<Word>(p.count("coupling_rows", 1, rows - 1));
  const Word own_rows = static_cast<Word>(rows) - coupling_rows;
  const auto blocks = static_cast<Word>(p.count("blocks", 1, static_cast<Offset>(own_rows)));
  const Word coupling = p.share("coupling");
  const Word key = random::key(p.seed(), Purpose::edges);
  return drawn_recipe(rows, cols, per_col * cols, false, [=](Offset k) {
    random::Stream words(key, static_cast<Word>(k));
    const auto col = static_cast<Word>(k / per_col);
    if ((words.next() >> 32U) < coupling) return place_at(words.below(coupling_rows), col);
    const Word block = col * blocks / static_cast<Word>(cols);
    const Word begin = block * own_rows / blocks, end = (block + 1) * own_rows / blocks;
    return place_at(coupling_rows + begin + words.below(end - begin), col);
  });
}

}  // namespace

std::vector<Generator> random_generators() {
  return {{{"uniform",
            "no structure at all, exactly nnz entries: the even case",
            "gen:uniform:n=1e5,per_row=8",
            {{"n", "4096", "rows and columns"},
             kRows,
             kCols,
             {"per_row", "8", "mean entries per row: nnz = per_row * rows"},
             {"nnz", "", "entries, exactly"}}},
           plan_uniform},
          {{"fixed",
            "the same number of entries in every row, at random columns: pruned dense layers",
            "gen:fixed:n=1024,zeros=0.8",
            {{"n", "1024", "rows and columns"},
             kRows,
             kCols,
             {"zeros", "0.8", "share of each row that is zero"},
             {"per_row", "", "entries of each row, instead of zeros"}}},
           plan_fixed},
          {{"hypersparse",
            "fewer entries than rows: blocks of a distributed graph, one time step of a network's traffic",
            "gen:hypersparse:n=1e7,nnz=1e5",
            {{"n", "1e7", "rows and columns"},
             kRows,
             kCols,
             {"nnz", "1e5", "entries, exactly; fewer than rows makes most rows empty"}}},
           plan_hypersparse},
          {{"hubs",
            "a few long rows among short ones of equal length: what one row does to a kernel",
            "gen:hubs:n=1e5,per_row=4,hubs=1,hub_length=2e4",
            {{"n", "1e5", "rows and columns"},
             kRows,
             kCols,
             {"per_row", "4", "entries of each short row"},
             {"hubs", "1", "long rows, at pseudo-random places"},
             {"hub_length", "2e4", "entries of each long row"}}},
           plan_hubs_among_short},
          {{"pruned",
            "weights of a neural network without the small ones: rows and columns of unequal shares",
            "gen:pruned:rows=512,cols=2048,zeros=0.9",
            {{"rows", "512", "outputs of the layer"},
             {"cols", "512", "its inputs"},
             {"zeros", "0.9", "share of the weights that were pruned"},
             {"row_spread", "0.5",
              "how unequal rows are: a row keeps (1 - spread) to (1 + spread) times the mean"},
             {"col_spread", "0.5", "the same for columns"}}},
           plan_pruned},
          {{"lp",
            "constraints of a linear program: wide, blocks of variables, a few long coupling rows",
            "gen:lp:rows=2e3,cols=2e4,per_col=6",
            {{"rows", "2e3", "constraints"},
             {"cols", "2e4", "variables"},
             {"per_col", "6", "entries drawn per column; repeats fall out afterwards"},
             {"blocks", "20", "groups of variables, each with constraints of its own"},
             {"coupling_rows", "20", "constraints that variables of all groups share: long rows"},
             {"coupling", "0.15", "share of the entries that lie in coupling rows"}}},
           plan_lp}};
}

}  // namespace stages::recipes
