#pragma once
// Launching kernels: launch(kernel, {grid, block, shared_bytes, stream}, args...). One form for both
// backends, because kernel<<<...>>>(...) is not C++. The arguments are converted to the kernel's parameter
// types as in a call; errors are thrown with the file and line of the launch.

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#include "common/gpu/check.hpp"

namespace stages {

/// How to launch. Sizes: `grid` in blocks, `block` in threads, `shared_bytes` of dynamic shared memory (more
/// than 48 KiB needs allow_shared_bytes first). `cooperative`: all blocks run at once and may use grid_sync
/// and wait for each other. `cluster`: blocks per thread-block cluster (cluster.hpp); on the executor the
/// grid must be one cluster. `early`: blocks may start when all those of the kernel before it on the stream
/// have called let_next_kernel_start() or ended (device.hpp), which hides what a launch costs; every thread
/// must call wait_for_earlier_kernel() before it touches what that kernel reads or writes. Only where
/// can_launch_early() (facts.hpp).
struct LaunchConfig {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false;
  unsigned cluster = 1;
  bool early = false;
  std::source_location where = std::source_location::current();
};

/// Blocks of `per_block` items for `items` of them. Throws Error above 2^31 - 1, the limit of a grid's x.
inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>(narrow<std::int32_t>((items + per_block - 1) / per_block, "a grid"));
}

/// Launches asynchronously on config.stream. An empty grid is no work and no error (CUDA itself refuses it),
/// so that empty matrices need no special case. Throws Error when the launch is refused; on the executor also
/// when the kernel is at fault, which on a GPU shows at the next synchronisation.
template <class... P, class... Args>
void launch(void (*kernel)(P...), const LaunchConfig& config, Args&&... args) {
  static_assert(sizeof...(P) == sizeof...(Args), "launch: one argument for each parameter of the kernel");
  if (config.grid.x == 0 || config.grid.y == 0 || config.grid.z == 0) return;
#if STAGES_SIMULATED
  const simt::Grid grid{config.grid,        config.block,   config.shared_bytes,
                        config.cooperative, config.cluster, config.where};
  check_cuda(simt::launch_kernel(kernel, grid, config.stream, std::forward<Args>(args)...), "launch",
             config.where);
#else
  std::tuple<std::decay_t<P>...> values(std::forward<Args>(args)...);
  cudaLaunchAttribute attributes[3];
  cudaLaunchConfig_t native = {};
  native.gridDim = config.grid;
  native.blockDim = config.block;
  native.dynamicSmemBytes = config.shared_bytes;
  native.stream = config.stream;
  native.attrs = attributes;
  if (config.cooperative) {
    attributes[native.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[native.numAttrs++].val.cooperative = 1;
  }
  if (config.cluster > 1) {
    attributes[native.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[native.numAttrs].val.clusterDim.x = config.cluster;
    attributes[native.numAttrs].val.clusterDim.y = 1;
    attributes[native.numAttrs++].val.clusterDim.z = 1;
  }
  if (config.early) {
    attributes[native.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[native.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  std::apply(
      [&](auto&... value) {
        void* pointers[sizeof...(P) + 1] = {const_cast<void*>(static_cast<const void*>(&value))..., nullptr};
        check_cuda(cudaLaunchKernelExC(&native, reinterpret_cast<const void*>(kernel), pointers), "launch",
                   config.where);
      },
      values);
#endif
}

/// What a kernel of the current device was allowed until now, by note_allowed_shared_bytes().
std::size_t allowed_shared_bytes(const void* kernel);
void note_allowed_shared_bytes(const void* kernel, std::size_t bytes);

/// Lets `kernel` be launched with up to `bytes` of dynamic shared memory; never takes back what it was allowed
/// before, as a graph may hold such a launch. Throws Error above the device's limit
/// (DeviceFacts::shared_per_block_optin).
template <class... P>
void allow_shared_bytes(void (*kernel)(P...), std::size_t bytes,
                        std::source_location where = std::source_location::current()) {
  const auto* const address = reinterpret_cast<const void*>(kernel);
  if (bytes <= allowed_shared_bytes(address)) return;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  narrow<int>(bytes, "the dynamic shared memory")),
             "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)", where);
  note_allowed_shared_bytes(address, bytes);
}

/// How many blocks of this shape one SM holds at once (times DeviceFacts::sms: the largest cooperative grid).
template <class... P>
int resident_blocks_per_sm(void (*kernel)(P...), int block_threads, std::size_t shared_bytes,
                           std::source_location where = std::source_location::current()) {
  int blocks = 0;
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, block_threads, shared_bytes),
             "cudaOccupancyMaxActiveBlocksPerMultiprocessor", where);
  return blocks;
}

}  // namespace stages
