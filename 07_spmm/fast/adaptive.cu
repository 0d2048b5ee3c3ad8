// SpMM with the form that fits the matrix, chosen by rules in prepare: the first that holds.
//
//   dense_tiles   asks for a row of B once for 16 rows of A, and pays with the zeros that fill its tiles up.
//                 For floats, where the device has TF32, non-zeros take kFilled of the places in tiles or more
//                 (kFilledOfMany with kManyColumns of B), and there are kFewColumns columns or more; where
//                 hardly a row is too short for tiles, the mean row fills four, and the longest is not much
//                 longer; and where there are blocks enough for the tiles
//   whole_rows    has nothing to look for between rows, and no second kernel. Where rows are about equally
//                 long, near rows ask for the same rows of B, and these have one line at most: wider ones
//                 take longer to bring than ends of rows to find. Where there are many rows, and more than
//                 half a line of B, only if they are long enough for two batches
//   balanced      otherwise
//
// How full tiles are, and how often rows of B are asked for, is counted on samples (tiles.hpp,
// granularity.hpp).
//
// Input: any CSR matrix. Cost: that of the form taken, which the results name.

#include "07_spmm/fast/adaptive.hpp"

#include <algorithm>
#include <cmath>

#include "07_spmm/fast/granularity.hpp"
#include "07_spmm/fast/packed_b.hpp"
#include "07_spmm/tile_plan.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/tensor.hpp"
#include "common/harness/chosen_plan.hpp"

namespace stages::spmm {
namespace {

constexpr Index kFewColumns = 8, kManyColumns = 32;
constexpr double kFilled = 0.3, kFilledOfMany = 0.18;
constexpr double kMostShortRows = 0.125;  ///< of all rows: they are multiplied one by one, without tiles
constexpr Index kFourTiles = 4 * kTileColumns;
constexpr double kTilesOfBlock = 8;    ///< of a band, for each block of the grid that is there
constexpr Index kTwoBatches = 16;      ///< of loads
constexpr Offset kUnevenForTiles = 8;  ///< times the mean row is the longest
constexpr Offset kUnevenForRows = 4;

/// Whether no row has more than `times` as many non-zeros as the mean row.
template <class T>
bool is_even(const Csr<T>& a, Offset times) {
  Offset longest = 0;
  for (Index i = 0; i < a.rows; ++i) longest = std::max<Offset>(longest, a.row_nnz(i));
  return longest * a.rows <= times * a.nnz();
}

template <class T>
bool takes_dense_tiles(const SpmmProblem<T>& problem) {
  const Csr<T>& a = *problem.a;
  const Index n_cols = problem.n_cols;
  if (sizeof(T) > sizeof(float) || !has_tf32() || n_cols < kFewColumns) return false;
  if (a.nnz() < Offset{kFourTiles} * a.rows || !is_even(a, kUnevenForTiles)) return false;
  const TileSample sample = sample_tiles(a);
  if (sample.filled < (n_cols < kManyColumns ? kFilled : kFilledOfMany)) return false;
  const double bands = std::ceil(a.rows / double{kTileRows}), strips = std::ceil(n_cols / double{kTileStrip});
  const double tiles = static_cast<double>(a.nnz()) / (sample.filled * kTileRows * kTileColumns);
  return sample.short_rows <= kMostShortRows && tiles <= kTilesOfBlock * bands * strips * bands;
}

template <class T>
bool takes_whole_rows(const SpmmProblem<T>& problem) {
  const Offset bytes = problem.n_cols * Offset{sizeof(T)};
  if (bytes > kLineBytes || !rows_are_aligned<T>(ld_of_b(problem)) || !is_even(*problem.a, kUnevenForRows))
    return false;
  const Shape shape = shape_of(problem);
  return is_local(shape) && (2 * bytes <= kLineBytes || !has_many(shape) || has_mean_row(shape, kTwoBatches));
}

template <class T>
Choice choose(const SpmmProblem<T>& problem) {
  switch (form_for(problem)) {
    case Form::dense_tiles:
      return {"dense_tiles", [](Registry& registry) { add_dense_tiles(registry); }};
    case Form::whole_rows:
      return {"whole_rows", [](Registry& registry) { add_whole_rows(registry); }};
    case Form::balanced:
      break;
  }
  return {"balanced", [](Registry& registry) { add_balanced(registry); }};
}

template <class T>
class Adaptive final : public ChosenPlan<SpmmProblem<T>> {
 public:
  Adaptive(const SpmmProblem<T>& problem, Exec& exec)
      : ChosenPlan<SpmmProblem<T>>(choose(problem), problem, exec) {}

  static Cost cost(const SpmmProblem<T>& problem) {
    return choose(problem).template implementation<SpmmProblem<T>>().cost(problem);
  }
  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec& exec) {
    return choose(problem).template implementation<SpmmProblem<T>>().refuse(problem, exec);
  }
};

}  // namespace

template <class T>
Form form_for(const SpmmProblem<T>& problem) {
  if (problem.a->nnz() == 0) return Form::balanced;
  if (takes_dense_tiles(problem)) return Form::dense_tiles;
  return takes_whole_rows(problem) ? Form::whole_rows : Form::balanced;
}

void add_adaptive(Registry& registry, const std::string& name) {
  registry.add<Adaptive>(
      {.name = name, .idea = "dense_tiles, whole_rows or balanced, by stated rules", .needs = {.gpu = true}});
}

template Form form_for(const SpmmProblem<float>&);
template Form form_for(const SpmmProblem<double>&);

}  // namespace stages::spmm
