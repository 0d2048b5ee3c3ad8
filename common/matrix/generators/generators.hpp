#pragma once
// What a generator is, and the groups of them. A generator turns parameters into a recipe, which knows its
// size and memory before anything is allocated.

#include <functional>
#include <vector>

#include "common/matrix/generate.hpp"
#include "common/matrix/generators/pattern.hpp"
#include "common/matrix/generators/spec.hpp"
#include "common/matrix/random.hpp"

namespace stages::recipes {

/// A matrix that has been asked for but not made.
struct Recipe {
  Index rows = 0, cols = 0;
  Offset entries = 0;             ///< placed, before repeats fall out: an upper bound of nnz
  bool drawn = false;             ///< made from draws, which takes scratch memory, not row by row
  bool symmetric_values = false;  ///< (i, j) and (j, i) hold the same value
  std::function<Pattern(int threads)> make;
};

struct Generator {
  GeneratorInfo info;
  Recipe (*plan)(const Parameters&);
};

// Each group is a file of its own. Their tables lack what every generator takes: seed and values.
std::vector<Generator> random_generators();      ///< uniform, fixed, hypersparse, hubs, pruned, lp
std::vector<Generator> graph_generators();       ///< rmat, ..., twin, hypergraph
std::vector<Generator> structured_generators();  ///< banded, stencil, fem, road, circuit, eye, ...
std::vector<Generator> mesh_generators();        ///< triangles, neighbours, saddle, bordered, kronecker, ...
std::vector<Generator> course_generators();      ///< d1

/// Beside n, for Parameters::shape().
inline constexpr GeneratorParameter kRows{"rows", "", "rows, if not n"},
    kCols{"cols", "", "columns, if not n"};

/// For recipes whose rows and columns are the same things, in an order that tells where they are.
inline constexpr GeneratorParameter kOrder{
    "order", "natural", "natural: neighbours near each other; shuffled: the same, renumbered"};
Recipe in_order(const Parameters& p, Recipe recipe);

/// A recipe for `count` entries that draw(k) places. With `mirrored`, each is entered at (col, row) too.
template <class Draw>
Recipe drawn_recipe(Index rows, Index cols, Offset count, bool mirrored, Draw draw) {
  Recipe r{rows, cols, mirrored ? 2 * count : count, true, mirrored, {}};
  if (mirrored) {
    r.make = [=](int threads) {
      return pattern_from_draws(rows, cols, 2 * count, threads, [&](Offset k) {
        const Place p = draw(k / 2);
        return k % 2 == 0 ? p : Place{p.col, p.row};
      });
    };
  } else {
    r.make = [=](int threads) { return pattern_from_draws(rows, cols, count, threads, draw); };
  }
  return r;
}

/// `count` entries at distinct places, which `key` picks.
inline Recipe drawn_cells(Index rows, Index cols, Offset count, random::Word key) {
  const random::Permutation permuted(std::max<random::Word>(random::Word(rows) * random::Word(cols), 1), key);
  return drawn_recipe(rows, cols, count, false, [=](Offset k) {
    const random::Word cell = permuted(static_cast<random::Word>(k)), width = random::Word(cols);
    return place_at(cell / width, cell % width);
  });
}

/// A recipe made row by row, for at most `entries` entries; see pattern_from_rows.
template <class Row>
Recipe row_recipe(Index rows, Index cols, Offset entries, bool symmetric_values, Row row) {
  return {rows, cols, entries, false, symmetric_values, [=](int threads) {
            return pattern_from_rows(rows, cols, threads, row);
          }};
}

}  // namespace stages::recipes
