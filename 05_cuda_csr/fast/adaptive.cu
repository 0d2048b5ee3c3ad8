// SpMV with the form that fits the matrix. No form wins everywhere, and what decides is known before the first
// product: prepare looks at features of the matrix, and goes by a tree that was fitted to measurements
// (data/rules.txt).
//
// Input: any CSR matrix. Cost: that of the form taken, which the results name, and a pass over the rows.

#include "05_cuda_csr/stage.hpp"
#include "common/gpu/rules.hpp"

namespace stages {

void add_adaptive(Registry& registry) {
  add_choice<SpmvProblem>(
      registry, {.name = "05_cuda_csr/adaptive", .idea = "the form that fitted rules name"}, "balanced",
      []<class T>(const SpmvProblem<T>& problem) { return matrix_features(*problem.a); });
}

}  // namespace stages
