// mpirun -n N mpi_tests TEST[,TEST...] [WORDS]: tests on N ranks, one after the other. Exit code 0: they
// passed.
#include <cstdlib>
#include <exception>
#include <optional>
#include <sstream>

#include "common/mpi/session.hpp"
#include "tests/mpi/checks.hpp"
#ifdef STAGES_HAVE_MULTIGPU
#include "common/multigpu/exec.hpp"
#endif

namespace stages::mpi_tests {
namespace {

/// The test that runs, for messages.
std::string running;

void run(const std::string& name, const std::vector<std::string>& words) {
  if (!tests().contains(name)) fail("'{}' is no test; see tests/mpi", name);
  running = name;
  mpi::MpiCommunicator ranks;
  mpi::MpiExec exec(ranks);
  World world{ranks, exec, words};
#ifdef STAGES_HAVE_MULTIGPU
  std::optional<mpi::MultiGpuExec> gpus;
  if (mpi::multi_gpu_problem(ranks).empty()) world.gpu = &gpus.emplace(ranks);
#endif
  tests().at(name)(world);
  ranks.barrier();
  if (world.root()) fmt::print("{} passed on {} ranks\n", name, ranks.size());
}

/// The first word names the tests, the others are for each of them.
void run_all(std::vector<std::string> words) {
  if (words.empty()) fail("give the names of tests; see tests/mpi/main.cpp");
  std::stringstream names(words.front());
  words.erase(words.begin());
  for (std::string name; std::getline(names, name, ',');) run(name, words);
}

}  // namespace
}  // namespace stages::mpi_tests

int main(int argc, char** argv) {
  stages::mpi::Session session;
  try {
    stages::mpi_tests::run_all({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    session.abort(
        fmt::format("mpi_tests: rank {}: {}: {}\n", session.rank(), stages::mpi_tests::running, error.what()),
        3);
  }
}
