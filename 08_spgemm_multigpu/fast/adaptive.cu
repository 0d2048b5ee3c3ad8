// SpGEMM by `binned` with the sizes of its forms that fit the matrices, by fitted rules
// (common/gpu/rules.hpp). What each row gets is for binned.cu to say; here is what all rows have in common:
// how many products lanes sort, how large tables are, and whether the host waits for sizes.
//
// Input: any CSR matrices. Cost: that of `binned`; in prepare a pass over A's rows.

#include <algorithm>

#include "08_spgemm_multigpu/stage.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/rules.hpp"

namespace stages {

void add_adaptive_spgemm(Registry& registry) {
  add_choice<SpgemmProblem>(
      registry, {.name = "08_spgemm_multigpu/adaptive", .idea = "binned with sizes that fitted rules name"},
      "binned", []<class T>(const SpgemmProblem<T>& problem) {
        Features features = matrix_features(*problem.a);
        const auto products = static_cast<double>(problem.products);
        features.push_back({"products_a_row", products / std::max(1, problem.a->rows), ""});
        features.push_back({"products_an_sm", products / device_facts().sms, ""});
        return features;
      });
}

}  // namespace stages
