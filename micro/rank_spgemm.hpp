#pragma once
// The frame of the exercises for C = A B on several ranks, of steps 2 and 8: who has which rows, how A and B
// come to the ranks, the multiplication, and how C comes back. An exercise has one of these.

#include <concepts>

#include "common/harness/registry.hpp"
#include "common/matrix/error.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/spgemm_plan.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::micro {

/// What an entry for ranks needs: RankSpgemm says it for its own, hand-ins for older frames by this name.
inline constexpr Needs kRanks = {.several_ranks = true, .mpi = true};

/// Each rank makes the rows bounds_[rank] .. bounds_[rank + 1] - 1 of C: it has these rows of A in a_part_,
/// and all of B in b_all_. A derived class deals the rows in another way, brings them there so (place),
/// multiplies so (multiply, into c_part_), or brings C to rank 0 so (collect, forget and result).
template <class T>
class RankSpgemm : public mpi::MpiSpgemmPlan<T> {
 public:
  RankSpgemm(const SpgemmProblem<T>& problem, Exec& exec)
      : RankSpgemm(problem, exec,
                   [](const Csr<T>& a, const Csr<T>&, int ranks) { return mpi::deal(a.row_ptr, ranks); }) {}

  /// With the bounds that deal(a, b, ranks) gives on rank 0.
  template <std::invocable<const Csr<T>&, const Csr<T>&, int> Deal>
  RankSpgemm(const SpgemmProblem<T>& problem, Exec& exec, Deal deal) : mpi::MpiSpgemmPlan<T>(problem, exec) {
    mpi::RowBounds bounds;
    if (this->root()) bounds = deal(*problem.a, *problem.b, ranks());
    bounds_ = mpi::shared_bounds(std::move(bounds), this->comm());
  }

 protected:
  void place() override {
    mpi::scatter_rows(this->a_, bounds_, this->shape_.inner, a_part_, this->comm());
    place_b();
  }
  void place_b() { b_all_ = mpi::broadcast_matrix(this->b_, b_copy_, this->comm()); }

  /// Row by row: the rows of B that a row of A names, added up in a row written out in full.
  void multiply() override {
    begin_rows();
    add_products(b_all_);
    end_rows();
  }

  /// All sums of this rank's rows are 0, and none of them is there.
  void begin_rows() {
    const auto elements =
        static_cast<std::size_t>(a_part_.rows) * static_cast<std::size_t>(this->shape_.cols);
    sums_.assign(elements, T{0});
    there_.assign(elements, 0);
  }
  /// Adds what the non-zeros of A give with the rows of B in `b`, where rows may be missing.
  void add_products(const CsrView<T>& b) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(a_part_.rows); ++i) {
      const std::size_t row = i * static_cast<std::size_t>(this->shape_.cols);
      for (Offset p = a_part_.row_ptr[i]; p < a_part_.row_ptr[i + 1]; ++p) {
        const Index k = a_part_.col_idx[static_cast<std::size_t>(p)];
        for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
          const std::size_t j = row + static_cast<std::size_t>(b.col_idx[q]);
          sums_[j] += a_part_.values[static_cast<std::size_t>(p)] * b.values[q];
          there_[j] = 1;
        }
      }
    }
  }
  /// Makes the sums the rows of c_part_.
  void end_rows() {
    const auto cols = static_cast<std::size_t>(this->shape_.cols);
    c_part_ = Csr<T>(a_part_.rows, this->shape_.cols);
    for (std::size_t i = 0; i < static_cast<std::size_t>(a_part_.rows); ++i) {
      for (std::size_t j = 0; j < cols; ++j) {
        if (there_[i * cols + j] == 0) continue;
        c_part_.col_idx.push_back(static_cast<Index>(j));
        c_part_.values.push_back(sums_[i * cols + j]);
      }
      c_part_.row_ptr[i + 1] = c_part_.nnz();
    }
  }

  void collect() override { c_.gather(c_part_, bounds_, this->shape_.cols, this->comm()); }
  void forget() override {
    c_.forget();
    c_part_ = Csr<T>();
  }
  Csr<T> result() const override { return c_.whole(); }

  int ranks() const { return this->ranks_.size(); }
  static MPI_Datatype type_of_values() { return std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE; }

  mpi::RowBounds bounds_;
  Csr<T> a_part_, b_copy_, c_part_;
  CsrView<T> b_all_;

 private:
  std::vector<T> sums_;
  std::vector<char> there_;
  mpi::GatheredRows<T> c_;
};

}  // namespace stages::micro
