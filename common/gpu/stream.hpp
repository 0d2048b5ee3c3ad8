#pragma once
// Owning streams, events and graphs. All are move-only; destructors report failures on stderr.

#include <optional>
#include <utility>

#include "common/gpu/check.hpp"

namespace stages {

/// A stream that does not synchronise with the legacy default stream.
class Stream {
 public:
  Stream() {
    cudaStream_t stream = nullptr;
    STAGES_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    handle_.reset(stream);
  }
  operator cudaStream_t() const { return handle_.get(); }
  cudaStream_t get() const { return handle_.get(); }
  void synchronize() const { STAGES_CUDA(cudaStreamSynchronize(get())); }

 private:
  detail::Owned<std::remove_pointer_t<cudaStream_t>, cudaStreamDestroy> handle_;
};

/// An event that records time.
class Event {
 public:
  Event() {
    cudaEvent_t event = nullptr;
    STAGES_CUDA(cudaEventCreate(&event));
    handle_.reset(event);
  }
  operator cudaEvent_t() const { return handle_.get(); }
  cudaEvent_t get() const { return handle_.get(); }
  void record(cudaStream_t stream) const { STAGES_CUDA(cudaEventRecord(get(), stream)); }
  void synchronize() const { STAGES_CUDA(cudaEventSynchronize(get())); }

 private:
  detail::Owned<std::remove_pointer_t<cudaEvent_t>, cudaEventDestroy> handle_;
};

/// Times what is put on a stream between start() and stop(), with two events.
class EventTimer {
 public:
  void start(cudaStream_t stream) const { start_.record(stream); }
  void stop(cudaStream_t stream) const { stop_.record(stream); }

  /// Waits for stop and gives the time in seconds; unknown on the executor.
  std::optional<double> seconds() const {
    stop_.synchronize();
    float milliseconds = 0;
    STAGES_CUDA(cudaEventElapsedTime(&milliseconds, start_, stop_));
    if (STAGES_SIMULATED) return std::nullopt;
    return milliseconds * 1e-3;
  }

 private:
  Event start_, stop_;
};

/// A recorded sequence of launches and asynchronous copies, replayed with one call. Worth it for kernels of a
/// few microseconds, where launching one by one costs more than they run.
class Graph {
 public:
  Graph() = default;

  /// Records what `work()` puts on `stream`; nothing of it runs. Pointers and arguments are fixed from then
  /// on. Allocating, synchronising and blocking copies are errors inside.
  template <class Work>
  static Graph capture(cudaStream_t stream, Work&& work) {
    STAGES_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    cudaGraph_t graph = nullptr;
    try {
      std::forward<Work>(work)();
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(stream, &graph));
      if (graph) static_cast<void>(cudaGraphDestroy(graph));
      static_cast<void>(cudaGetLastError());
      throw;
    }
    STAGES_CUDA(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&exec, graph, 0);
    STAGES_CUDA(cudaGraphDestroy(graph));
    check_cuda(status, "cudaGraphInstantiate");
    Graph result;
    result.handle_.reset(exec);
    return result;
  }

  void replay(cudaStream_t stream) const { STAGES_CUDA(cudaGraphLaunch(handle_.get(), stream)); }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  detail::Owned<std::remove_pointer_t<cudaGraphExec_t>, cudaGraphExecDestroy> handle_;
};

}  // namespace stages
