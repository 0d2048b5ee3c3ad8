#include "common/gpu/scan.hpp"

namespace stages {

template <class Count, class Sum>
void PrefixSum<Count, Sum>::reserve(std::int64_t n) {
  reserved_ = n;  // the loop below needs no scratch memory
}

template <class Count, class Sum>
void PrefixSum<Count, Sum>::run(const Count* counts, Sum* offsets, std::int64_t n, cudaStream_t stream) {
  STAGES_CUDA(simt::submit_work(stream, [=] {
    Sum sum = 0;
    offsets[0] = sum;
    for (std::int64_t i = 0; i < n; ++i) {
      sum += static_cast<Sum>(counts[i]);
      offsets[i + 1] = sum;
    }
  }));
}

template class PrefixSum<std::int32_t, std::int32_t>;
template class PrefixSum<std::int32_t, std::int64_t>;
template class PrefixSum<std::int64_t, std::int64_t>;

}  // namespace stages
