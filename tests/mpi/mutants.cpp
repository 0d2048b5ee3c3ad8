// The checker on several ranks: it must reject the faults of the course project's MPI version (tests/mutants
// has them), and accept the same scheme without a fault.
#include "common/harness/check.hpp"
#include "common/matrix/generate.hpp"
#include "tests/mpi/checks.hpp"
#include "tests/mutants/spgemm.hpp"

namespace stages::mpi_tests {
namespace {

using mutants::GatherFault;

/// Rank 0 multiplies for all, with a fault, and the others wait for it.
template <class T>
class MutantOnRoot final : public SpgemmPlan<T> {
 public:
  MutantOnRoot(const SpgemmProblem<T>& problem, Exec& exec, GatherFault fault) : exec_(exec) {
    if (exec.communicator().rank() == 0)
      plan_ = std::make_unique<mutants::FaultyGather<T>>(problem, exec, fault);
  }
  static Cost cost(const SpgemmProblem<T>& problem) { return problem_cost(problem); }

  void load(const SpgemmOperands<T>& operands) override {
    if (plan_) plan_->load(operands);
  }
  void reset() override {
    if (plan_) plan_->reset();
  }
  void run() override {
    if (plan_) plan_->run();
    exec_.communicator().barrier();
  }
  Csr<T> fetch() override { return plan_ ? plan_->fetch() : Csr<T>(); }

 private:
  Exec& exec_;
  std::unique_ptr<SpgemmPlan<T>> plan_;
};

}  // namespace

void mutants(World& world) {
  SpgemmProblem<float> problem;
  if (world.root()) {
    const auto a =
        std::make_shared<const Csr<float>>(generate<float>("gen:uniform:rows=61,cols=61,per_row=7"));
    problem = make_spgemm_problem<float>("mutants", a, a);
  }
  for (const GatherFault fault : {GatherFault::none, GatherFault::values_over_columns,
                                  GatherFault::rows_cut_in_two, GatherFault::padded_shares}) {
    Registry registry;
    registry.add<MutantOnRoot>(
        {.name = "mutant/mpi", .idea = "planted fault", .needs = {.several_ranks = true}}, fault);
    const CheckReport report = check_entry(registry.find("mutant/mpi"), problem, world.exec);
    if (!world.root()) continue;
    require(report.passed() == (fault == GatherFault::none), "fault {} on {} ranks: the checker says '{}'",
            static_cast<int>(fault), world.ranks.size(), report.failure);
    fmt::print("{}\n", report.passed() ? "good" : report.failure);
  }
}

}  // namespace stages::mpi_tests
