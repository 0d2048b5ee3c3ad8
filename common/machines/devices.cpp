#include "common/machines/devices.hpp"

#ifdef STAGES_HAVE_CUDA
#include "common/gpu/exec.hpp"
#include "common/gpu/facts.hpp"
#endif

namespace stages {
namespace {

/// The GPU, or null and why there is none.
std::pair<std::unique_ptr<Exec>, std::string> find_gpu([[maybe_unused]] KernelLaunch launch) {
#ifdef STAGES_HAVE_CUDA
  if (std::string problem = device_problem(); !problem.empty()) return {nullptr, std::move(problem)};
  const Launch form = launch == KernelLaunch::graph ? Launch::graph : Launch::single;
  return {std::unique_ptr<Exec>(std::make_unique<GpuExec>(form)), std::string()};
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
