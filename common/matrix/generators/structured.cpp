// Matrices whose structure follows from geometry: bands, stencils and finite elements on a grid, roads,
// circuits; and the small ones that tests want: the identity, one diagonal, a full matrix. Their structure is
// symmetric (but for a shifted diagonal or a rectangle), so their values are too.

#include <algorithm>

#include "common/matrix/generators/generators.hpp"
#include "common/matrix/generators/grid.hpp"
#include "common/matrix/random.hpp"

namespace stages::recipes {
namespace {

using random::Purpose;
using random::Word;

Recipe plan_banded(const Parameters& p) {
  const Index n = p.index("n");
  const Index half = std::min(p.index("half_bandwidth"), std::max(n - 1, 0));
  const Word fill = p.share("fill");
  const Word key = random::key(p.seed(), Purpose::keep);
  const Offset entries = Offset{n} * (2 * Offset{half} + 1) - Offset{half} * (Offset{half} + 1);
  return row_recipe(n, n, entries, true, [=](Index i, auto&& emit) {
    const Index end = i < n - half ? i + half : n - 1;
    for (Index j = std::max(0, i - half); j <= end; ++j)
      if (j == i || keeps(key, i, j, fill)) emit(j);
  });
}

/// Entries of the stencil that couples a point with all points one step away in each direction.
Offset full_stencil_entries(const Grid& g) {
  return (3 * Offset{g.nx} - 2) * (3 * Offset{g.ny} - 2) * (3 * Offset{g.nz} - 2);
}

Recipe plan_stencil(const Parameters& p) {
  const std::string_view points = p.choice("points", {"5", "7", "9", "27"});
  const bool star = points == "5" || points == "7";
  const Grid grid = plan_grid(p, points == "7" || points == "27", 1);
  const Offset n = grid.points();
  const Offset star_entries = 7 * n - 2 * (n / grid.nx + n / grid.ny + n / grid.nz);
  const Index reach = star ? 1 : 3;
  return in_order(
      p, row_recipe(grid.points(), grid.points(), star ? star_entries : full_stencil_entries(grid), true,
                    [=](Index i, auto&& emit) { grid.neighbours(i, reach, emit); }));
}

Recipe plan_fem(const Parameters& p) {
  const auto unknowns = static_cast<Index>(p.count("unknowns", 1, 64));
  const Grid grid = plan_grid(p, true, unknowns);
  const Index n = grid.points() * unknowns;
  const auto row = [=](Index i, auto&& emit) {
    grid.neighbours(i / unknowns, 3, [&](Index point) {
      for (Index u = 0; u < unknowns; ++u) emit(point * unknowns + u);
    });
  };
  return in_order(p, row_recipe(n, n, full_stencil_entries(grid) * unknowns * unknowns, true, row));
}

Recipe plan_road(const Parameters& p) {
  const Grid grid = plan_grid(p, false, 1);
  const Word keep = p.share("keep");
  const Word key = random::key(p.seed(), Purpose::keep);
  const Offset n = grid.points();
  const auto row = [=](Index i, auto&& emit) {
    grid.neighbours(i, 1, [&](Index j) {
      if (j != i && keeps(key, i, j, keep)) emit(j);
    });
  };
  return in_order(
      p, row_recipe(grid.points(), grid.points(), 4 * n - 2 * (n / grid.nx + n / grid.ny), true, row));
}

Recipe plan_circuit(const Parameters& p) {
  const Index n = p.index("n", 1);
  const Offset pairs = p.count("per_row", 0, std::min(n, 1'000'000)) * n / 2;
  const Offset rails = p.count("rails", 0, std::min(n, 1000));
  const Offset rail_length = static_cast<Offset>((static_cast<Word>(n) * p.share("rail_share")) >> 32U);
  const Word key = random::key(p.seed(), Purpose::edges);
  const auto nodes = static_cast<Word>(n);
  // Pair k of nodes that are wired together: first each with itself, then neighbours, then the rails.
  const auto wire = [=](Offset k) {
    if (k < n) return place_at(k, k);
    random::Stream words(key, static_cast<Word>(k));
    const Word from = words.below(nodes);
    if (k < n + pairs) {
      // The fourth power of a uniform number: half of the distances are below a sixteenth of the nodes.
      const Word u = words.next();
      const Word square = random::scale(u, u);
      const Word distance = random::scale(random::scale(square, square), nodes);
      return place_at(from, (from + distance) % nodes);
    }
    const Offset rail = (k - n - pairs) / rail_length;
    const Offset place = rail * (n / rails);
    return place_at(place, from);
  };
  return drawn_recipe(n, n, n + pairs + rails * rail_length, true, wire);
}

Recipe plan_eye(const Parameters& p) {
  const Index n = p.index("n");
  return row_recipe(n, n, n, true, [](Index i, auto&& emit) { emit(i); });
}

Recipe plan_diagonal(const Parameters& p) {
  const Index n = p.index("n");
  const Index offset = p.index("offset");
  return row_recipe(n, n, std::max(0, n - offset), false, [=](Index i, auto&& emit) {
    if (i < n - offset) emit(i + offset);
  });
}

Recipe plan_dense(const Parameters& p) {
  const auto shape = p.shape();
  return row_recipe(shape.rows, shape.cols, Offset{shape.rows} * shape.cols, false,
                    [cols = shape.cols](Index, auto&& emit) {
                      for (Index j = 0; j < cols; ++j) emit(j);
                    });
}

}  // namespace

std::vector<Generator> structured_generators() {
  return {{{"banded",
            "entries near the diagonal: splines, time series, reordered meshes",
            "gen:banded:n=2e5,half_bandwidth=20",
            {{"n", "4096", "rows and columns"},
             {"half_bandwidth", "8", "largest distance of an entry from the diagonal"},
             {"fill", "1", "share of the band that is kept (the diagonal always is)"}}},
           plan_banded},
          {{"stencil",
            "finite differences on a grid: heat, pressure, image processing",
            "gen:stencil:points=27,nx=60",
            {{"points", "5", "5 or 9 (on a plane), 7 or 27 (in space)"},
             {"nx", "64", "grid points along x"},
             {"ny", "", "grid points along y; nx if not given"},
             {"nz", "", "grid points along z; nx if not given, for 7 and 27 points"},
             kOrder}},
           plan_stencil},
          {{"fem",
            "dense blocks on a 27-point grid: elasticity with three displacements a node",
            "gen:fem:nx=30",
            {{"nx", "12", "grid points along x"},
             {"ny", "", "grid points along y; nx if not given"},
             {"nz", "", "grid points along z; nx if not given"},
             {"unknowns", "3", "unknowns on each point: the size of the dense blocks"},
             kOrder}},
           plan_fem},
          {{"road",
            "a thinned grid of crossings with 2 to 3 neighbours each: road networks",
            "gen:road:nx=1000,keep=0.6",
            {{"nx", "256", "crossings along x"},
             {"ny", "", "crossings along y; nx if not given"},
             {"keep", "0.6", "share of the grid's roads that exist; 0.6 gives 2.4 neighbours a crossing"},
             kOrder}},
           plan_road},
          {{"circuit",
            "a diagonal, mostly near neighbours, and a few nodes wired to very many: circuit simulation",
            "gen:circuit:n=2e4,per_row=4,rails=2",
            {{"n", "2e4", "nodes"},
             {"per_row", "4", "mean entries per row off the diagonal; most are near it, some far"},
             {"rails", "2",
              "nodes that touch a share of all others (supply, ground, clock): long rows and columns"},
             {"rail_share", "0.05", "that share"}}},
           plan_circuit},
          {{"eye",
            "the identity: A * I = A",
            "gen:eye:n=1000",
            {{"n", "4096", "rows and columns"},
             {"values", "ones", "as for the other generators, but ones unless said otherwise"}}},
           plan_eye},
          {{"diagonal",
            "one diagonal, shifted if asked: products move rows and columns",
            "gen:diagonal:n=1000,offset=1",
            {{"n", "4096", "rows and columns"}, {"offset", "0", "how far right of the main diagonal"}}},
           plan_diagonal},
          {{"dense",
            "a full matrix in sparse form",
            "gen:dense:rows=64,cols=48",
            {{"n", "64", "rows and columns"}, kRows, kCols}},
           plan_dense}};
}

}  // namespace stages::recipes
