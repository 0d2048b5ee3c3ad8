// Dense matrices from columns to rows and back, tile by tile through shared memory.
//
// The idea: a warp reads 32 elements that lie side by side in one layout and writes 32 that lie side by side
// in the other. Between the two stands a tile of 32 x 32 in shared memory, whose lines are 33 long, so that
// the lanes that read it across do not meet in one bank.
//
// Cost: each element read once and written once (twice read where beta asks for the old one).

#include "07_spmm/row_major.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kTile = 32;
constexpr unsigned kTileRows = 8;    ///< of threads: each does four elements of a tile
constexpr Index kWidestStrip = 256;  ///< columns: no entry rounds them up to more

/// `from`, by columns, into `to`.
template <class T>
__global__ void __launch_bounds__(kTile* kTileRows) to_rows(DenseView<const T> from, RowMajor<T> to) {
  __shared__ T tile[kTile][kTile + 1];
  const Offset top = Offset{blockIdx.x} * kTile;
  for (Offset left = Offset{blockIdx.y} * kTile; left < from.cols; left += Offset{gridDim.y} * kTile) {
    for (unsigned k = threadIdx.y; k < kTile; k += kTileRows) {
      const Offset i = top + threadIdx.x, j = left + k;
      if (i < from.rows && j < from.cols) tile[k][threadIdx.x] = from.data[j * from.ld + i];
    }
    __syncthreads();
    for (unsigned k = threadIdx.y; k < kTile; k += kTileRows) {
      const Offset i = top + k, j = left + threadIdx.x;
      if (i < from.rows && j < from.cols) to.row(static_cast<Index>(i))[j] = tile[threadIdx.x][k];
    }
    __syncthreads();
  }
}

/// to = from + beta to, with `to` by columns. Where beta is 0, what `to` holds is not read.
template <class T>
__global__ void __launch_bounds__(kTile* kTileRows) to_columns(RowMajor<T> from, DenseView<T> to, T beta) {
  __shared__ T tile[kTile][kTile + 1];
  const Offset top = Offset{blockIdx.x} * kTile;
  for (Offset left = Offset{blockIdx.y} * kTile; left < to.cols; left += Offset{gridDim.y} * kTile) {
    for (unsigned k = threadIdx.y; k < kTile; k += kTileRows) {
      const Offset i = top + k, j = left + threadIdx.x;
      if (i < to.rows && j < to.cols) tile[k][threadIdx.x] = from.row(static_cast<Index>(i))[j];
    }
    __syncthreads();
    for (unsigned k = threadIdx.y; k < kTile; k += kTileRows) {
      const Offset i = top + threadIdx.x, j = left + k;
      if (i >= to.rows || j >= to.cols) continue;
      T& element = to.data[j * to.ld + i];
      element = beta == T{0} ? tile[threadIdx.x][k] : tile[threadIdx.x][k] + beta * element;
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(kTile* kTileRows) scale(RowMajor<T> c, Index rows, Index n_cols, T beta) {
  const Offset i = Offset{blockIdx.x} * kTileRows + threadIdx.y;
  if (i >= rows) return;
  T* const line = c.row(static_cast<Index>(i));
  for (Offset j = Offset{blockIdx.y} * kTile + threadIdx.x; j < n_cols; j += Offset{gridDim.y} * kTile) {
    line[j] = beta == T{0} ? T{0} : beta * line[j];
  }
}

unsigned tiles(Offset length) { return std::min(kMostStrips, blocks_for(length, kTile)); }

/// `n_cols` in whole pieces of `bytes`.
template <class T>
Index rounded_up(Index n_cols, Offset bytes) {
  const Offset piece = bytes / Offset{sizeof(T)};
  return narrow<Index>((n_cols + piece - 1) / piece * piece, "the leading dimension of a copy of B or C");
}

/// The leading dimension of a copy of C: whole vectors of 16 bytes, so that every row begins with one.
template <class T>
Index ld_of_c_copy(Index n_cols) {
  return rounded_up<T>(n_cols, kVectorBytes);
}

/// That of a copy of B: whole lines of the caches, so that what gathers a row touches no more of them than it
/// must. For rows of half a line or less, vectors.
template <class T>
Index ld_of_b_copy(Index n_cols) {
  const Offset bytes = n_cols * Offset{sizeof(T)};
  return rounded_up<T>(n_cols, 2 * bytes > kLineBytes ? kLineBytes : kVectorBytes);
}

/// Elements of a copy of a matrix of so many rows; none where it lies by rows already.
std::size_t copy_size(Layout layout, Index rows, Index ld) {
  return layout == Layout::row_major ? 0 : static_cast<std::size_t>(rows) * static_cast<std::size_t>(ld);
}

}  // namespace

template <class T>
void scale_c(const SpmmArgs<T>& product, Index rows, cudaStream_t stream) {
  if (product.beta == T{1}) return;
  if (product.beta == T{0} && product.c.ld == product.n_cols && rows > 0) {
    STAGES_CUDA(cudaMemsetAsync(
        product.c.data, 0,
        static_cast<std::size_t>(rows) * static_cast<std::size_t>(product.n_cols) * sizeof(T), stream));
    return;
  }
  launch(scale<T>,
         {.grid = {blocks_for(rows, kTileRows), tiles(product.n_cols)},
          .block = {kTile, kTileRows},
          .stream = stream},
         product.c, rows, product.n_cols, product.beta);
}

template <class T>
Offset ld_of_b(const SpmmProblem<T>& problem) {
  return problem.b_layout == Layout::row_major ? problem.ldb : ld_of_b_copy<T>(problem.n_cols);
}

template <class T>
RowMajorPlan<T>::RowMajorPlan(const SpmmProblem<T>& problem, Exec& exec)
    : DeviceSpmmPlan<T>(problem, exec),
      b_rows_(copy_size(problem.b_layout, problem.a->cols, ld_of_b_copy<T>(problem.n_cols))),
      c_rows_(copy_size(problem.c_layout, problem.a->rows, ld_of_c_copy<T>(problem.n_cols))) {
  const bool b_copied = problem.b_layout == Layout::col_major,
             c_copied = problem.c_layout == Layout::col_major;
  const DenseView<const T> b = this->b();
  const DenseView<T> c = this->c();
  product_.b = b_copied ? RowMajor<const T>{b_rows_.data(), ld_of_b_copy<T>(problem.n_cols)}
                        : RowMajor<const T>{b.data, static_cast<Index>(b.ld)};
  product_.c = c_copied ? RowMajor<T>{c_rows_.data(), ld_of_c_copy<T>(problem.n_cols)}
                        : RowMajor<T>{c.data, static_cast<Index>(c.ld)};
  b_rows_.fill_bytes(0, this->stream());  // its padding is read along with the last columns, and not used
  product_.n_cols = problem.n_cols;
  product_.alpha = problem.alpha;
  product_.beta = c_copied ? T{0} : problem.beta;  // of a copy: when it is written back
}

template <class T>
void RowMajorPlan<T>::run() {
  const SpmmProblem<T>& problem = this->problem();
  const auto grid_over = [&](Index rows) { return dim3(blocks_for(rows, kTile), tiles(problem.n_cols)); };
  if (problem.b_layout == Layout::col_major)
    launch(to_rows<T>,
           {.grid = grid_over(problem.a->cols), .block = {kTile, kTileRows}, .stream = this->stream()},
           this->b(), RowMajor<T>{b_rows_.data(), product_.b.ld});
  multiply(product_);
  if (problem.c_layout == Layout::col_major)
    launch(to_columns<T>,
           {.grid = grid_over(problem.a->rows), .block = {kTile, kTileRows}, .stream = this->stream()},
           product_.c, this->c(), problem.beta);
}

template <class T>
Cost RowMajorPlan<T>::cost(const SpmmProblem<T>& problem) {
  const auto copies = copy_size(problem.b_layout, problem.a->cols, ld_of_b_copy<T>(problem.n_cols)) +
                      copy_size(problem.c_layout, problem.a->rows, ld_of_c_copy<T>(problem.n_cols));
  return problem_cost(problem).plus_memory(device_csr_bytes(*problem.a) +
                                           static_cast<double>(copies) * sizeof(T));
}

template <class T>
std::optional<std::string> RowMajorPlan<T>::refuse(const SpmmProblem<T>& problem, Exec& /*exec*/) {
  const auto beyond = [](Layout layout, Offset ld) {
    return layout == Layout::row_major && !std::in_range<Index>(ld);
  };
  constexpr Index kMostColumns = std::numeric_limits<Index>::max() - kWidestStrip;
  if (problem.n_cols > kMostColumns)
    return fmt::format("B has {} columns; these kernels take up to {}", problem.n_cols, kMostColumns);
  if (!beyond(problem.b_layout, problem.ldb) && !beyond(problem.c_layout, problem.ldc)) return std::nullopt;
  return fmt::format("the leading dimensions of B and C are {} and {}; these kernels take up to {}",
                     problem.ldb, problem.ldc, std::numeric_limits<Index>::max());
}

#define STAGES_INSTANTIATE(T)                                     \
  template void scale_c(const SpmmArgs<T>&, Index, cudaStream_t); \
  template Offset ld_of_b(const SpmmProblem<T>&);                 \
  template class RowMajorPlan<T>;
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)

}  // namespace stages::spmm
