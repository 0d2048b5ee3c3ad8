// Task: fill in the two kernels: long rows are split, and the parts are added in a fixed order, not by atomics.
// Reference: 07_spmm/balanced
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

#include "micro/spmm.hpp"

namespace stages {
namespace {

using micro::DeviceRows, micro::kWarp;
constexpr unsigned kBlock = 128;
constexpr std::int32_t kChunk = 64;

/// Block (x, y, z): four rows, a strip of 32 columns, chunk z of each of the rows. Chunk z of a row has slot
/// first_slot[row] + z; element j of a slot is slots[slot * columns + j].
template <class T>
__global__ void multiply_chunks(DeviceRows<T> a, DenseView<const T> b, Index columns,
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

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmm(
      registry, {.name = "task/slots", .idea = "chunks of rows, added in a fixed order"},
      []<class T>(const micro::Spmm<T>& p) {
        std::vector<Offset> first{0};
        for (Index i = 0; i < p.host.rows; ++i)
          first.push_back(first.back() + (p.host.row_nnz(i) + kChunk - 1) / kChunk);
        const DeviceArray<Offset> first_slot{std::span<const Offset>(first)};
        DeviceArray<T> slots(static_cast<std::size_t>(first.back()) * static_cast<std::size_t>(p.c.cols));
        slots.fill_bytes(0, p.stream);
        const auto chunks = static_cast<unsigned>((p.longest() + kChunk - 1) / kChunk);
        launch(multiply_chunks<T>,
               {.grid = {blocks_for(p.a.rows, kBlock / kWarp), p.strips(), chunks},
                .block = kBlock,
                .stream = p.stream},
               p.a, p.b, p.c.cols, first_slot.data(), slots.data());
        launch(add_slots<T>,
               {.grid = blocks_for(Offset{p.c.rows} * p.c.cols, kBlock), .block = kBlock, .stream = p.stream},
               p.c, p.alpha, p.beta, first_slot.data(), slots.data());
      });
}

}  // namespace stages
