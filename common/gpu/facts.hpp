#pragma once
// What a plan must know of the device and of a compiled kernel. What the executor cannot know is empty, not 0.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/gpu/backend.hpp"

namespace stages {

struct DeviceFacts {
  std::string name;
  bool simulated = false;
  int cc_major = 0, cc_minor = 0;  ///< compute capability
  int sms = 0;                     ///< streaming multiprocessors
  int max_threads_per_sm = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_per_block = 0;        ///< dynamic shared memory without allow_shared_bytes
  std::size_t shared_per_block_optin = 0;  ///< with it
  std::size_t shared_per_sm = 0;
  std::size_t registers_per_sm = 0;  ///< 32-bit registers
  std::size_t memory_bytes = 0;
  std::array<std::int64_t, 2> uuid = {};        ///< whatever the device's number here; 0 on the executor
  int driver_version = 0, runtime_version = 0;  ///< CUDA's numbers: 13000 is 13.0
};

/// Why no kernel can run here (no GPU, too old a driver, no code for this GPU, ...), in words; empty when all
/// is well. Leaves the device alone: no memory of it is taken.
std::string device_problem();

/// Facts of the current device, asked once. Throws Error when there is none.
const DeviceFacts& device_facts();

/// The compute capability that kernels were compiled for which run here, as 75 or 90: what __CUDA_ARCH__ / 10
/// is in them. It may be less than the device's: on an H100, code compiled for an A100 alone is code of 80.
/// So a kernel's launch asks this, and not the device, where the kernel has another form for older devices.
int code_capability();

/// Whether kernels may be launched `early` (launch.hpp) here: programmatic dependent launch.
inline bool can_launch_early() { return code_capability() >= 90; }

/// Bytes of device memory that can be allocated now.
std::size_t free_device_bytes();

/// Bytes a second that a device-to-device copy of 256 MiB or more moves, reads and writes counted; the best
/// of several, measured at the first call (some milliseconds) and kept. 0 on the executor.
double copy_bytes_per_second();

/// Read from the compiled kernel.
struct KernelFacts {
  std::optional<int> registers;              ///< per thread
  std::optional<std::size_t> spilled_bytes;  ///< local memory per thread
  int max_threads_per_block = 0;
};

KernelFacts kernel_facts(const cudaFuncAttributes& attributes);

template <class... P>
KernelFacts kernel_facts(void (*kernel)(P...));

}  // namespace stages

#include "common/gpu/check.hpp"

template <class... P>
stages::KernelFacts stages::kernel_facts(void (*kernel)(P...)) {
  cudaFuncAttributes attributes = {};
  STAGES_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  return kernel_facts(attributes);
}
