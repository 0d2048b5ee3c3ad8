// SpMM with the form that fits the matrix: `dense_tiles`, which asks for a row of B once for 16 rows of A, and
// pays with the zeros that fill its tiles up; `whole_rows`, which has nothing to look for between rows, and no
// second kernel; or `balanced`, whatever the rows are. What decides is known before the first product: prepare
// looks at the features below, and goes by a tree of questions (data/rules.txt).
//
// Input: any CSR matrix. Cost: that of the form taken, which the results name, a pass over the rows, and a
// sample of bands of rows for how full tiles would be.

#include "07_spmm/fast/tiles.hpp"
#include "07_spmm/stage.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/rules.hpp"
#include "common/gpu/tensor.hpp"

namespace stages::spmm {
namespace {

template <class T>
Features features_of(const SpmmProblem<T>& problem) {
  const Csr<T>& a = *problem.a;
  const double row_bytes = static_cast<double>(problem.n_cols) * sizeof(T);
  const double operands = row_bytes * (static_cast<double>(a.rows) + a.cols);
  const bool may_be_tiled = sizeof(T) == sizeof(float) && has_tf32();  // else dense_tiles refuses
  Features features = matrix_features(a);
  features.insert(features.end(),
                  {{"row_bytes", row_bytes, ""},
                   {"operands_of_l2", operands / static_cast<double>(device_facts().l2_bytes), ""},
                   {"tiles_busy", may_be_tiled ? tiles_busy(a) : 0, ""}});
  return features;
}

}  // namespace

void add_adaptive(Registry& registry) {
  add_choice<SpmmProblem>(registry, {.name = "07_spmm/adaptive", .idea = "the form that fitted rules name"},
                          "balanced",
                          []<class T>(const SpmmProblem<T>& problem) { return features_of(problem); });
}

}  // namespace stages::spmm
