// Task: find the fault, and mend it: long rows are split, and the parts are added to C by atomics.
// Reference: 07_spmm/split_rows
// At most: 660 requests in atomics
//
// A warp takes at most kChunk entries of a row and adds what it gets to C. So C must hold beta C before the
// first of them comes; that is the first kernel. Kernels of this kind were published, and timed, without it:
// the zeros were somebody else's business. Here it is there, and something is wrong with it.
//
// Say before you run it: what does C hold before the run where beta is 0? (See docs/checking.md.) Which
// classes of input will be lost, and for which does it make no difference?

#include <algorithm>

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;
constexpr unsigned kWarp = 32;
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
__global__ void add_chunks(CsrView<T, std::int32_t> a, DenseView<const T> b, DenseView<T> c, T alpha) {
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

template <class T>
class MyChunks final : public DeviceSpmmPlan<T> {
 public:
  MyChunks(const SpmmProblem<T>& problem, Exec& exec) : DeviceSpmmPlan<T>(problem, exec), a_(*problem.a) {
    for (Index i = 0; i < problem.a->rows; ++i) longest_ = std::max(longest_, problem.a->row_nnz(i));
  }

  static Cost cost(const SpmmProblem<T>& problem) { return problem_cost(problem); }

  void run() override {
    const Index columns = this->problem().n_cols;
    if (a_.rows == 0 || columns == 0) return;
    launch(scale<T>,
           {.grid = blocks_for(Offset{a_.rows} * columns, kBlock), .block = kBlock, .stream = this->stream()},
           this->c(), this->problem().beta);
    if (longest_ == 0) return;
    const auto strips = (static_cast<unsigned>(columns) + kWarp - 1) / kWarp;
    const auto chunks = static_cast<unsigned>((longest_ + kChunk - 1) / kChunk);
    launch(add_chunks<T>,
           {.grid = {blocks_for(a_.rows, kBlock / kWarp), strips, chunks},
            .block = kBlock,
            .stream = this->stream()},
           a_.view(), this->b(), this->c(), this->problem().alpha);
  }

 private:
  DeviceCsr<T, std::int32_t> a_;
  Offset longest_ = 0;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyChunks>({.name = "task/split_rows",
                          .idea = "chunks of rows, added by atomics",
                          .claims = {.bitwise_reproducible = false},
                          .needs = {.gpu = true}});
}

}  // namespace stages
