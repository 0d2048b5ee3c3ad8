// Task: fill in the two kernels: long rows are split, and the parts are added in a fixed order, not by atomics.
// Reference: 07_spmm/equal_shares
// At most: 0 requests in atomics
// No race
//
// The kernel of split_rows.cu adds the parts of a row to C by atomics, in the order in which warps arrive. So
// two runs may differ in the last bits. Here each chunk of a row has a slot of its own: a row of an array as
// wide as C, to which nobody else writes. A second kernel adds the slots of a row in the order of the chunks,
// and writes C. That gives the same bits in each run, and the entry claims it.
//
// Say before you write: why need C not be set to beta C first? What must happen to a row without chunks? And
// how many bytes do the slots take beside C, if most rows have one chunk?

#include <algorithm>
#include <span>
#include <vector>

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;
constexpr unsigned kWarp = 32;
constexpr std::int32_t kChunk = 64;

/// Block (x, y, z): four rows, a strip of 32 columns, chunk z of each of the rows. Chunk z of a row has slot
/// first_slot[row] + z; element j of a slot is slots[slot * columns + j].
template <class T>
__global__ void multiply_chunks(CsrView<T, std::int32_t> a, DenseView<const T> b, Index columns,
                                const Offset* first_slot, T* slots) {
  const unsigned row = (blockIdx.x * kBlock + threadIdx.x) / kWarp;
  const Index j = static_cast<Index>(blockIdx.y * kWarp + threadIdx.x % kWarp);
  if (row >= static_cast<unsigned>(a.rows) || j >= columns) return;
  const std::int32_t begin = a.row_ptr[row] + static_cast<std::int32_t>(blockIdx.z) * kChunk;
  const std::int32_t end = min(begin + kChunk, a.row_ptr[row + 1]);
  if (begin >= end) return;
  T sum = 0;
  for (std::int32_t p = begin; p < end; ++p) sum += a.values[p] * b(a.col_idx[p], j);
  // SOLUTION
  slots[(first_slot[row] + blockIdx.z) * columns + j] = sum;
  // STUDENT
  // The sum goes to the chunk's slot.
  // END
}

/// A thread for each element of C: C = alpha (the sum of its slots) + beta C.
template <class T>
__global__ void add_slots(DenseView<T> c, T alpha, T beta, const Offset* first_slot, const T* slots) {
  const Offset at = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (at >= Offset{c.rows} * c.cols) return;
  const auto row = static_cast<Index>(at / c.cols), j = static_cast<Index>(at % c.cols);
  T sum = 0;
  // SOLUTION
  for (Offset slot = first_slot[row]; slot < first_slot[row + 1]; ++slot) sum += slots[slot * c.cols + j];
  // STUDENT
  // The slots of this row are first_slot[row] up to, but not with, first_slot[row + 1].
  // END
  T& element = c(row, j);
  element = beta == T{0} ? alpha * sum : alpha * sum + beta * element;
}

template <class T>
class MySlots final : public DeviceSpmmPlan<T> {
 public:
  MySlots(const SpmmProblem<T>& problem, Exec& exec) : DeviceSpmmPlan<T>(problem, exec), a_(*problem.a) {
    std::vector<Offset> first{0};
    for (Index i = 0; i < problem.a->rows; ++i) {
      const Offset chunks = (problem.a->row_nnz(i) + kChunk - 1) / kChunk;
      most_ = std::max(most_, chunks);
      first.push_back(first.back() + chunks);
    }
    first_slot_ = DeviceArray<Offset>(std::span<const Offset>(first));
    slots_ =
        DeviceArray<T>(static_cast<std::size_t>(first.back()) * static_cast<std::size_t>(problem.n_cols));
    slots_.fill_bytes(0, this->stream());
  }

  static Cost cost(const SpmmProblem<T>& problem) { return problem_cost(problem); }

  void run() override {
    const Index columns = this->problem().n_cols;
    const auto strips = (static_cast<unsigned>(columns) + kWarp - 1) / kWarp;
    launch(multiply_chunks<T>,
           {.grid = {blocks_for(a_.rows, kBlock / kWarp), strips, static_cast<unsigned>(most_)},
            .block = kBlock,
            .stream = this->stream()},
           a_.view(), this->b(), columns, first_slot_.data(), slots_.data());
    launch(add_slots<T>,
           {.grid = blocks_for(Offset{a_.rows} * columns, kBlock), .block = kBlock, .stream = this->stream()},
           this->c(), this->problem().alpha, this->problem().beta, first_slot_.data(), slots_.data());
  }

 private:
  DeviceCsr<T, std::int32_t> a_;
  Offset most_ = 0;
  DeviceArray<Offset> first_slot_;
  DeviceArray<T> slots_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MySlots>(
      {.name = "task/slots", .idea = "chunks of rows, added in a fixed order", .needs = {.gpu = true}});
}

}  // namespace stages
