// SpMM, a warp per row of C, a lane per column.
//
// The idea: a row of B is one piece of memory, so a warp takes it together. Each lane has a column of C,
// and its sum in a register until the row is done; then the next 32 columns. For each non-zero the lanes
// read 32 neighbours of one row of B: 128 bytes, four sectors, all of them used. The column and the value
// of the non-zero are the same for all lanes, one address, which one request brings to all.
//
// Input: any CSR matrix, any number of columns. Cost: for each 32 columns all of A, and 32 columns of a row
// of B for each non-zero. What it suffers from: a warp with a row of 100,000 non-zeros works on when all
// others have finished.
//
// Source: step 1 of a course project on SpMM ("D3"), which staged 32 non-zeros at a time in shared memory.

#include "07_spmm/row_major.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 128;

template <class T, class Ptr>
__global__ void multiply(CsrView<T, Ptr> a, SpmmArgs<T> m) {
  const Offset number = (Offset{blockIdx.x} * kBlock + threadIdx.x) / kWarp;
  if (number >= a.rows) return;
  const auto row = static_cast<Index>(number);
  for (Index column = threadIdx.x % kWarp; column < m.n_cols; column += kWarp) {
    T sum = 0;
    for (Ptr p = a.row_ptr[row]; p < a.row_ptr[row + 1]; ++p) {
      const T value = a.values[p];
      const T* const from = m.b.row(a.col_idx[p]);
      sum += value * from[column];
    }
    T& element = m.c.row(row)[column];
    element = m.beta == T{0} ? m.alpha * sum : m.alpha * sum + m.beta * element;
  }
}

template <class T>
class WarpPerRow final : public RowMajorPlan<T> {
 public:
  WarpPerRow(const SpmmProblem<T>& problem, Exec& exec)
      : RowMajorPlan<T>(problem, exec), matrix_(to_device(*problem.a)) {}

 protected:
  void multiply(const SpmmArgs<T>& product) override {
    std::visit(
        [&]<class Ptr>(const DeviceCsr<T, Ptr>& a) {
          launch(
              spmm::multiply<T, Ptr>,
              {.grid = blocks_for(a.view().rows, kBlock / kWarp), .block = kBlock, .stream = this->stream()},
              a.view(), product);
        },
        matrix_);
  }

 private:
  AnyDeviceCsr<T> matrix_;
};

}  // namespace

void add_warp_per_row(Registry& registry) {
  registry.add<WarpPerRow>({.name = "07_spmm/warp_per_row",
                            .idea = "a warp per row of C, each lane a column",
                            .previous = "thread_per_row"});
}

}  // namespace stages::spmm
