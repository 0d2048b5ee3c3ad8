#include "common/cli/machines/ranks.hpp"

#include <fmt/format.h>

#include <cstdlib>

#ifdef STAGES_HAVE_MPI

#include "common/mpi/environment.hpp"
#include "common/mpi/exec.hpp"
#include "common/mpi/session.hpp"
#endif
#ifdef STAGES_HAVE_MULTIGPU
#include "common/multigpu/exec.hpp"
#endif

namespace stages {

#ifdef STAGES_HAVE_MPI

bool Ranks::can_be_started() { return true; }

void bind_ranks(int ranks) {
  const mpi::Cores here = mpi::cores_here();
  const bool enough = ranks <= here.cores;
  setenv("OMPI_MCA_hwloc_base_binding_policy", enough ? "core" : "none", 0);
  const std::string cores = fmt::format("slot:PE={}", enough ? here.cores / ranks : 1);
  setenv("OMPI_MCA_rmaps_base_mapping_policy", enough ? cores.c_str() : "slot", 0);
  if (!enough)
    setenv("OMPI_MCA_mpi_yield_when_idle", ranks > here.cores * here.threads_per_core ? "1" : "0", 0);
}

struct Ranks::State {
  mpi::Session session;
  std::unique_ptr<mpi::MpiCommunicator> ranks;
  std::unique_ptr<mpi::MpiExec> exec;
  std::unique_ptr<Exec> gpus;
  std::string no_gpus;  ///< why not; empty before they were asked for
};

Ranks::Ranks() {
  if (!mpi::started_by_mpirun()) return;
  state_ = std::make_unique<State>();
  rank_ = state_->session.rank();
  size_ = state_->session.size();
}

std::string Ranks::problem() const { return started() ? state_->session.problem() : ""; }

Exec& Ranks::exec() {
  if (!state_->exec) {
    state_->ranks = std::make_unique<mpi::MpiCommunicator>();
    state_->exec = std::make_unique<mpi::MpiExec>(*state_->ranks);
  }
  return *state_->exec;
}

Machine Ranks::machine(bool gpu) {
  exec().copy_bandwidth();  // later only some ranks may ask for it
  if (!gpu) return Machine(exec(), "none of the entries chosen runs on the GPUs of several processes");
  if (!state_->gpus && state_->no_gpus.empty()) {
#ifdef STAGES_HAVE_MULTIGPU
    state_->no_gpus = mpi::multi_gpu_problem(*state_->ranks);
    if (state_->no_gpus.empty()) state_->gpus = std::make_unique<mpi::MultiGpuExec>(*state_->ranks);
#else
    state_->no_gpus = "this build has no way to run CUDA kernels";
#endif
  }
  return state_->gpus ? Machine(exec(), *state_->gpus) : Machine(exec(), state_->no_gpus);
}

Order Ranks::tell(Order order) { return exec().communicator().agreed(order); }

void Ranks::abort(const std::string& text, int code) { state_->session.abort(text, code); }

#else

bool Ranks::can_be_started() { return false; }
void bind_ranks(int /*ranks*/) {}
struct Ranks::State {};
Ranks::Ranks() = default;
std::string Ranks::problem() const { return {}; }
Exec& Ranks::exec() { std::abort(); }
Machine Ranks::machine(bool /*gpu*/) { std::abort(); }
Order Ranks::tell(Order order) { return order; }
void Ranks::abort(const std::string& /*text*/, int /*code*/) { std::abort(); }

#endif

Ranks::~Ranks() = default;

}  // namespace stages
