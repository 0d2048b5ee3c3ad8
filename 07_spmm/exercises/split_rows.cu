// Task: find the fault, and mend it: long rows are split, and the parts are added to C by atomics.
// Reference: 07_spmm/split_rows
// At most: 660 requests in atomics
//
// A warp takes at most kChunk non-zeros of a row and adds what it gets to C. So C must hold beta C before the
// first of them comes; that is the first kernel. Kernels of this kind were published, and timed, without it:
// the zeros were somebody else's business. Here it is there, and something is wrong with it.
//
// Say before you run it: what does C hold before the run where beta is 0? (See docs/checking.md.) Which
// classes of input will be lost, and for which does it make no difference?

#include "micro/spmm.hpp"

namespace stages {
namespace {

using micro::DeviceRows, micro::kWarp;
constexpr unsigned kBlock = 128;
constexpr std::int32_t kChunk = 64;

template <class T>
__global__ void scale(DenseView<T> c, T beta) {
  const Offset at = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (at >= Offset{c.rows} * c.cols) return;
  T& element = c(static_cast<Index>(at / c.cols), static_cast<Index>(at % c.cols));
  // SOLUTION
  element = beta == T{0} ? T{0} : beta * element;
  // STUDENT
  element *= beta;
  // END
}

/// Block (x, y, z): four rows, a strip of 32 columns, chunk z of each of the rows.
template <class T>
__global__ void add_chunks(DeviceRows<T> a, DenseView<const T> b, DenseView<T> c, T alpha) {
  const unsigned warp = (blockIdx.x * kBlock + threadIdx.x) / kWarp;
  const Index j = static_cast<Index>(blockIdx.y * kWarp + threadIdx.x % kWarp);
  if (warp >= static_cast<unsigned>(a.rows) || j >= c.cols) return;
  const std::int32_t begin = a.row_ptr[warp] + static_cast<std::int32_t>(blockIdx.z) * kChunk;
  const std::int32_t end = min(begin + kChunk, a.row_ptr[warp + 1]);
  if (begin >= end) return;
  T sum = 0;
  for (std::int32_t p = begin; p < end; ++p) sum += a.values[p] * b(a.col_idx[p], j);
  atomicAdd(&c(static_cast<Index>(warp), j), alpha * sum);
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmm(
      registry,
      {.name = "task/split_rows",
       .idea = "chunks of rows, added by atomics",
       .claims = {.bitwise_reproducible = false}},
      []<class T>(const micro::Spmm<T>& p) {
        const auto chunks = static_cast<unsigned>((p.longest() + kChunk - 1) / kChunk);
        launch(scale<T>,
               {.grid = blocks_for(Offset{p.c.rows} * p.c.cols, kBlock), .block = kBlock, .stream = p.stream},
               p.c, p.beta);
        launch(add_chunks<T>,
               {.grid = {blocks_for(p.a.rows, kBlock / kWarp), p.strips(), chunks},
                .block = kBlock,
                .stream = p.stream},
               p.a, p.b, p.c, p.alpha);
      });
}

}  // namespace stages
