#include "common/multigpu/exec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <sstream>

#include "common/gpu/facts.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/clocks.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {
namespace {

/// Makes the process's own GPU the current one, before anything of it is used.
Launch bind(const MpiCommunicator& ranks) {
  if (device_problem().empty()) {
    int devices = 1;
    STAGES_CUDA(cudaGetDeviceCount(&devices));
    STAGES_CUDA(cudaSetDevice(ranks.node_rank() % devices));
  }
  return Launch::single;
}

}  // namespace

std::string multi_gpu_problem(MpiCommunicator& ranks) {
  const std::string problem = device_problem();
  const std::string all = all_text(problem.empty() ? "" : problem + "\n", ranks.comm());
  return all.substr(0, all.find('\n'));
}

MultiGpuExec::MultiGpuExec(MpiCommunicator& ranks) : GpuExec(bind(ranks)), ranks_(ranks), word_(1) {
  count_gpus();
  copy_bandwidth();  // later only some ranks may ask for it
  if (!simulated()) measure_to_host();
}

void MultiGpuExec::count_gpus() {
  auto mine = device_facts().uuid;
  if (simulated()) mine = {ranks_.rank(), 0};
  const std::vector<Offset> all = all_gather(mine, ranks_.comm());
  std::map<std::array<Offset, 2>, int> processes;  // of each GPU
  for (std::size_t r = 0; r < all.size(); r += 2) {
    int& of_gpu = processes[{all[r], all[r + 1]}];
    if (r / 2 == static_cast<std::size_t>(ranks_.rank())) turn_ = of_gpu;
    most_sharing_ = std::max(most_sharing_, ++of_gpu);
  }
  sharing_ = processes[mine];
  gpus_ = static_cast<int>(processes.size());
}

void MultiGpuExec::measure_to_host() {
  constexpr int kCopies = 4;
  const DeviceArray<std::byte> from(std::size_t{64} << 20);
  PinnedArray<std::byte> to(from.size());
  double best = 0;
  for (int run = 0; run < 4; ++run) {
    check(MPI_Barrier(ranks_.comm()), "starting together");
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < kCopies; ++k) from.download(to, stream());
    synchronize();
    double seconds = seconds_since(start);
    max_over_ranks(std::span(&seconds, 1), ranks_.comm());
    best = std::max(best, ranks_.size() * kCopies * static_cast<double>(from.bytes()) / seconds);
  }
  to_host_ = best;
}

std::string MultiGpuExec::device() const {
  return fmt::format("{} x {}, {} processes", gpus_, GpuExec::device(), ranks_.size());
}

std::vector<std::pair<std::string, std::string>> MultiGpuExec::facts() const {
  auto out = GpuExec::facts();
  out.emplace_back("gpus", fmt::format("{}", gpus_));
  if (!simulated()) out.emplace_back("gpu_to_host_bytes_per_second", fmt::format("{:.4g}", to_host_));
  return out;
}

double MultiGpuExec::memory_limit() const { return GpuExec::memory_limit() / sharing_; }

void MultiGpuExec::alone(const std::function<void()>& work) {
  take_turns(turn_, most_sharing_, ranks_.comm(), [&] {
    if (is_shared()) {
      // The GPU turns to this process, which takes it a while, before the work begins and its clock.
      word_.zero(stream());
      synchronize();
    }
    work();
    synchronize();
  });
}

double MultiGpuExec::time(const std::function<void()>& work) {
  synchronize();
  ranks_.barrier();  // may sleep: after a check the others have waited long for rank 0
  check(MPI_Barrier(ranks_.comm()), "starting together");
  const auto start = std::chrono::steady_clock::now();
  work();
  STAGES_CUDA(cudaDeviceSynchronize());  // whatever stream it is on
  double seconds = seconds_since(start);
  max_over_ranks(std::span(&seconds, 1), ranks_.comm());
  collect_phases();
  take_longest_phases();
  return seconds;
}

/// By name: a process whose result does not fit has phases that the others haven't.
void MultiGpuExec::take_longest_phases() {
  std::string names;
  for (const PhaseTime& phase : phases()) names += phase.name + "\n";
  std::vector<std::string> all;
  std::istringstream lines(all_text(names, ranks_.comm()));
  for (std::string name; std::getline(lines, name);)
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  std::vector<double> mine(all.size(), 0);
  for (const PhaseTime& phase : phases())
    mine[static_cast<std::size_t>(std::find(all.begin(), all.end(), phase.name) - all.begin())] =
        phase.seconds;
  std::vector<double> longest = mine;
  max_over_ranks(longest, ranks_.comm());
  for (std::size_t k = 0; k < all.size(); ++k) add_phase_time(all[k], longest[k] - mine[k]);
}

double MultiGpuExec::measure_copy_bandwidth() {
  check(MPI_Barrier(ranks_.comm()), "starting together");
  double sum = copy_bytes_per_second();
  sum_over_ranks(std::span(&sum, 1), ranks_.comm());
  return sum;
}

}  // namespace stages::mpi
