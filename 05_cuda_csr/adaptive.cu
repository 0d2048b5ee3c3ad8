// SpMV with the form that fits the matrix, chosen by a rule in prepare.
//
// The idea: no form wins everywhere, and what decides is known before the first product. column_bands.cu is
// far ahead where x is read often enough to be worth a copy in every SM, and far behind where it is not;
// balanced.cu is at home everywhere else. So bands are taken if
//
//   their segments hold 32 entries or more on average (below, what each costs by itself counts more),
//   there are four entries or more for each element of x that blocks copy, and
//   no row holds more than a thousandth of all entries (a segment is one warp's at best).
//
// The numbers are round ones that separate the matrices measured in README.md by a wide margin; they were not
// fitted to any.
//
// Input: any CSR matrix. Cost: that of the form taken, which the results name.

#include <algorithm>
#include <cmath>

#include "05_cuda_csr/stage.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"

namespace stages {
namespace {

/// Whether bands of columns are worth their copies of x.
template <class T>
bool bands_pay(const Csr<T>& a) {
  const DeviceFacts& device = device_facts();
  const double nnz = static_cast<double>(a.nnz());
  const double x_bytes = static_cast<double>(a.cols) * sizeof(T);
  const double bands = std::max(1.0, std::ceil(x_bytes / static_cast<double>(device.shared_per_block_optin)));
  const double copied = device.sms * a.cols / bands;
  Offset longest = 0;
  for (Index i = 0; i < a.rows; ++i) longest = std::max(longest, a.row_nnz(i));
  return nnz >= 32 * bands * a.rows && nnz >= 4 * copied && nnz >= 1000 * static_cast<double>(longest);
}

template <class T>
class Adaptive final : public SpmvPlan<T> {
 public:
  Adaptive(const SpmvProblem<T>& problem, Exec& exec)
      : bands_(bands_pay(*problem.a)),
        form_(bands_ ? make_column_bands(problem, exec) : make_balanced(problem, exec)) {}

  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.memory += 2 * device_csr_bytes(*problem.a);
    return cost;
  }

  void load(const SpmvOperands<T>& operands) override { form_->load(operands); }
  void reset() override { form_->reset(); }
  void run() override { form_->run(); }
  Dense<T> fetch() override { return form_->fetch(); }
  std::string note() const override { return bands_ ? "column_bands" : "balanced"; }
  std::vector<Metric> metrics() const override { return form_->metrics(); }

 private:
  bool bands_;
  std::unique_ptr<SpmvPlan<T>> form_;
};

}  // namespace

void add_adaptive(Registry& registry) {
  registry.add<Adaptive>({.name = "05_cuda_csr/adaptive",
                          .idea = "balanced or column_bands, whichever moves fewer bytes by a stated rule",
                          .needs = {.gpu = true}});
}

}  // namespace stages
