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

#ifdef STAGES_HAVE_CUDA
namespace {

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

}  // namespace
#endif

Devices::Devices([[maybe_unused]] bool graphs) {
#ifdef STAGES_HAVE_CUDA
  std::string problem = device_problem();
  if (problem.empty()) {
#if STAGES_SIMULATED
    // Now, so that what is wrong is told before anything has run.
    simt::numbers();
    simt::observer();
    if (const char* const schedule = std::getenv("STAGES_SCHEDULE")) simt::set_schedule(schedule);
#endif
    gpu_ = std::make_unique<TheGpu>(graphs ? Launch::graph : Launch::single);
  }
#else
  std::string problem = "this build has no way to run CUDA kernels";
#endif
  gpu_ ? machine_.emplace(host_, *gpu_) : machine_.emplace(host_, std::move(problem));
}

}  // namespace stages
