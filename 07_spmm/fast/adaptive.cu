// SpMM with the form that fits the matrix, chosen by a rule in prepare.
//
// The idea: tiles on tensor cores ask for a row of B once for 16 rows of A, and pay for that with the zeros
// that fill them up. Where non-zeros take a large part of the places, that is the faster way; how large a part
// it is can be counted before the first product, on a sample of the rows (sample_tiles() in tiles.hpp).
//
//   dense_tiles   for floats, where the device has TF32, there are kLeastColumns columns or more, non-zeros
//                 take kLeastFilled of the places in tiles or more, hardly a row is too short for tiles, and
//                 none is much longer than the others: 16 rows are one block's work
//   balanced      otherwise
//
// Input: any CSR matrix. Cost: that of the form taken, which the results name.

#include <algorithm>

#include "07_spmm/stage.hpp"
#include "07_spmm/tiles.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/tensor.hpp"
#include "common/harness/chosen_plan.hpp"

namespace stages::spmm {
namespace {

constexpr Index kLeastColumns = 32;
constexpr double kLeastFilled = 0.3;
constexpr double kMostShortRows = 0.125;  ///< of all rows: they are multiplied one by one, without tiles
constexpr Offset kMostUneven = 8;         ///< times the mean row is the longest

/// The rule above.
template <class T>
bool takes_dense_tiles(const SpmmProblem<T>& problem) {
  if (sizeof(T) > sizeof(float) || !has_tf32() || problem.n_cols < kLeastColumns) return false;
  const Csr<T>& a = *problem.a;
  Offset longest = 0;
  for (Index i = 0; i < a.rows; ++i) longest = std::max<Offset>(longest, a.row_nnz(i));
  if (longest * a.rows > kMostUneven * a.nnz()) return false;
  const TileSample tiles = sample_tiles(a);
  return tiles.filled >= kLeastFilled && tiles.short_rows <= kMostShortRows;
}

template <class T>
Choice choose(const SpmmProblem<T>& problem) {
  if (takes_dense_tiles(problem))
    return {"dense_tiles", [](Registry& registry) { add_dense_tiles(registry); }};
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

void add_adaptive(Registry& registry, const std::string& name) {
  registry.add<Adaptive>(
      {.name = name, .idea = "dense_tiles or balanced, by a stated rule", .needs = {.gpu = true}});
}

}  // namespace stages::spmm
