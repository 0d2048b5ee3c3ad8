#include <cub/device/device_scan.cuh>
#include <cub/version.cuh>
#include <cuda/std/functional>

#include "common/gpu/scan.hpp"

// CUB before 2.7 (CUDA 12.8) knows no initial value here, and counts its elements by int.
#if CUB_VERSION < 200700
#define STAGES_OLD_CUB 1
#include <thrust/iterator/transform_iterator.h>
#else
#define STAGES_OLD_CUB 0
#endif

namespace stages {
namespace {

#if STAGES_OLD_CUB
template <class Sum>
struct Widen {
  template <class Count>
  __host__ __device__ Sum operator()(Count count) const {
    return count;
  }
};
#endif

// One call of CUB; with scratch null it only says how many bytes it wants. The initial value, or each element
// where there is none, has the wider type on purpose: CUB sums in the type of initial value + element.
template <class Count, class Sum>
std::size_t scan(void* scratch, std::size_t bytes, const Count* counts, Sum* offsets, std::int64_t n,
                 cudaStream_t stream) {
#if STAGES_OLD_CUB
  const thrust::transform_iterator<Widen<Sum>, const Count*, Sum, Sum> wide(counts, Widen<Sum>{});
  STAGES_CUDA(
      cub::DeviceScan::InclusiveSum(scratch, bytes, wide, offsets, narrow<int>(n, "a prefix sum"), stream));
#else
  STAGES_CUDA(cub::DeviceScan::InclusiveScanInit(scratch, bytes, counts, offsets, cuda::std::plus<>{}, Sum{0},
                                                 n, stream));
#endif
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
