// Gustavson's algorithm: C(i, :) is a sum of rows of B.
//
// The idea: 4_two_pointer_dot.cpp asks for each row of A and each column of B whether they meet. Here nothing
// is asked. Row i of C is the sum over k of A(i, k) * B(k, :), so each non-zero of A names a row of B, and each
// step is a product. The sums of a row stand in an array with a place for every column, in which the place of a
// product need not be searched: the column number is the address. A column that row i comes to for the first
// time is written down, and at the end of the row these columns are sorted.
//
// B is needed by rows, as it is. last_row_ says which row came to a column last, so the array is not
// cleared from row to row, which would cost rows x columns.
//
// What remains is the sort, n log n steps for n results of a row, in no order that a processor could guess: see
// 6_gustavson_dense.cpp.
//
// Input: any CSR matrices. Cost: one step a product, and the sorts. Memory: columns x (sizeof(T) + 4) bytes,
// and C, whose arrays grow as it is made, each time into twice the room.
//
// Source: F. G. Gustavson, "Two fast algorithms for sparse matrices: multiplication and permuted
// transposition", ACM TOMS 4 (1978).

#include <algorithm>

#include "01_cpu_serial/stage.hpp"

namespace stages {
namespace {

template <class T>
class GustavsonSorted final : public HostSpgemmPlan<T> {
 public:
  GustavsonSorted(const SpgemmProblem<T>& problem, Exec& /*exec*/)
      : HostSpgemmPlan<T>(problem),
        sums_(static_cast<std::size_t>(problem.b->cols)),
        last_row_(static_cast<std::size_t>(problem.b->cols)) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    const double bound = static_cast<double>(problem.result_bound);
    return problem_cost(problem).plus_memory(static_cast<double>(problem.b->cols) *
                                                 (sizeof(T) + sizeof(Index)) +
                                             bound * (sizeof(T) + sizeof(Index)));
  }

  void run() override {
    const CsrView<T>& a = this->a();
    Csr<T>& c = this->c_;
    c = Csr<T>(a.rows, this->b().cols);
    std::fill(last_row_.begin(), last_row_.end(), kNone);
    for (Index i = 0; i < a.rows; ++i) {
      add_row(i, c);
      c.row_ptr[static_cast<std::size_t>(i) + 1] = std::ssize(c.col_idx);
    }
  }

 private:
  static constexpr Index kNone = -1;

  /// Makes row i of C, behind the rows that are there.
  void add_row(Index i, Csr<T>& c) {
    const CsrView<T>&a = this->a(), &b = this->b();
    const std::ptrdiff_t first = std::ssize(c.col_idx);
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
      const Index k = a.col_idx[p];
      for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
        const auto j = static_cast<std::size_t>(b.col_idx[q]);
        if (last_row_[j] != i) {
          last_row_[j] = i;
          sums_[j] = T{0};
          c.col_idx.push_back(b.col_idx[q]);
        }
        sums_[j] += a.values[p] * b.values[q];
      }
    }
    std::sort(c.col_idx.begin() + first, c.col_idx.end());
    for (auto column = c.col_idx.begin() + first; column < c.col_idx.end(); ++column)
      c.values.push_back(sums_[static_cast<std::size_t>(*column)]);
  }

  Buffer<T> sums_;          // of the row that is made
  Buffer<Index> last_row_;  // that came to a column; kNone: none yet
};

}  // namespace

void cpu_serial::add_gustavson_sorted(Registry& registry) {
  registry.add<GustavsonSorted>(
      {.name = "01_cpu_serial/gustavson_sorted",
       .idea = "rows of B added into a dense row; its columns are listed and sorted",
       .previous = "two_pointer_dot"});
}

}  // namespace stages
