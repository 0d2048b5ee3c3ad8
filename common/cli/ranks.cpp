#include "common/cli/ranks.hpp"

#include <cstdlib>

#ifdef STAGES_HAVE_MPI
#include <optional>

#include "common/mpi/environment.hpp"
#include "common/mpi/exec.hpp"
#include "common/mpi/session.hpp"
#endif

namespace stages {

#ifdef STAGES_HAVE_MPI

struct Ranks::State {
  mpi::Session session;
  std::unique_ptr<mpi::MpiCommunicator> ranks;
  std::unique_ptr<mpi::MpiExec> exec;
};

Ranks::Ranks() {
  if (!mpi::started_by_mpirun()) return;
  state_ = std::make_unique<State>();
  rank_ = state_->session.rank();
  size_ = state_->session.size();
}

Exec& Ranks::exec() {
  if (!state_->exec) {
    state_->ranks = std::make_unique<mpi::MpiCommunicator>();
    state_->exec = std::make_unique<mpi::MpiExec>(*state_->ranks);
  }
  return *state_->exec;
}

Order Ranks::tell(Order order) {
  exec().communicator().broadcast(&order, sizeof order);
  return order;
}

void Ranks::abort(const std::string& text, int code) {
  state_->session.abort(text, code);
}

#else

struct Ranks::State {};
Ranks::Ranks() = default;
Exec& Ranks::exec() {
  std::abort();
}
Order Ranks::tell(Order order) {
  return order;
}
void Ranks::abort(const std::string& /*text*/, int /*code*/) {
  std::abort();
}

#endif

Ranks::~Ranks() = default;

}  // namespace stages
