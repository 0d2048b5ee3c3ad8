// A rank that fails, in the middle of a product, while the others wait for it; and a product that is wrong,
// which the checker on several ranks must reject.
#include <csignal>
#include <cstdlib>
#include <new>

#include "02_mpi/stage.hpp"
#include "common/harness/check.hpp"
#include "common/harness/runner.hpp"
#include "common/mpi/shared_window.hpp"
#include "tests/mpi/checks.hpp"
#include "tests/mutants/spmv.hpp"
#ifdef STAGES_HAVE_MULTIGPU
#include "common/gpu/check.hpp"
#endif

namespace stages::mpi_tests {
namespace {

/// Who fails, and how, and what is wrong with the product; read by the plan, which the registry makes.
struct Planted {
  int rank = -1;
  std::string how;
  mutants::SpmvFault fault = mutants::SpmvFault::none;
};
Planted planted;

void fail_here(int rank) {
  if (rank != planted.rank && planted.how != "all") return;
  if (planted.how == "error" || planted.how == "all") fail("planted: bad input on rank {}", rank);
  if (planted.how == "throw") throw std::runtime_error(fmt::format("planted: exception on rank {}", rank));
  if (planted.how == "memory") throw std::bad_alloc();
  if (planted.how == "kill") std::raise(SIGKILL);
  if (planted.how == "segv") std::raise(SIGSEGV);
#ifdef STAGES_HAVE_MULTIGPU
  if (planted.how == "device") STAGES_CUDA(cudaMemsetAsync(nullptr, 0, 1000, nullptr));
#endif
  if (planted.how == "exit") std::_Exit(0);
  fail("'{}' is no way to fail", planted.how);
}

/// Rank 0 multiplies for all, who wait for it and for each other.
template <class T>
class PlantedPlan final : public SpmvPlan<T> {
 public:
  PlantedPlan(const SpmvProblem<T>& problem, Exec& exec)
      : ranks_(*mpi::ranks_of(exec)), window_(ranks_.node()) {
    window_.reserve(1000);
    if (ranks_.rank() == 0) plan_ = std::make_unique<mutants::FaultySpmv<T>>(problem, exec, planted.fault);
  }
  void load(const SpmvOperands<T>& operands) override {
    if (plan_) plan_->load(operands);
  }
  void reset() override {
    if (plan_) plan_->reset();
  }
  void run() override {
    if (plan_) plan_->run();
    fail_here(ranks_.rank());
    MPI_Barrier(ranks_.comm());
  }
  Dense<T> fetch() override { return plan_ ? plan_->fetch() : Dense<T>(); }

 private:
  mpi::MpiCommunicator& ranks_;
  mpi::SharedWindow window_;  // whose end waits for all ranks, but must not after a failure
  std::unique_ptr<SpmvPlan<T>> plan_;
};

Registry planted_entry(bool on_gpus = false) {
  Registry registry;
  registry.add<PlantedPlan>(
      {.name = "test/planted", .idea = "fails", .needs = {.gpu = on_gpus, .several_ranks = true}});
  return registry;
}

SpmvProblem<float> small_on_root(World& world) {
  if (!world.root()) return {};
  return make_spmv_problem<float>(
      "small", std::make_shared<const Csr<float>>(generate<float>("gen:fixed:n=32,zeros=0.5")));
}

}  // namespace

/// Words: the rank, and the way: error, throw, memory, kill, segv, device (a call to the GPU fails), exit
/// (without MPI_Finalize), or all (every rank has the same Error); `gpu` behind them: in an entry for GPUs.
MPI_TEST(failure) {
  const bool on_gpus = world.words.size() == 3 && world.words[2] == "gpu";
  require(world.words.size() == 2 || on_gpus, "give a rank and a way to fail");
  planted = {std::atoi(world.words[0].c_str()), world.words[1]};
  const Registry registry = planted_entry(on_gpus);
  const Entry* const entry = &registry.find("test/planted");
  Results results;
  const Machine machine = on_gpus ? Machine(world.exec, world.on_gpu()) : Machine(world.exec);
  run_problem(small_on_root(world), std::span(&entry, 1), machine, {}, {}, results);
  fail("the run went on after the planted failure");
}

MPI_TEST(mutants) {
  for (const auto fault : {mutants::SpmvFault::none, mutants::SpmvFault::wrong_last_row}) {
    planted = {.fault = fault};
    const Registry registry = planted_entry();
    const CheckReport report = check_entry(registry.find("test/planted"), small_on_root(world), world.exec);
    require(!world.root() || report.passed() == (fault == mutants::SpmvFault::none),
            "fault {} on {} ranks: the checker says '{}'", static_cast<int>(fault), world.ranks.size(),
            report.failure);
  }
}

}  // namespace stages::mpi_tests
