// Matrices of points that do not lie on a grid: triangles, nearest neighbours; of systems made of parts:
// saddle points, borders; and of patterns that repeat: Kronecker powers, multiples of polynomials. And another
// order of the points.

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "common/matrix/generators/generators.hpp"
#include "common/matrix/generators/grid.hpp"
#include "common/matrix/parallel.hpp"
#include "common/matrix/random.hpp"

namespace stages::recipes {
namespace {

using random::Purpose;
using random::Word;

/// The same pattern with row and column i renumbered.
Pattern renumbered(const Pattern& p, const random::Permutation& number, int threads) {
  Pattern out{p.rows, p.cols, Buffer<Offset>(p.row_ptr.size(), 0), Buffer<Index>(p.col_idx.size())};
  const auto to = [&](Offset i) { return static_cast<std::size_t>(number(static_cast<Word>(i))); };
  for (Offset i = 0; i < p.rows; ++i) {
    const auto from = static_cast<std::size_t>(i);
    out.row_ptr[to(i) + 1] = p.row_ptr[from + 1] - p.row_ptr[from];
  }
  std::partial_sum(out.row_ptr.begin(), out.row_ptr.end(), out.row_ptr.begin());
  parallel_blocks(p.rows, kRowsPerBlock, threads, [&](int, Offset begin, Offset end) {
    for (Offset i = begin; i < end; ++i) {
      Index* const row = out.col_idx.data() + out.row_ptr[to(i)];
      Index* last = row;
      for (Offset k = p.row_ptr[static_cast<std::size_t>(i)]; k < p.row_ptr[static_cast<std::size_t>(i) + 1];
           ++k)
        *last++ = static_cast<Index>(to(p.col_idx[static_cast<std::size_t>(k)]));
      std::sort(row, last);
    }
  });
  return out;
}

/// Which diagonal of the square whose lowest corner is `corner` is an edge: that through the corner or not.
bool through_corner(Word key, Index corner) {
  return (random::Stream(key, static_cast<Word>(corner)).next() >> 63U) != 0;
}

/// A grid of squares, each cut in two: what a Delaunay triangulation of points near a grid's is.
Recipe plan_triangles(const Parameters& p) {
  const Grid grid = plan_grid(p, false, 1);
  const Word key = random::key(p.seed(), Purpose::edges);
  const Offset n = grid.points();
  return in_order(p, row_recipe(grid.points(), grid.points(), 9 * n, true, [=](Index i, auto&& emit) {
                    const Index x = i % grid.nx, y = i / grid.nx;
                    grid.neighbours(i, 2, [&](Index j) {
                      const Index dx = j % grid.nx - x, dy = j / grid.nx - y;
                      if (dx * dy == 0) {
                        if (j != i) emit(j);
                        return;
                      }
                      const Index corner = (y + std::min(dy, 0)) * grid.nx + x + std::min(dx, 0);
                      if (through_corner(key, corner) == (dx == dy)) emit(j);
                    });
                  }));
}

/// A point in each cell of a grid, anywhere in it, and its nearest ones among those of the cells around it.
Recipe plan_neighbours(const Parameters& p) {
  const bool in_space = p.choice("dimensions", {"2", "3"}) == "3";
  const Grid grid = plan_grid(p, in_space, 1);
  const auto wanted = static_cast<std::size_t>(p.count("neighbours", 1, in_space ? 26 : 8));
  const Word key = random::key(p.seed(), Purpose::cells);
  const auto place = [=](Index i) {  // in 2^-16 of a cell
    random::Stream words(key, static_cast<Word>(i));
    const std::array<Index, 3> cell = {i % grid.nx, i / grid.nx % grid.ny, i / grid.nx / grid.ny};
    std::array<Offset, 3> at = {};
    for (std::size_t d = 0; d < (in_space ? 3 : 2); ++d)
      at[d] = (Offset{cell[d]} << 16) + static_cast<Offset>(words.next() >> 48U);
    return at;
  };
  const auto row = [=](Index i, auto&& emit) {
    std::array<std::pair<Offset, Index>, 27> near;
    std::size_t count = 0;
    const auto here = place(i);
    grid.neighbours(i, 3, [&](Index j) {
      if (j == i) return;
      const auto there = place(j);
      Offset square = 0;
      for (std::size_t d = 0; d < 3; ++d) square += (there[d] - here[d]) * (there[d] - here[d]);
      near[count++] = {square, j};
    });
    std::sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count));
    count = std::min(count, wanted);
    std::array<Index, 27> columns;
    for (std::size_t k = 0; k < count; ++k) columns[k] = near[k].second;
    std::sort(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t k = 0; k < count; ++k) emit(columns[k]);
  };
  return in_order(
      p, row_recipe(grid.points(), grid.points(), static_cast<Offset>(wanted) * grid.points(), false, row));
}

/// (A B^T; B 0): the 5-point stencil A of a plane, and a constraint B for each of its squares.
Recipe plan_saddle(const Parameters& p) {
  const Grid grid = plan_grid(p, false, 1);
  const Index points = grid.points(), across = grid.nx - 1, squares = across * (grid.ny - 1);
  if (squares > std::numeric_limits<Index>::max() - points)
    p.reject("more than 2^31 - 1 rows; ask for fewer");
  return row_recipe(points + squares, points + squares, 5 * Offset{points} + 8 * Offset{squares}, true,
                    [=](Index i, auto&& emit) {
                      if (i >= points) {
                        const Index corner = (i - points) / across * grid.nx + (i - points) % across;
                        for (const Index j : {corner, corner + 1, corner + grid.nx, corner + grid.nx + 1})
                          emit(j);
                        return;
                      }
                      grid.neighbours(i, 1, emit);
                      const Index x = i % grid.nx, y = i / grid.nx;
                      for (Index row = std::max(0, y - 1); row < std::min(y + 1, grid.ny - 1); ++row)
                        for (Index col = std::max(0, x - 1); col < std::min(x + 1, across); ++col)
                          emit(points + row * across + col);
                    });
}

/// Dense blocks along the diagonal, and a few rows and columns that are tied to a share of all others.
Recipe plan_bordered(const Parameters& p) {
  const Index n = p.index("n", 1);
  const Index block = p.index("block", 1), border = std::min(p.index("border"), n), inner = n - border;
  const Word fill = p.share("fill"), key = random::key(p.seed(), Purpose::keep);
  return row_recipe(n, n, Offset{inner} * block + 2 * Offset{border} * n, true, [=](Index i, auto&& emit) {
    const Index begin = i < inner ? i / block * block : 0;
    const Index end = i < inner ? std::min(inner - begin, block) + begin : inner;
    for (Index j = begin; j < end; ++j)
      if (i < inner || keeps(key, i, j, fill)) emit(j);
    for (Index j = inner; j < n; ++j)
      if (i == j || keeps(key, i, j, fill)) emit(j);
  });
}

/// The Kronecker product of a small random pattern with itself, `power` times in all.
Recipe plan_kronecker(const Parameters& p) {
  const auto base = static_cast<Index>(p.count("base", 2, 32)),
             power = static_cast<Index>(p.count("power", 1, 30));
  const Word fill = p.share("fill"), key = random::key(p.seed(), Purpose::keep);
  std::vector<std::vector<Index>> rows(static_cast<std::size_t>(base));
  Offset in_base = 0, n = 1, entries = 1;
  for (Index i = 0; i < base; ++i)
    for (Index j = 0; j < base; ++j)
      if (i == j || (random::Stream(key, static_cast<Word>(i * base + j)).next() >> 32U) < fill) {
        rows[static_cast<std::size_t>(i)].push_back(j);
        ++in_base;
      }
  for (Index k = 0; k < power; ++k) {
    n *= base;
    entries *= in_base;
    if (n > std::numeric_limits<Index>::max() || entries > Offset{1} << 40)
      p.reject("{} to the power of {} is too large; ask for less", base, power);
  }
  return row_recipe(static_cast<Index>(n), static_cast<Index>(n), entries, false, [=](Index i, auto&& emit) {
    // The columns of the leading digits, and then those of a digit more for each of them.
    std::vector<Index> columns = {0}, longer;
    for (Index of = static_cast<Index>(n) / base, k = 0; k < power; ++k, of /= base) {
      longer.clear();
      for (const Index column : columns)
        for (const Index digit : rows[static_cast<std::size_t>(i / of % base)])
          longer.push_back(column * base + digit);
      columns.swap(longer);
    }
    for (const Index column : columns) emit(column);
  });
}

/// Macaulay's matrix, which Groebner bases are computed from: a row is a polynomial times a monomial, so the
/// same places, moved on.
Recipe plan_macaulay(const Parameters& p) {
  const Index rows = p.index("rows", 1), cols = p.index("cols", 1);
  const auto polynomials = static_cast<Index>(p.count("polynomials", 1, rows));
  const auto terms = static_cast<Offset>(p.count("terms", 1, cols));
  const Index reach = std::max(p.index("reach", 1), static_cast<Index>(terms));
  if (reach > cols) p.reject("reach={} is more than cols={}; give less", reach, cols);
  const Word key = random::key(p.seed(), Purpose::row_sample);
  const Index multiples = (rows + polynomials - 1) / polynomials;
  return drawn_recipe(rows, cols, terms * rows, false, [=](Offset k) {
    const auto row = static_cast<Index>(k / terms);
    const Index polynomial = row % polynomials;
    const random::Permutation places(static_cast<Word>(reach),
                                     random::mix(key ^ static_cast<Word>(polynomial)));
    const Offset moved = Offset{row / polynomials} * (cols - reach + 1) / multiples;
    return place_at(row, moved + static_cast<Offset>(places(static_cast<Word>(k % terms))));
  });
}

}  // namespace

Recipe in_order(const Parameters& p, Recipe recipe) {
  if (p.choice("order", {"natural", "shuffled"}) == "natural" || recipe.rows == 0) return recipe;
  const random::Permutation number(static_cast<Word>(recipe.rows), random::key(p.seed(), Purpose::relabel));
  recipe.drawn = true;  // two patterns at a time
  recipe.make = [=, make = std::move(recipe.make)](int threads) {
    return renumbered(make(threads), number, threads);
  };
  return recipe;
}

std::vector<Generator> mesh_generators() {
  constexpr GeneratorParameter kNx{"nx", "64", "points along x"},
      kNy{"ny", "", "points along y; nx if not given"};
  return {
      {{"triangles",
        "a plane of triangles, 6 neighbours in the mean: Delaunay meshes",
        "gen:triangles:nx=256,order=shuffled",
        {kNx, kNy, kOrder}},
       plan_triangles},
      {{"neighbours",
        "points at random places and the nearest ones of each: clustering, learning on point clouds",
        "gen:neighbours:nx=300,neighbours=6",
        {kNx,
         kNy,
         {"nz", "", "points along z; nx if not given, for 3 dimensions"},
         {"dimensions", "2", "2 or 3"},
         {"neighbours", "6", "of each point; at most 8 in a plane and 26 in space"},
         kOrder}},
       plan_neighbours},
      {{"saddle",
        "a stencil, a constraint for each square and nothing on the rest of the diagonal: flow, optimization",
        "gen:saddle:nx=300",
        {kNx, kNy}},
       plan_saddle},
      {{"bordered",
        "dense blocks along the diagonal and a border tied to all: domain decomposition, power grids",
        "gen:bordered:n=1e5,block=12,border=20",
        {{"n", "4096", "rows and columns"},
         {"block", "8", "rows of a block"},
         {"border", "8", "rows and columns of the border"},
         {"fill", "0.2", "share of the border that is kept"}}},
       plan_bordered},
      {{"kronecker",
        "a small pattern times itself, again and again: self-similar, and nearly dense if it is",
        "gen:kronecker:base=4,power=5,fill=0.6",
        {{"base", "3", "rows and columns of the small pattern"},
         {"power", "5", "how many of it are multiplied: base^power rows"},
         {"fill", "0.5", "share of the small pattern off its diagonal"}}},
       plan_kronecker},
      {{"macaulay",
        "multiples of a few polynomials, integers: what Groebner bases are computed from",
        "gen:macaulay:rows=3000,cols=4000",
        {{"rows", "3000", "polynomials times monomials"},
         {"cols", "4000", "monomials"},
         {"polynomials", "12", "that are multiplied"},
         {"terms", "40", "of each polynomial: entries of a row"},
         {"reach", "800", "columns over which they lie"},
         {"values", "integers", "as for the other generators, but integers unless said otherwise"}}},
       plan_macaulay}};
}

}  // namespace stages::recipes
