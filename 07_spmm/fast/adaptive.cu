// SpMM with the form that fits the matrix, chosen by rules in prepare: the first that holds.
//
//   dense_tiles   asks for a row of B once for 16 rows of A, and pays with the zeros that fill its tiles up.
//                 For floats, where the device has TF32, non-zeros take 0.4 of the places in tiles or more
//                 (0.25 with 32 columns of B, 0.18 with 64), and there are 8 columns or more; where
//                 hardly a row is too short for tiles, the mean row fills four, and the longest is not much
//                 longer; and where there are blocks enough for the tiles
//   whole_rows    has nothing to look for between rows, and no second kernel. Where rows of B are aligned and
//                 longer than a vector, and no row of A is so long that its block would be done last: kLongest
//                 and a part in kPartOfLongest of all non-zeros. Beyond that it depends on the columns of B
//                 and the order of whole_rows.hpp:
//
//                   columns        as they lie                    by length
//                   half a line    always                         2 non-zeros a row
//                   up to a line   not many, or 16 a row          6 a row, or hardly any
//                   more           20 to 32 a row                 20 a row; or 9 a row, and hardly any
//
//                 on average; many: granularity.hpp; hardly any: 512 for each SM. By length there
//                 must not be many, and B and C together must fit into three quarters of L2. Beyond these
//                 limits balanced was faster on the matrices tried
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
#include "07_spmm/fast/whole_rows.hpp"
#include "07_spmm/tile_plan.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/tensor.hpp"
#include "common/harness/chosen_plan.hpp"

namespace stages::spmm {
namespace {

constexpr Index kFewColumns = 8;
constexpr double kMostShortRows = 0.125;  ///< of all rows: they are multiplied one by one, without tiles
constexpr Index kFourTiles = 4 * kTileColumns;
constexpr double kTilesOfBlock = 8;    ///< of a band, for each block of the grid that is there
constexpr double kUnevenForTiles = 8;  ///< times the mean row is the longest
constexpr Offset kLongest = 768, kPartOfLongest = 256;
constexpr Offset kHardlyAnyOfSm = 512;

/// How full tiles must be.
double least_filled(Index n_cols) {
  return n_cols < 32 ? 0.4 : n_cols < 64 ? 0.25 : 0.18;
}

template <class T>
bool takes_dense_tiles(const SpmmProblem<T>& problem, const Shape& shape) {
  const Csr<T>& a = *problem.a;
  const Index n_cols = problem.n_cols;
  if (sizeof(T) > sizeof(float) || !has_tf32() || n_cols < kFewColumns) return false;
  if (!has_mean_row(shape, kFourTiles) || !is_even(shape, kUnevenForTiles)) return false;
  const TileSample sample = sample_tiles(a);
  if (sample.filled < least_filled(n_cols)) return false;
  const double bands = std::ceil(a.rows / double{kTileRows}), strips = std::ceil(n_cols / double{kTileStrip});
  const double tiles = static_cast<double>(a.nnz()) / (sample.filled * kTileRows * kTileColumns);
  return sample.short_rows <= kMostShortRows && tiles <= kTilesOfBlock * bands * strips * bands;
}

template <class T>
bool takes_whole_rows(const Shape& shape) {
  const Offset bytes = shape.n_cols * Offset{sizeof(T)};
  if (bytes <= 16 || !rows_are_aligned<T>(shape.ld_of_b)) return false;
  if (shape.longest > kLongest + shape.nnz / kPartOfLongest) return false;
  const bool hardly_any = shape.nnz < kHardlyAnyOfSm * device_facts().sms;
  const auto rows_have = [&](Index nonzeros) { return has_mean_row(shape, nonzeros); };
  if (resolve_rows<T>(RowForm{}, shape).order == RowOrder::as_they_lie) {
    if (bytes > kLineBytes) return rows_have(20) && !rows_have(33);
    return 2 * bytes <= kLineBytes || !has_many(shape) || rows_have(16);
  }
  const double in_use = static_cast<double>(bytes) * (static_cast<double>(shape.rows) + shape.rows_of_b);
  if (has_many(shape) || in_use > 0.75 * static_cast<double>(device_facts().l2_bytes)) return false;
  if (bytes > kLineBytes) return rows_have(20) || (rows_have(9) && hardly_any);
  return 2 * bytes <= kLineBytes ? rows_have(2) : rows_have(6) || hardly_any;
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
  const Shape shape = shape_of(problem);
  if (takes_dense_tiles(problem, shape)) return Form::dense_tiles;
  return takes_whole_rows<T>(shape) ? Form::whole_rows : Form::balanced;
}

void add_adaptive(Registry& registry, const std::string& name) {
  registry.add<Adaptive>(
      {.name = name, .idea = "dense_tiles, whole_rows or balanced, by stated rules", .needs = {.gpu = true}});
}

template Form form_for(const SpmmProblem<float>&);
template Form form_for(const SpmmProblem<double>&);

}  // namespace stages::spmm
