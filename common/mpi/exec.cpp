#include "common/mpi/exec.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <utility>

#include "common/harness/machine.hpp"
#include "common/harness/seconds.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/processors.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {
namespace {

/// A number from a file of /sys; -1 where it can't be read.
int number_in(const std::string& path) {
  std::ifstream file(path);
  int value = -1;
  file >> value;
  return file ? value : -1;
}

}  // namespace

Cores cores_here() {
  // Counted over the whole machine, and not over the processors that this process is bound to: mpirun binds
  // each rank to one.
  std::set<std::pair<int, int>> seen;
  int threads = 0;
  for (int cpu = 0;; ++cpu) {
    const std::string topology = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    const int core = number_in(topology + "core_id");
    if (core < 0) break;
    seen.emplace(number_in(topology + "physical_package_id"), core);
    ++threads;
  }
  if (seen.empty()) return {available_processors(), 1};
  const int cores = static_cast<int>(seen.size());
  return {cores, std::max(1, threads / cores)};
}

double oversubscription(const MpiCommunicator& ranks) {
  const int here = ranks.pretends() ? ranks.size() : ranks.node_size();
  return static_cast<double>(here) / cores_here().cores;
}

double MpiExec::measure_copy_bandwidth() {
  // Together the ranks of a node copy four times the last-level cache, and at least 64 MiB each, so that the
  // copies run from memory to memory; the best of five, because anything else only ever slows them down.
  // What is free differs from rank to rank: the least of it.
  const double each = -ranks_.max(-beyond_caches(4, 64.0 * (1 << 20), ranks_.node_size()));
  const auto bytes = static_cast<std::size_t>(each);
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double seconds = time([&] { std::memcpy(to.data(), from.data(), bytes); });
    best = std::max(best, 2.0 * each * ranks_.size() / seconds);
  }
  return best;
}

std::string MpiExec::device() const {
  return fmt::format("{}, {} ranks of one thread", cpu_name(), ranks_.size());
}

std::vector<std::pair<std::string, std::string>> MpiExec::facts() const {
  const Cores here = cores_here();
  char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check(MPI_Get_library_version(library, &length), "asking for the version of MPI");
  const std::string version = library;
  return {{"mpi", version.substr(0, version.find_first_of(",\n"))},
          {"nodes", fmt::format("{}{}", ranks_.nodes(), ranks_.pretends() ? " (pretended)" : "")},
          {"cores", fmt::format("{}", here.cores)},
          {"threads_per_core", fmt::format("{}", here.threads_per_core)},
          {"ranks_per_core", fmt::format("{:.3g}", oversubscription(ranks_))}};
}

double MpiExec::time(const std::function<void()>& work) {
  ranks_.barrier();  // may sleep: after a check the others have waited long for rank 0
  check(MPI_Barrier(ranks_.comm()), "starting together");
  const auto start = std::chrono::steady_clock::now();
  work();
  double seconds = seconds_since(start);
  max_over_ranks(std::span(&seconds, 1), ranks_.comm());
  take_maximum_of_phases();
  return seconds;
}

void MpiExec::take_maximum_of_phases() {
  std::vector<PhaseTime> all = phases();
  double counts[2] = {static_cast<double>(all.size()), -static_cast<double>(all.size())};
  max_over_ranks(counts, ranks_.comm());
  if (counts[0] != -counts[1])
    fail("the ranks went through between {} and {} phases; a Phase must be entered on all of them",
         -counts[1], counts[0]);
  std::vector<double> seconds;
  for (const PhaseTime& phase : all) seconds.push_back(phase.seconds);
  max_over_ranks(seconds, ranks_.comm());
  for (std::size_t k = 0; k < all.size(); ++k) add_phase_time(all[k].name, seconds[k] - all[k].seconds);
}

}  // namespace stages::mpi
