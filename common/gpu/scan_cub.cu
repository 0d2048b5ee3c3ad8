#include <cub/device/device_scan.cuh>
#include <cuda/std/functional>

#include "common/gpu/scan.hpp"

namespace stages {
namespace {

// One call of CUB; with scratch null it only says how many bytes it wants. The initial value is given in the
// wider type on purpose: CUB sums in the type of initial value + element.
template <class Count, class Sum>
std::size_t scan(void* scratch, std::size_t bytes, const Count* counts, Sum* offsets, std::int64_t n,
                 cudaStream_t stream) {
  STAGES_CUDA(cub::DeviceScan::InclusiveScanInit(scratch, bytes, counts, offsets, cuda::std::plus<>{}, Sum{0},
                                                 n, stream));
  return bytes;
}

}  // namespace

template <class Count, class Sum>
void PrefixSum<Count, Sum>::reserve(std::int64_t n) {
  if (n <= reserved_) return;
  const std::size_t bytes = scan<Count, Sum>(nullptr, 0, nullptr, nullptr, n, nullptr);
  if (bytes > scratch_.size()) scratch_ = DeviceArray<unsigned char>(bytes);
  reserved_ = n;
}

template <class Count, class Sum>
void PrefixSum<Count, Sum>::run(const Count* counts, Sum* offsets, std::int64_t n, cudaStream_t stream) {
  STAGES_CUDA(cudaMemsetAsync(offsets, 0, sizeof(Sum), stream));
  if (n == 0) return;
  reserve(n);
  scan(scratch_.data(), scratch_.size(), counts, offsets + 1, n, stream);
}

template class PrefixSum<std::int32_t, std::int32_t>;
template class PrefixSum<std::int32_t, std::int64_t>;
template class PrefixSum<std::int64_t, std::int64_t>;

}  // namespace stages
