// Task: fill in where non-zero k of row i lies in ELLPACK: neighbours read side by side.
// Step: 05_cuda_csr
// Reference: 05_cuda_csr/thread_per_row
// At most: 13 sectors a request in loads
// At least: 20 lanes a request in loads
//
// ELLPACK gives each row the same number of places, `width`; short rows are filled up. A thread has a row, and
// at step k all threads of a warp read non-zero k of their rows. So the non-zeros number k of all rows should
// lie next to each other: the array is stored step by step, and not row by row.
//
//   rows   0: a0 a1 a2     1: b0 b1     2: c0 c1 c2             width 3
//   array     a0 b0 c0 | a1 b1 c1 | a2 .. c2                    (.. is filled up)
//   step k       0     |     1    |     2                       lanes 0, 1, 2 read side by side
//
// Hint: How many non-zeros lie before a1 in the drawing, and how many before a2?
// Hint: Before the non-zeros number k lie k times as many non-zeros as there are rows.
// Hint: k * rows + i

#include "micro/spmv.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;
constexpr Index kFilled = -1;  ///< the column of a place that no non-zero has

template <class T>
struct Ellpack {
  Index rows = 0;
  Index width = 0;
  const Index* columns = nullptr;
  const T* values = nullptr;
};

/// Where non-zero k of row i lies.
template <class T>
__device__ Index place(const Ellpack<T>& a, Index i, Index k) {
  // SOLUTION
  return k * a.rows + i;
  // STUDENT
  // Your code. Until then the array is taken for one that is stored row by row.
  return i * a.width + k;
  // END
}

template <class T>
__global__ void multiply(Ellpack<T> a, const T* x, T* y) {
  const Index i = static_cast<Index>(blockIdx.x * kBlock + threadIdx.x);
  if (i >= a.rows) return;
  T sum = 0;
  for (Index k = 0; k < a.width; ++k) {
    const Index column = a.columns[place(a, i, k)];
    if (column != kFilled) sum += a.values[place(a, i, k)] * x[column];
  }
  y[i] = sum;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "micro/ellpack_index", .idea = "stored step by step"},
      []<class T>(const auto& /*csr*/, const T* x, T* y, cudaStream_t stream, const Csr<T>& a) {
        const auto width = static_cast<Index>(a.longest_row());
        const auto rows = static_cast<std::size_t>(a.rows);
        std::vector<Index> columns(rows * static_cast<std::size_t>(width), kFilled);
        std::vector<T> values(columns.size(), T{0});
        for (std::size_t i = 0; i < rows; ++i) {
          for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
            const std::size_t to = static_cast<std::size_t>(p - a.row_ptr[i]) * rows + i;
            columns[to] = a.col_idx[static_cast<std::size_t>(p)];
            values[to] = a.values[static_cast<std::size_t>(p)];
          }
        }
        const DeviceArray<Index> on_device{std::span<const Index>(columns)};
        const DeviceArray<T> values_on_device{std::span<const T>(values)};
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream},
               Ellpack<T>{a.rows, width, on_device.data(), values_on_device.data()}, x, y);
      });
}

}  // namespace stages
