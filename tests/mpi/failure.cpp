// A rank that fails, in the middle of a product, while the others wait for it.
#include <csignal>
#include <cstdlib>
#include <new>

#include "02_mpi/stage.hpp"
#include "common/harness/runner.hpp"
#include "common/matrix/generate.hpp"
#include "common/mpi/shared_window.hpp"
#include "tests/mpi/checks.hpp"
#ifdef STAGES_HAVE_MULTIGPU
#include "common/gpu/check.hpp"
#endif

namespace stages::mpi_tests {
namespace {

/// Who fails, and how; read by the plan, which the registry makes.
struct Planted {
  int rank = 0;
  std::string how;
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

/// A product whose run waits for all ranks after one of them has failed.
template <class T>
class FailingPlan final : public SpmvPlan<T> {
 public:
  FailingPlan(const SpmvProblem<T>& /*problem*/, Exec& exec)
      : ranks_(*mpi::ranks_of(exec)), window_(ranks_.node()) {
    window_.reserve(1000);
  }
  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }
  void load(const SpmvOperands<T>& /*operands*/) override {}
  void reset() override {}
  void run() override {
    fail_here(ranks_.rank());
    MPI_Barrier(ranks_.comm());
  }
  Dense<T> fetch() override { return {}; }

 private:
  mpi::MpiCommunicator& ranks_;
  mpi::SharedWindow window_;  // whose end waits for all ranks, but must not now
};

}  // namespace

/// Words: the rank, and the way: error, throw, memory, kill, segv, device (a call to the GPU fails), exit
/// (without MPI_Finalize), or all (every rank has the same Error); `gpu` behind them: in an entry for GPUs.
void failure(World& world) {
  const bool on_gpus = world.words.size() == 3 && world.words[2] == "gpu";
  require(world.words.size() == 2 || on_gpus, "give a rank and a way to fail");
  require(!on_gpus || world.gpu != nullptr, "no kernel can run here");
  planted = {std::atoi(world.words[0].c_str()), world.words[1]};
  Registry registry;
  registry.add<FailingPlan>(
      {.name = "test/fails", .idea = "fails", .needs = {.gpu = on_gpus, .several_ranks = true}});
  SpmvProblem<float> problem;
  if (world.root()) {
    problem = make_spmv_problem<float>(
        "small", std::make_shared<const Csr<float>>(generate<float>("gen:fixed:n=32,zeros=0.5")));
  }
  const Entry* const entry = &registry.find("test/fails");
  Results results;
  const Machine machine = on_gpus ? Machine(world.exec, *world.gpu) : Machine(world.exec);
  run_problem(problem, std::span(&entry, 1), machine, {}, {}, results);
  fail("the run went on after the planted failure");
}

}  // namespace stages::mpi_tests
