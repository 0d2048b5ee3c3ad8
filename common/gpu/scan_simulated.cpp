#include "common/gpu/scan.hpp"

#include <functional>
#include <numeric>

namespace stages {

template <class Count, class Sum>
void PrefixSum<Count, Sum>::reserve(std::int64_t n) {
  reserved_ = n;  // the loop below needs no scratch memory
}

template <class Count, class Sum>
void PrefixSum<Count, Sum>::run(const Count* counts, Sum* offsets, std::int64_t n, cudaStream_t stream) {
  STAGES_CUDA(simt::submit_work(stream, [=] {
    offsets[0] = 0;
    std::inclusive_scan(counts, counts + n, offsets + 1, std::plus<Sum>(), Sum{0});
  }));
}

template class PrefixSum<std::int32_t, std::int32_t>;
template class PrefixSum<std::int32_t, std::int64_t>;
template class PrefixSum<std::int64_t, std::int64_t>;

}  // namespace stages
