// Task: fill in the merge of two sorted rows: a row of C comes out sorted without a sort.
// Step: 01_cpu_serial
// Reference: 01_cpu_serial/gustavson_dense
//
// A row of C is a sum of rows of B. Each of them is sorted by column, and so is what has been summed up to
// now. Two positions go along the two rows: the smaller column comes out, and its position goes on. Where the
// columns are equal one non-zero comes out of two, and both positions go on.
//
//   c     1   4       9          <- p       each non-zero is read once, from left to right,
//   b     1       6   9   12     <- q       and each result is written once:
//   sum   1   4   6   9   12                no search, no table, no sort
//
// Hint: Which column comes out next when p is at column 4 and q is at column 6? Which position goes on then?
// Hint: Take the smaller of the two columns. Whoever has that column adds its value and goes on; both may
//   have it. A row that has come to its end never has the smaller column.
// Hint: while (p < c.size() || q < b.size()) { const Index column =
//   std::min(p < c.size() ? c.columns[p] : kNone, ...); if (p < c.size() && c.columns[p] == column) value +=
//   c.values[p++]; ... the same for b ...; push. }

#include <algorithm>
#include <limits>
#include <vector>

#include "micro/row_spgemm.hpp"

namespace stages {
namespace {

constexpr Index kNone =
    std::numeric_limits<Index>::max();  ///< larger than any column: the next one of a row at its end

template <class T>
struct Row {
  std::vector<Index> columns;  ///< ascending
  std::vector<T> values;

  std::size_t size() const { return columns.size(); }
  void push(Index column, T value) {
    columns.push_back(column);
    values.push_back(value);
  }
};

/// c + factor * b
template <class T>
Row<T> merged(const Row<T>& c, T factor, const Row<T>& b) {
  Row<T> sum;
  std::size_t p = 0, q = 0;
  // SOLUTION
  while (p < c.size() || q < b.size()) {
    const Index column = std::min(p < c.size() ? c.columns[p] : kNone, q < b.size() ? b.columns[q] : kNone);
    T value = 0;
    if (p < c.size() && c.columns[p] == column) value += c.values[p++];
    if (q < b.size() && b.columns[q] == column) value += factor * b.values[q++];
    sum.push(column, value);
  }
  // STUDENT
  // Your code. Until then the last row of B replaces what was summed up before it.
  static_cast<void>(c);
  static_cast<void>(p);
  for (; q < b.size(); ++q) sum.push(b.columns[q], factor * b.values[q]);
  // END
  return sum;
}

template <class T>
class Mine final : public micro::RowSpgemm<T> {
  using micro::RowSpgemm<T>::RowSpgemm;

  void row(Index i, Csr<T>& c) override {
    const CsrView<T>&a = this->a(), &b = this->b();
    Row<T> sum;
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
      const Offset begin = b.row_ptr[a.col_idx[p]], end = b.row_ptr[a.col_idx[p] + 1];
      sum = merged(sum, a.values[p],
                   {{b.col_idx + begin, b.col_idx + end}, {b.values + begin, b.values + end}});
    }
    c.col_idx.insert(c.col_idx.end(), sum.columns.begin(), sum.columns.end());
    c.values.insert(c.values.end(), sum.values.begin(), sum.values.end());
  }
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Mine>({.name = "micro/merge_rows", .idea = "two sorted rows become one"});
}

}  // namespace stages
