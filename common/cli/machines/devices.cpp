#include "common/cli/machines/devices.hpp"

#include <chrono>
#include <cmath>
#include <cstdlib>

#ifdef STAGES_HAVE_CUDA
#include "common/gpu/exec.hpp"
#include "common/gpu/facts.hpp"
#if STAGES_SIMULATED
#include "common/simt/executor.hpp"
#include "common/simt/numbers.hpp"
#include "common/simt/observer.hpp"
#endif
#endif

namespace stages {
namespace {

#ifdef STAGES_HAVE_CUDA
/// On the executor time can be limited.
class TheGpu final : public GpuExec {
 public:
  using GpuExec::GpuExec;
#if STAGES_SIMULATED
  void limit_time(double seconds) override {
    if (std::isinf(seconds)) return simt::set_deadline({});
    const std::chrono::duration<double> limit(seconds);
    simt::set_deadline(std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit));
  }
  bool was_stopped() const override { return simt::missed_deadline(); }
#endif
};
#endif

/// The GPU, or null and why there is none.
std::pair<std::unique_ptr<Exec>, std::string> find_gpu([[maybe_unused]] KernelLaunch launch) {
#ifdef STAGES_HAVE_CUDA
  if (std::string problem = device_problem(); !problem.empty()) return {nullptr, std::move(problem)};
#if STAGES_SIMULATED
  // Now, so that what is wrong is told before anything has run.
  simt::numbers();
  simt::observer();
  if (const char* const schedule = std::getenv("STAGES_SCHEDULE")) simt::set_schedule(schedule);
#endif
  const Launch form = launch == KernelLaunch::graph ? Launch::graph : Launch::single;
  return {std::unique_ptr<Exec>(std::make_unique<TheGpu>(form)), std::string()};
#else
  return {nullptr, "this build has no way to run CUDA kernels"};
#endif
}

}  // namespace

Devices::Devices(KernelLaunch launch) {
  auto [gpu, problem] = find_gpu(launch);
  gpu_ = std::move(gpu);
  machine_ =
      gpu_ ? std::make_unique<Machine>(host_, *gpu_) : std::make_unique<Machine>(host_, std::move(problem));
}

Devices::~Devices() = default;

}  // namespace stages
