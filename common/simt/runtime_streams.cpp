// Streams, events and graphs.

#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "common/simt/runtime_parts.hpp"

struct CUgraph_st {
  std::vector<std::function<cudaError_t()>> work;
};
struct CUgraphExec_st {
  CUgraph_st graph;
};
struct CUstream_st {
  CUgraph_st* capturing = nullptr;  ///< the graph that this stream's work goes into
  bool began = false;               ///< the capture began here, and did not only spread here
  bool blocking = true;             ///< comes after the default stream's work, and that after this one's
};
struct CUevent_st {
  bool recorded = false;
  CUgraph_st* captured_in = nullptr;
};

namespace stages::simt {
namespace {

/// Live handles of all kinds, so that a stale one is an error and not a crash.
template <class Handle>
class Handles {
 public:
  using Object = std::remove_pointer_t<Handle>;
  Handle make() {
    const std::lock_guard lock(mutex_);
    auto object = std::make_unique<Object>();
    const Handle handle = object.get();
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  bool contains(Handle handle) {
    const std::lock_guard lock(mutex_);
    return objects_.contains(handle);
  }
  /// No other object gets the handle if it is `kept`.
  bool destroy(Handle handle, bool kept) {
    const std::lock_guard lock(mutex_);
    auto object = objects_.extract(handle);
    if (kept && object) kept_.push_back(std::move(object.mapped()));
    return !object.empty();
  }
  template <class Visit>
  void each(Visit visit) {
    const std::lock_guard lock(mutex_);
    for (auto& entry : objects_) visit(*entry.second);
    for (auto& object : kept_) visit(*object);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Handle, std::unique_ptr<Object>> objects_;
  std::vector<std::unique_ptr<Object>> kept_;
};

template <class Handle>
Handles<Handle>& handles() {
  static Handles<Handle> instance;
  return instance;
}

/// cudaSuccess where the handle stands for something.
template <class Handle>
cudaError_t stale_unless(bool exists) {
  constexpr const char* kWhat = std::is_same_v<Handle, cudaStream_t>  ? "stream"
                                : std::is_same_v<Handle, cudaEvent_t> ? "event"
                                                                      : "graph";
  if (exists) return cudaSuccess;
  return error(cudaErrorInvalidResourceHandle, "the {} does not exist (any more)", kWhat);
}
template <class Handle>
cudaError_t check_handle(Handle handle) {
  const bool is_default = std::is_same_v<Handle, cudaStream_t> && handle == nullptr;
  return stale_unless<Handle>(is_default || handles<Handle>().contains(handle));
}
template <class Handle>
cudaError_t destroy(Handle handle, bool kept = false) {
  return stale_unless<Handle>(handles<Handle>().destroy(handle, kept));
}

/// The stream that began a capture on this OS thread; blocking calls are errors until it ends.
thread_local cudaStream_t t_capture = nullptr;

/// Tells the observer what comes before the work that now begins on this stream.
void begin_work(cudaStream_t stream) {
  Observer& told = observer();
  told.order(stream, &Observer::kHost);
  if (stream) {
    if (stream->blocking) told.order(stream, nullptr);
  } else {
    handles<cudaStream_t>().each([&](CUstream_st& s) {
      if (s.blocking) told.order(nullptr, &s);
    });
  }
  told.begin_work(stream);
}

bool is_capturing(cudaStream_t stream) {
  return stream && handles<cudaStream_t>().contains(stream) && stream->capturing;
}

}  // namespace

cudaError_t refuse_in_capture(const char* call) {
  if (!t_capture) return cudaSuccess;
  return error(cudaErrorStreamCaptureUnsupported,
               "{} while a stream is being captured; move it out of the captured work", call);
}

cudaError_t refuse_on_captured(cudaStream_t stream, const char* call) {
  if (const auto status = check_handle(stream)) return status;
  return is_capturing(stream) ? refuse_in_capture(call) : cudaSuccess;
}

cudaError_t put(cudaStream_t stream, std::function<cudaError_t()> work) {
  if (is_capturing(stream)) {
    stream->capturing->work.push_back(std::move(work));
    return cudaSuccess;
  }
  if (const auto status = check_handle(stream)) return status;
  if (!stream) {
    if (const auto status = refuse_in_capture("work on the default stream")) return status;
  }
  begin_work(stream);
  return work();
}

cudaError_t end_work() {
  std::string found = observer().end_work();
  return found.empty() ? cudaSuccess : error(cudaErrorLaunchFailure, std::move(found));
}

cudaError_t submit_work(cudaStream_t stream, std::function<void()> work) {
  return put(stream, [work = std::move(work)] {
    work();
    return cudaSuccess;
  });
}

}  // namespace stages::simt

using namespace stages::simt;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = handles<cudaStream_t>().make();
  (*stream)->blocking = flags != cudaStreamNonBlocking;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream && stream == t_capture) t_capture = nullptr;
  return destroy(stream, !observer().forget(stream));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const auto status = check_handle(stream)) return status;
  observer().order(&Observer::kHost, stream);
  return refuse_in_capture("cudaStreamSynchronize");
}

// Work that waits for an event of a capture belongs to that capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const auto status = check_handle(event)) return status;
  if (const auto status = check_handle(stream)) return status;
  if (stream && event->captured_in) stream->capturing = event->captured_in;
  observer().order(stream, event);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (!stream || check_handle(stream) != cudaSuccess)
    return error(cudaErrorStreamCaptureUnsupported, "the default stream cannot be captured; make a stream");
  if (stream->capturing || t_capture) return error(cudaErrorIllegalState, "a capture is in progress already");
  stream->capturing = handles<cudaGraph_t>().make();
  stream->began = true;
  t_capture = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!is_capturing(stream) || !stream->began)
    return error(cudaErrorIllegalState, "no capture began on this stream");
  *graph = stream->capturing;
  t_capture = nullptr;
  handles<cudaStream_t>().each([&](CUstream_st& s) {
    if (s.capturing == *graph) s = {};
  });
  handles<cudaEvent_t>().each([&](CUevent_st& e) {
    if (e.captured_in == *graph) e.captured_in = nullptr;
  });
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (const auto status = check_handle(graph)) return status;
  *exec = handles<cudaGraphExec_t>().make();
  (*exec)->graph = *graph;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const auto status = check_handle(exec)) return status;
  if (is_capturing(stream))
    return error(cudaErrorStreamCaptureUnsupported, "cudaGraphLaunch on a stream that is captured");
  return put(stream, [graph = exec->graph] {
    for (const auto& work : graph.work)
      if (const auto status = work()) return status;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy(graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return destroy(exec); }

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = handles<cudaEvent_t>().make();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  observer().forget(event);
  return destroy(event);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const auto status = check_handle(event)) return status;
  if (const auto status = check_handle(stream)) return status;
  event->captured_in = stream ? stream->capturing : nullptr;
  event->recorded = true;
  observer().forget(event);
  observer().order(event, stream);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto status = check_handle(event)) return status;
  observer().order(&Observer::kHost, event);
  return refuse_in_capture("cudaEventSynchronize");
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  for (const cudaEvent_t event : {start, stop})
    if (const auto status = check_handle(event)) return status;
  if (!start->recorded || !stop->recorded)
    return error(cudaErrorInvalidResourceHandle, "both events must be recorded");
  *milliseconds = std::numeric_limits<float>::quiet_NaN();
  return cudaSuccess;
}
