// Task: find the fault in the mask of the shuffles: eight lanes a row, four rows a warp.
// Step: 05_cuda_csr
// Reference: 05_cuda_csr/warp_per_row
// At most: 330 requests in loads of values
//
// Short rows leave most of 32 lanes idle, so a row gets a sub-warp of eight. The mask of a shuffle says which
// lanes come to it: each of them waits for all that are named, at the same line. Here rows with at most eight
// non-zeros go another way than longer ones. Two rows of one warp may then be at different shuffles. (And
// __activemask() is no answer: it says which lanes happen to be together, not which ones you want.) The limit
// leaves a warp about two requests for the values of its four rows.
//
//   lane     0 ...... 7 | 8 ..... 15 | 16 .... 23 | 24 .... 31
//   row          0      |     1      |     2      |     3
//   length       5      |    20      |     3      |    12
//   goes     short way  | long way   | short way  | long way
//   mask     0x000000ff | 0x0000ff00 | 0x00ff0000 | 0xff000000
//
// Hint: The lanes of row 0 name all 32 lanes. Do those of row 1 ever come to the shuffle of the short way?
// Hint: A sub-warp should wait for its own eight lanes only: eight ones, moved to where the sub-warp begins.
// Hint: The sub-warp begins at lane lane - place: move 0xffu to the left by so many places.

#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::DeviceRows, micro::kAllLanes, micro::kWarp;
constexpr unsigned kBlock = 128;
constexpr unsigned kPart = 8;  ///< lanes of a row

template <class T>
__global__ void multiply(DeviceRows<T> a, const T* x, T* y) {
  const unsigned row = (blockIdx.x * kBlock + threadIdx.x) / kPart;
  const unsigned lane = threadIdx.x % kWarp, place = lane % kPart;
  if (row >= static_cast<unsigned>(a.rows)) return;
  // SOLUTION
  const unsigned mask = 0xffu << (lane - place);
  // STUDENT
  const unsigned mask = kAllLanes;
  // END
  const std::int32_t begin = a.row_ptr[row] + static_cast<std::int32_t>(place), end = a.row_ptr[row + 1];
  T sum = begin < end ? a.values[begin] * x[a.col_idx[begin]] : T{0};
  if (end - a.row_ptr[row] <= 8) {  // the short way: the sums of few lanes
    for (unsigned d = kPart / 2; d > 0; d /= 2) sum += __shfl_down_sync(mask, sum, d, kPart);
  } else {
    for (std::int32_t p = begin + 8; p < end; p += 8) sum += a.values[p] * x[a.col_idx[p]];
    for (unsigned d = kPart / 2; d > 0; d /= 2) sum += __shfl_down_sync(mask, sum, d, kPart);
  }
  if (place == 0) y[row] = sum;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "micro/part_of_warp", .idea = "eight lanes a row"},
      []<class T>(const micro::DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream) {
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock / kPart), .block = kBlock, .stream = stream},
               a, x, y);
      });
}

}  // namespace stages
