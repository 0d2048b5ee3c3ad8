// SpGEMM by `binned` with the sizes of its forms that fit the matrices, by fitted rules
// (common/gpu/rules.hpp). What each row gets is for binned.cu to say; here is what all rows have in common:
// how many products lanes sort, how large tables and bitmaps are, and whether the host waits for sizes.
//
// Input: any CSR matrices. Cost: that of `binned`; in prepare a pass over A's rows, and the products of a
// sample of them.

#include <algorithm>
#include <vector>

#include "08_spgemm_multigpu/stage.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/rules.hpp"

namespace stages {
namespace {

/// Of a sample of rows of C: how many products a result has, and how many columns of its range a product.
struct Sample {
  double products_a_result = 1, width_a_product = 1;
};

template <class T>
Sample sample_rows(const Csr<T>& a, const Csr<T>& b) {
  constexpr Index kRows = 64;
  constexpr std::size_t kMostProducts = 1 << 16;  // of a row
  double products = 0, results = 0, width = 0;
  std::vector<Index> columns;
  for (Index k = 0; k < std::min(kRows, a.rows); ++k) {
    columns.clear();
    for (const Index row_of_b :
         row_columns(a, static_cast<Index>(Offset{k} * a.rows / std::min(kRows, a.rows)))) {
      const auto of_b = row_columns(b, row_of_b);
      if (columns.size() + of_b.size() > kMostProducts) break;
      columns.insert(columns.end(), of_b.begin(), of_b.end());
    }
    if (columns.empty()) continue;
    products += static_cast<double>(columns.size());
    std::sort(columns.begin(), columns.end());
    width += columns.back() - columns.front() + 1.0;
    results += static_cast<double>(std::unique(columns.begin(), columns.end()) - columns.begin());
  }
  return results > 0 ? Sample{products / results, width / products} : Sample{};
}

}  // namespace

void add_adaptive_spgemm(Registry& registry) {
  add_ruled<SpgemmProblem>(
      registry, {.name = "08_spgemm_multigpu/adaptive", .idea = "binned with sizes that fitted rules name"},
      "binned", []<class T>(const SpgemmProblem<T>& problem) {
        Features features = matrix_features(*problem.a);
        const double products = static_cast<double>(problem.products), rows = std::max(1, problem.a->rows);
        const Sample sample = sample_rows(*problem.a, *problem.b);
        features.insert(features.end(), {{"products_a_row", products / rows, ""},
                                         {"products_an_sm", products / device_facts().sms, ""},
                                         {"products_a_result", sample.products_a_result, ""},
                                         {"width_a_product", sample.width_a_product, ""}});
        return features;
      });
}

}  // namespace stages
