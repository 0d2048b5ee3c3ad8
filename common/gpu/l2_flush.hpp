#pragma once
// Cold runs: empties L2 of the operands by writing twice its size of other memory.

#include <algorithm>
#include <cstddef>

#include "common/gpu/facts.hpp"
#include "common/gpu/memory.hpp"

namespace stages {

class L2Flush {
 public:
  L2Flush() : filler_(std::max<std::size_t>(1, 2 * device_facts().l2_bytes)) {}

  /// Asynchronous on `stream`; put it before the timed work.
  void run(cudaStream_t stream) { filler_.zero(stream); }

 private:
  DeviceArray<unsigned char> filler_;
};

}  // namespace stages
