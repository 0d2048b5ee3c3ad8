// mpirun -n N mpi_tests TEST [WORDS]: one test on N ranks. Exit code 0: it passed.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "common/mpi/session.hpp"
#include "tests/mpi/checks.hpp"
#ifdef STAGES_HAVE_MULTIGPU
#include "common/multigpu/exec.hpp"
#endif

namespace stages::mpi_tests {
namespace {

const std::map<std::string, Test>& tests() {
  static const std::map<std::string, Test> all = {
      {"battery", battery}, {"mutants", mutants},       {"bits", bits},       {"chain", chain},
      {"nodes", nodes},     {"transfers", transfers},   {"dealing", dealing}, {"trials", trials},
      {"clocks", clocks},   {"failure", failure},       {"turns", turns},
#ifdef STAGES_HAVE_MULTIGPU
      {"peers", peers},     {"balance", balance},       {"batches", batches}, {"through_root", through_root},
      {"alone", alone},     {"dealt_bits", dealt_bits},
#endif
  };
  return all;
}

void run(const std::vector<std::string>& words) {
  if (words.empty() || !tests().contains(words.front()))
    fail("give the name of a test; see tests/mpi/main.cpp");
  mpi::MpiCommunicator ranks;
  mpi::MpiExec exec(ranks);
  World world{ranks, exec, {words.begin() + 1, words.end()}};
#ifdef STAGES_HAVE_MULTIGPU
  std::optional<mpi::MultiGpuExec> gpus;
  if (mpi::multi_gpu_problem(ranks).empty()) world.gpu = &gpus.emplace(ranks);
#endif
  tests().at(words.front())(world);
  ranks.barrier();
  if (world.root()) fmt::print("{} passed on {} ranks\n", words.front(), ranks.size());
}

}  // namespace
}  // namespace stages::mpi_tests

int main(int argc, char** argv) {
  stages::mpi::Session session;
  try {
    stages::mpi_tests::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    session.abort(fmt::format("mpi_tests: rank {}: {}\n", session.rank(), error.what()), 3);
  }
}
