// Task: fill in the loop of a thread: the grid has few threads, whatever the number of rows.
// Step: 03_cuda_naive
// Reference: 03_cuda_naive/dense_transposed
// At most: 2 sectors a request in loads
// At least: 15 lanes a request in loads
//
// A grid need not have a thread for each row. It may have as many as the GPU can run at once, and each thread
// goes on to further rows until there are none. The step from row to row is the number of threads of the
// whole grid, so that neighbouring threads still have neighbouring rows in each round. The same kernel is
// then right for any grid, and what a thread has prepared serves all of its rows. y is 0 before, and sums are
// added to it: a row that two threads take counts twice. Here the grid has 32 threads for floats, and 48 for
// doubles.
//
//   thread          0   1   2  ...  31
//   first round     0   1   2  ...  31
//   second round   32  33  34  ...  63
//   third round    64  65  66  ... (95)      the tail: the loop ends for those that have no row
//
// Hint: Which row comes after row 5 for the thread that has row 5?
// Hint: Turn the `if` into a `for` that begins with the same row, and adds the size of the grid.
// Hint: The whole grid has gridDim.x * blockDim.x threads: for (row = first; row < rows; row += ...).

#include "micro/spmv.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 16;
template <class T>
constexpr unsigned kBlocks = sizeof(T) == 4 ? 2 : 3;  // few, so that each thread has several rows

/// Element i of A x, with element (i, j) of A at a.data[j * a.ld + i].
template <class T>
__device__ T product_of_row(DenseView<const T> a, unsigned row, const T* x) {
  T sum = 0;
  for (Index j = 0; j < a.cols; ++j) sum += a.data[j * a.ld + row] * x[j];
  return sum;
}

template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  const unsigned first = blockIdx.x * blockDim.x + threadIdx.x, rows = static_cast<unsigned>(a.rows);
  // SOLUTION
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned row = first; row < rows; row += threads) y[row] += product_of_row(a, row, x);
  // STUDENT
  // Your code. Until then each thread has one row.
  if (first < rows) y[first] += product_of_row(a, first, x);
  // END
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::ColumnsSpmv>(
      registry, {.name = "micro/grid_stride", .idea = "a thread goes on to further rows"},
      []<class T>(const DenseView<const T>& a, const T* x, T* y, cudaStream_t stream) {
        if (a.rows > 0)
          STAGES_CUDA(cudaMemsetAsync(y, 0, static_cast<std::size_t>(a.rows) * sizeof(T), stream));
        launch(multiply<T>, {.grid = kBlocks<T>, .block = kBlock, .stream = stream}, a, x, y);
      });
}

}  // namespace stages
