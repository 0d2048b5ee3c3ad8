#pragma once
// The CUDA runtime API on the CPU: the part that this project uses, with CUDA's names, error codes and
// checks (docs/executor.md). There is one simulated device, whose memory is host memory that is kept apart.
//
// Work on a stream is done at once, which is one of the orders that CUDA allows. While a stream is captured,
// its work is kept in a graph instead; replaying the graph does it again.
//
// Every function returns cudaSuccess or an error that is also remembered for cudaGetLastError; error_detail()
// tells the last one in words: what, where and how to mend it.

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/simt/device.hpp"

/// The codes that are used, with their numbers and texts as CUDA has them.
#define STAGES_SIMT_ERRORS(E)                                                          \
  E(cudaSuccess, 0, "no error")                                                        \
  E(cudaErrorInvalidValue, 1, "invalid argument")                                      \
  E(cudaErrorMemoryAllocation, 2, "out of memory")                                     \
  E(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                \
  E(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")          \
  E(cudaErrorInvalidDevice, 101, "invalid device ordinal")                             \
  E(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                    \
  E(cudaErrorIllegalState, 401, "the operation is not permitted in the current state") \
  E(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")          \
  E(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")            \
  E(cudaErrorLaunchFailure, 719, "unspecified launch failure")                         \
  E(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")  \
  E(cudaErrorNotSupported, 801, "operation not supported")                             \
  E(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")
#define STAGES_SIMT_ERROR(CODE, NUMBER, TEXT) CODE = NUMBER,
enum cudaError_t { STAGES_SIMT_ERRORS(STAGES_SIMT_ERROR) };
#undef STAGES_SIMT_ERROR
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 13
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal };
inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1, cudaHostAllocDefault = 0;

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, major, minor, multiProcessorCount, maxThreadsPerMultiProcessor, l2CacheSize;
};

/// What is known of a kernel. The executor has no compiled code to look at: registers and spilled bytes read as
/// unknown, -1 or SIZE_MAX, never as 0.
struct cudaFuncAttributes {
  std::size_t localSizeBytes = ~std::size_t{0};
  int maxThreadsPerBlock = 1024, numRegs = -1;
};

// ---- memory -----------------------------------------------------------------------------------------------
cudaError_t cudaMalloc(void** p, std::size_t bytes);
cudaError_t cudaFree(void* p);
cudaError_t cudaMallocAsync(void** p, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* p, cudaStream_t stream);
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* p);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void* p, int byte, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* p, int byte, std::size_t bytes, cudaStream_t stream = nullptr);
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes);
template <class T>
cudaError_t cudaMalloc(T** p, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(p), bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** p, std::size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(p), bytes, stream);
}
template <class T>
cudaError_t cudaHostAlloc(T** p, std::size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(p), bytes, flags);
}

// ---- streams, events, graphs ------------------------------------------------------------------------------
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
/// NaN: time on a simulated device is unknown.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop);

// ---- device, errors ---------------------------------------------------------------------------------------
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

namespace stages::simt {

/// The last error of this thread in words, empty if there was none since the last cudaGetLastError.
const std::string& error_detail();

/// The arrays of the simulated device, and the host's that it may use, by address.
std::vector<Span> global_memory();

cudaError_t set_function_attribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t max_active_blocks(int* blocks, int block_size, std::size_t shared_bytes);

/// What a kernel's argument may hold: refuses host memory, freed device memory and unknown addresses. Null
/// and one past the end are fine.
cudaError_t check_argument_pointer(const void* p, int argument);

/// Checks the launch against the device's limits and the stream, and runs or captures it.
cudaError_t submit(Grid grid, cudaStream_t stream);

/// Does `work` as if a kernel of the toolkit did it: the twins of libraries (CUB) use this.
cudaError_t submit_work(cudaStream_t stream, std::function<void()> work);

// Kernels also take small structs of pointers by value. To look inside an aggregate without help from its
// author: count how many initialisers it accepts, then take it apart with a structured binding. Structs of up
// to 12 fields are looked into; they may hold std::array, but no C arrays.
struct AnyField {
  template <class T>
  constexpr operator T() const;
};
template <class T, std::size_t... I>
constexpr bool takes_fields(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyField{})...}; };
}
template <class T, std::size_t N = 13>
constexpr std::size_t count_fields() {
  if constexpr (N == 0) {
    return 0;
  } else if constexpr (takes_fields<T>(std::make_index_sequence<N>{})) {
    return N;
  } else {
    return count_fields<T, N - 1>();
  }
}

template <class T>
cudaError_t check_argument(const T& value, int argument);

template <class... Fields>
cudaError_t check_fields(int argument, const Fields&... fields) {
  cudaError_t error = cudaSuccess;
  static_cast<void>((((error = check_argument(fields, argument)) == cudaSuccess) && ...));
  return error;
}

#define STAGES_SIMT_FIELDS(N, ...)              \
  if constexpr (count_fields<T>() == N) {       \
    const auto& [__VA_ARGS__] = value;          \
    return check_fields(argument, __VA_ARGS__); \
  }
template <class T>
cudaError_t check_argument(const T& value, int argument) {
  if constexpr (std::is_pointer_v<T>) {
    if constexpr (!std::is_function_v<std::remove_pointer_t<T>>) {
      return check_argument_pointer(value, argument);
    }
  } else if constexpr (std::is_aggregate_v<T> && !std::is_array_v<T> && !std::is_union_v<T>) {
    STAGES_SIMT_FIELDS(1, a)
    STAGES_SIMT_FIELDS(2, a, b)
    STAGES_SIMT_FIELDS(3, a, b, c)
    STAGES_SIMT_FIELDS(4, a, b, c, d)
    STAGES_SIMT_FIELDS(5, a, b, c, d, e)
    STAGES_SIMT_FIELDS(6, a, b, c, d, e, f)
    STAGES_SIMT_FIELDS(7, a, b, c, d, e, f, g)
    STAGES_SIMT_FIELDS(8, a, b, c, d, e, f, g, h)
    STAGES_SIMT_FIELDS(9, a, b, c, d, e, f, g, h, i)
    STAGES_SIMT_FIELDS(10, a, b, c, d, e, f, g, h, i, j)
    STAGES_SIMT_FIELDS(11, a, b, c, d, e, f, g, h, i, j, k)
    STAGES_SIMT_FIELDS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  }
  return cudaSuccess;
}
#undef STAGES_SIMT_FIELDS

/// Launches `kernel` with arguments already converted to its parameter types.
template <class... P>
cudaError_t launch_kernel(void (*kernel)(P...), Grid grid, cudaStream_t stream, std::decay_t<P>... args) {
  int argument = 0;
  cudaError_t error = cudaSuccess;
  static_cast<void>((((error = check_argument(args, ++argument)) == cudaSuccess) && ...));
  if (error != cudaSuccess) return error;
  grid.kernel = reinterpret_cast<const void*>(kernel);
  // What is counted of a kernel begins in it: that each thread gets its arguments is not noted.
  grid.invoke = [ kernel, ... args = std::move(args) ]() __attribute__((no_sanitize("thread"))) {
    kernel(args...);
  };
  return submit(std::move(grid), stream);
}

}  // namespace stages::simt

template <class... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute, int value) {
  return stages::simt::set_function_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class... P>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*)(P...)) {
  *attributes = {};
  return cudaSuccess;
}
template <class... P>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*)(P...), int block_size,
                                                          std::size_t shared_bytes) {
  return stages::simt::max_active_blocks(blocks, block_size, shared_bytes);
}
