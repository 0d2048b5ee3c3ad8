#pragma once
// The frame of step 1's exercises for C = A B on one core, row by row. An exercise makes a row of C.

#include <vector>

#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"
#include "common/matrix/error.hpp"

namespace stages::micro {

/// An element for each column, all 0 at first, that counts how often one of them is looked up. It cannot be
/// replaced by a new one, which would cost as much as to clear this one.
template <class T>
class Places {
 public:
  explicit Places(std::size_t columns) : elements_(columns) {}
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  T& operator[](std::size_t column) {
    ++looked_up_;
    return elements_[column];
  }
  /// Whoever asks for the beginning goes through all of them.
  auto begin() {
    looked_up_ += std::ssize(elements_);
    return elements_.begin();
  }
  auto end() { return elements_.end(); }
  std::size_t size() const { return elements_.size(); }

  Offset looked_up() const { return looked_up_; }

 private:
  std::vector<T> elements_;
  Offset looked_up_ = 0;
};

/// A derived class gives row(i, c), which appends row i of C to c.col_idx and c.values, columns ascending.
template <class T>
class RowSpgemm : public HostSpgemmPlan<T> {
 public:
  RowSpgemm(const SpgemmProblem<T>& problem, Exec& /*exec*/) : HostSpgemmPlan<T>(problem) {}

  void run() override {
    Csr<T>& c = this->c_;
    c = Csr<T>(this->a().rows, this->b().cols);
    for (Index i = 0; i < c.rows; ++i) {
      row(i, c);
      c.row_ptr[static_cast<std::size_t>(i) + 1] = c.nnz();
    }
  }

 protected:
  virtual void row(Index i, Csr<T>& c) = 0;
};

}  // namespace stages::micro
