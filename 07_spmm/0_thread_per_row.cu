// SpMM, a thread per row of C: what one writes first.
//
// The idea: row i of C is the sum of A(i, k) B(k, :) over the row's non-zeros. A thread takes a row, and makes
// one element of it after the other: it goes through the row once for each column of B.
//
// What it suffers from: 32 neighbouring rows are a warp, which works until the longest of them is done, with
// the lanes of the others idle (divergence). Its lanes have different rows of B, so that a load of B touches a
// sector for each lane, and uses 4 or 8 of its 32 bytes. And A is read n_cols times.
//
// Input: any CSR matrix, any number of columns. Cost: nnz x n_cols multiplications, as many loads of A's
// columns, its values and B.
//
// Source: the reference of a course project on SpMM ("D3"), which ran past its time limit on the graph am.

#include "07_spmm/row_major.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 128;

template <class T, class Ptr>
__global__ void multiply(CsrView<T, Ptr> a, SpmmArgs<T> m) {
  const Offset number = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (number >= a.rows) return;
  const auto row = static_cast<Index>(number);
  for (Index column = 0; column < m.n_cols; ++column) {
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
class ThreadPerRow final : public RowMajorPlan<T> {
 public:
  ThreadPerRow(const SpmmProblem<T>& problem, Exec& exec)
      : RowMajorPlan<T>(problem, exec), matrix_(to_device(*problem.a)) {}

 protected:
  void multiply(const SpmmArgs<T>& product) override {
    std::visit(
        [&]<class Ptr>(const DeviceCsr<T, Ptr>& a) {
          launch(spmm::multiply<T, Ptr>,
                 {.grid = blocks_for(a.view().rows, kBlock), .block = kBlock, .stream = this->stream()},
                 a.view(), product);
        },
        matrix_);
  }

 private:
  AnyDeviceCsr<T> matrix_;
};

}  // namespace

void add_thread_per_row(Registry& registry) {
  registry.add<ThreadPerRow>(
      {.name = "07_spmm/thread_per_row", .idea = "a thread per row of C, one element after the other"});
}

}  // namespace stages::spmm
