// Task: fill in the kernel: C = alpha A B + beta C with a warp per row of C, a lane per column.
// Reference: 07_spmm/warp_per_row
// Speed: gen:rmat:scale=16,edge_factor=16
// At most: 4.1 sectors a request in loads of b
//
// B is dense, with N columns. A warp has one row of C and a strip of 32 of its columns; lane l has column
// first + l. All lanes walk along the same row of A, so its non-zeros are broadcasts, and for each non-zero
// they read 32 neighbouring numbers of a row of B. b(k, j) and c(i, j) give elements, whatever the layout.
//
// Where beta is 0 C must not be read: it may hold anything, also what is no number.
//
// Before you write: how often is each non-zero of A read for N = 32, and how often for N = 256? How often does
// a row of B travel to the SM?

#include "micro/spmm.hpp"

namespace stages {
namespace {

using micro::DeviceRows, micro::kWarp;
constexpr unsigned kBlock = 128;

template <class T>
__global__ void multiply(DeviceRows<T> a, DenseView<const T> b, DenseView<T> c, T alpha, T beta) {
  const unsigned warp = (blockIdx.x * kBlock + threadIdx.x) / kWarp;
  const Index j = static_cast<Index>(blockIdx.y * kWarp + threadIdx.x % kWarp);
  if (warp >= static_cast<unsigned>(a.rows) || j >= c.cols) return;
  const Index i = static_cast<Index>(warp);
  // SOLUTION
  T sum = 0;
  for (std::int32_t p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) sum += a.values[p] * b(a.col_idx[p], j);
  c(i, j) = alpha * sum + (beta == T{0} ? T{0} : beta * c(i, j));
  // STUDENT
  // Your code: the sum over row i of A, and what becomes of C. Until then C is beta C.
  static_cast<void>(alpha);
  static_cast<void>(b);
  c(i, j) = beta == T{0} ? T{0} : beta * c(i, j);
  // END
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmm(registry, {.name = "task/warp_per_row", .idea = "a warp per row of C"},
                  []<class T>(const micro::Spmm<T>& p) {
                    const LaunchConfig config{.grid = {blocks_for(p.a.rows, kBlock / kWarp), p.strips()},
                                              .block = kBlock,
                                              .stream = p.stream};
                    launch(multiply<T>, config, p.a, p.b, p.c, p.alpha, p.beta);
                  });
}

}  // namespace stages
