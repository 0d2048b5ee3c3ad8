#pragma once
// Several kernels at a time.

#include <algorithm>
#include <array>

#include "common/gpu/exec.hpp"

namespace stages::spgemm {

/// Streams beside the plan's own, for kernels that do not depend on each other. For small matrices the calls
/// count, a microsecond or two each, so no more streams take part than there are kernels.
class SideStreams {
 public:
  static constexpr std::size_t kCalled = 3;  ///< of them, where each call takes the host's time
  static constexpr std::size_t kAll = 7;     ///< where a graph is recorded

  void fork(cudaStream_t main, std::size_t kernels, std::size_t most = kCalled) {
    main_ = main;
    turn_ = 0;
    used_ = std::min(std::max<std::size_t>(kernels, 1) - 1, most);
    if (used_ > 0) start_.record(main);
    for (std::size_t k = 0; k < used_; ++k) STAGES_CUDA(cudaStreamWaitEvent(streams_[k], start_));
  }
  cudaStream_t next() {
    const std::size_t k = turn_++ % (used_ + 1);
    return k == 0 ? main_ : streams_[k - 1].get();
  }
  void join() {
    for (std::size_t k = 0; k < used_; ++k) {
      ends_[k].record(streams_[k]);
      STAGES_CUDA(cudaStreamWaitEvent(main_, ends_[k]));
    }
  }

 private:
  std::array<Stream, kAll> streams_;
  std::array<Event, kAll> ends_;
  Event start_;
  cudaStream_t main_ = nullptr;
  std::size_t turn_ = 0, used_ = 0;
};

}  // namespace stages::spgemm
