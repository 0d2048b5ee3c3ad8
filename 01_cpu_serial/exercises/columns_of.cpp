// Task: find the fault in the conversion of B to columns, and mend it: C = A B by columns of B.
// Reference: 01_cpu_serial/two_pointer_dot
//
// The plan turns B to columns by counting: how many non-zeros each column has, a running sum over the counts,
// and then each non-zero to the next free place of its column. The product itself is right. The original of
// this step had the fault, and its input was such that it never showed.
//
// Say before you run it: which class of input will be lost, and why no other?

#include "common/kernels/columns.hpp"
#include "micro/row_spgemm.hpp"

namespace stages {
namespace {

template <class T>
class MyColumns final : public micro::RowSpgemm<T> {
 public:
  MyColumns(const SpgemmProblem<T>& problem, Exec& exec) : micro::RowSpgemm<T>(problem, exec) {
    const Csr<T>& b = *problem.b;
    col_ptr_.assign(static_cast<std::size_t>(b.cols) + 1, 0);
    for (const Index j : b.col_idx) ++col_ptr_[static_cast<std::size_t>(j) + 1];
    // SOLUTION
    for (std::size_t j = 0; j < static_cast<std::size_t>(b.cols); ++j) col_ptr_[j + 1] += col_ptr_[j];
    // STUDENT
    for (std::size_t j = 0; j < static_cast<std::size_t>(b.rows); ++j) col_ptr_[j + 1] += col_ptr_[j];
    // END
    row_idx_.resize(b.col_idx.size());
    source_.resize(b.col_idx.size());
    std::vector<Offset> next(col_ptr_.begin(), col_ptr_.end() - 1);
    for (Index k = 0; k < b.rows; ++k) {
      for (Offset q = b.row_ptr[static_cast<std::size_t>(k)]; q < b.row_ptr[static_cast<std::size_t>(k) + 1];
           ++q) {
        Offset& place = next[static_cast<std::size_t>(b.col_idx[static_cast<std::size_t>(q)])];
        row_idx_[static_cast<std::size_t>(place)] = k;
        source_[static_cast<std::size_t>(place++)] = q;
      }
    }
  }

  void run() override {
    values_.resize(source_.size());
    for (std::size_t t = 0; t < values_.size(); ++t) values_[t] = this->b().values[source_[t]];
    micro::RowSpgemm<T>::run();
  }

 private:
  void row(Index i, Csr<T>& c) override {
    const CsrView<T>& a = this->a();
    const Offset first = a.row_ptr[i];
    const kernels::SparseVector<T> row{a.col_idx + first, a.values + first, a.row_ptr[i + 1] - first};
    for (Index j = 0; j < c.cols; ++j) {
      const Offset begin = col_ptr_[static_cast<std::size_t>(j)];
      const Offset end = col_ptr_[static_cast<std::size_t>(j) + 1];
      T sum = 0;
      if (!kernels::dot<T>(row, {row_idx_.data() + begin, values_.data() + begin, end - begin}, sum))
        continue;
      c.col_idx.push_back(j);
      c.values.push_back(sum);
    }
  }

  std::vector<Offset> col_ptr_;
  std::vector<Index> row_idx_;
  std::vector<Offset> source_;  ///< where in B the non-zero stands
  std::vector<T> values_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyColumns>({.name = "task/columns_of", .idea = "B by columns, by counting"});
}

}  // namespace stages
