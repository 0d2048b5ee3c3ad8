// Task: fill in the end of a row: results go to C, and the accumulator is clean again.
// Step: 01_cpu_serial
// Reference: 01_cpu_serial/gustavson_dense
//
// Gustavson's method adds up a row of C in an array with a place for every column. It is fast because nobody
// looks at all of these places: a list says which columns the row has touched. The array is used for all rows
// of C, so each row must leave it as it has found it. To clear all of it, or to make a new one, would cost
// rows x columns: sums_ and seen_ cannot be replaced, and they count how often a place is looked up, to read
// it or to write it. For each product four times are enough.
//
//   sums     0  0  7  0  0  3  0  0  0  1  0  0         touched  2 5 9
//                  ^        ^           ^
//                  only these are read, written to C, and set to 0 again
//
// Hint: What does the second row find in sums_ and in seen_ at a column that both rows have?
// Hint: In the loop over touched_ you are at each place that is not clean, and at no other.
// Hint: sums_[place] = 0; seen_[place] = false; inside of the loop, and touched_.clear() behind it.

#include <algorithm>
#include <vector>

#include "micro/row_spgemm.hpp"

namespace stages {
namespace {

template <class T>
class Mine final : public micro::RowSpgemm<T> {
 public:
  Mine(const SpgemmProblem<T>& problem, Exec& exec)
      : micro::RowSpgemm<T>(problem, exec),
        sums_(static_cast<std::size_t>(problem.b->cols)),
        seen_(static_cast<std::size_t>(problem.b->cols)) {}

  void run() override {
    micro::RowSpgemm<T>::run();
    for (const Offset times : {sums_.looked_up(), seen_.looked_up()}) {
      if (times > 4 * products_)
        fail("places of the accumulator are looked up {} times for {} products; four each are enough", times,
             products_);
    }
  }

 protected:
  void row(Index i, Csr<T>& c) override {
    const CsrView<T>&a = this->a(), &b = this->b();
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
      for (Offset q = b.row_ptr[a.col_idx[p]]; q < b.row_ptr[a.col_idx[p] + 1]; ++q) {
        const auto place = static_cast<std::size_t>(b.col_idx[q]);
        if (!seen_[place]) touched_.push_back(b.col_idx[q]);
        seen_[place] = true;
        sums_[place] += a.values[p] * b.values[q];
        ++products_;
      }
    }
    std::sort(touched_.begin(), touched_.end());
    // SOLUTION
    for (const Index column : touched_) {
      const auto place = static_cast<std::size_t>(column);
      c.col_idx.push_back(column);
      c.values.push_back(sums_[place]);
      sums_[place] = 0;
      seen_[place] = false;
    }
    touched_.clear();
    // STUDENT
    // Your code. Until then the results go to C, and the accumulator stays as it is.
    for (const Index column : touched_) {
      const auto place = static_cast<std::size_t>(column);
      c.col_idx.push_back(column);
      c.values.push_back(sums_[place]);
    }
    // END
  }

 private:
  micro::Places<T> sums_;       ///< for each column of C: the sum of the products so far
  micro::Places<char> seen_;    ///< for each column of C: whether there is a product
  std::vector<Index> touched_;  ///< the columns that were seen
  Offset products_ = 0;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Mine>({.name = "micro/accumulator", .idea = "only what was touched is cleared"});
}

}  // namespace stages
