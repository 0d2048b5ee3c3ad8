// Task: fill in where the value of a set bit lies: the bits before it are counted.
// Step: 06_cuda_register
// Reference: 05_cuda_csr/thread_per_row
// At most: 22,500 requests in loads
// At most: 3,150 barriers
//
// 32 columns of a row are one word: bit c is set where there is a non-zero. The values lie packed, one behind
// the other, and no column number is stored: a non-zero takes one bit instead of 32. Lane c of a warp has
// column c of the word. Its value comes behind those of the lower bits that are set; their number is the bit's
// rank. To count them takes no load and no shuffle: what the limits leave is for the rest of the kernel.
//
//   lane       7 6 5 4 3 2 1 0
//   word       0 1 0 0 1 1 0 1            values  v0 v1 v2 v3
//   lane 3             ^                  bits before lane 3: 0 and 2, so rank 2: v2
//              word & ((1 << 3) - 1) = 00000101, which has 2 ones
//
// Hint: Lane 6 has a non-zero. How many non-zeros of the word come before it?
// Hint: A mask with ones at all places below `lane` cuts off the rest, and __popc counts the ones.
// Hint: The place is begin + __popc(word & ((1u << lane) - 1u)).

#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::kWarp;
constexpr unsigned kBlock = 128;

/// A by bitmaps: the words of row i are words[i * width] .. words[(i + 1) * width - 1].
template <class T>
struct Bitmaps {
  Index rows = 0;
  Index width = 0;  ///< words of a row
  const unsigned* words = nullptr;
  const std::int32_t* row_ptr = nullptr;  ///< where the values of a row begin
  const T* values = nullptr;
};

/// Where the value of the set bit `lane` of a word lies; `begin` is where those of the word begin.
__device__ std::int32_t place(std::int32_t begin, unsigned word, unsigned lane) {
  // SOLUTION
  return begin + __popc(word & ((1u << lane) - 1u));
  // STUDENT
  // Your code. Until then all bits of a word have the word's first value.
  static_cast<void>(word), static_cast<void>(lane);
  return begin;
  // END
}

template <class T>
__global__ void multiply(Bitmaps<T> a, const T* x, T* y) {
  const auto i = static_cast<Index>((blockIdx.x * kBlock + threadIdx.x) / kWarp);
  const unsigned lane = threadIdx.x % kWarp;
  if (i >= a.rows) return;
  std::int32_t begin = a.row_ptr[i];
  T sum = 0;
  for (Index w = 0; w < a.width; ++w) {
    const unsigned word = a.words[i * a.width + w];
    if ((word >> lane & 1u) != 0)
      sum += a.values[place(begin, word, lane)] * x[static_cast<unsigned>(w) * kWarp + lane];
    begin += __popc(word);
  }
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(micro::kAllLanes, sum, d);
  if (lane == 0) y[i] = sum;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "micro/bitmap_rank", .idea = "a bit for an entry"},
      []<class T>(const micro::DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream, const Csr<T>& host) {
        const Index width = (a.cols + 31) / 32;
        std::vector<unsigned> bits(static_cast<std::size_t>(a.rows) * static_cast<std::size_t>(width), 0u);
        for (Index i = 0; i < a.rows; ++i) {
          for (const Index column : row_columns(host, i))
            bits[static_cast<std::size_t>(i) * static_cast<std::size_t>(width) +
                 static_cast<std::size_t>(column) / kWarp] |= 1u << static_cast<unsigned>(column) % kWarp;
        }
        const DeviceArray<unsigned> words{std::span<const unsigned>(bits)};
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock / kWarp), .block = kBlock, .stream = stream},
               Bitmaps<T>{a.rows, width, words.data(), a.row_ptr, a.values}, x, y);
      });
}

}  // namespace stages
