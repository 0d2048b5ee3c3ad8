// Task: find the faults in the gathering of C on rank 0, and mend them: one shows in float, both in double.
// Reference: 02_mpi/scatter_gather
// Ranks: 3
//
// Each rank has made its rows of C, and rank 0 gathers them: the row pointers, the columns, the values. The
// original of this step did the same, with MPI_Gatherv, and its result was never compared with that of a
// single process. The multiplication is right, and so is the order of the ranks.
//
// Say before you run it: what does the check see first, the structure of C or its values? And why did no
// compiler say anything?

#include "micro/rank_spgemm.hpp"

namespace stages {
namespace {

template <class T>
class MyGather final : public micro::RankSpgemm<T> {
  using micro::RankSpgemm<T>::RankSpgemm;

  /// Rows, columns and values of all ranks, one rank after the other, to rank 0.
  void collect() override {
    const Csr<T>& part = this->c_part_;
    std::vector<Offset> rows(this->bounds_.begin(), this->bounds_.end());
    std::vector<Offset> places(rows.size(), 0);  // where each rank's non-zeros begin in C
    for (std::size_t r = 0; r + 1 < rows.size(); ++r) {
      Offset count = part.nnz();
      mpi::broadcast(&count, 1, static_cast<int>(r), this->comm());
      places[r + 1] = places[r] + count;
    }
    if (this->root()) {
      c_ = Csr<T>(this->bounds_.back(), this->shape_.cols);
      c_.col_idx.resize(static_cast<std::size_t>(places.back()));
      c_.values.resize(c_.col_idx.size());
    }
    mpi::gather(part.row_ptr.data() + 1, c_.row_ptr.data() + 1, rows, 0, this->comm());
    // SOLUTION
    mpi::gather(part.col_idx.data(), c_.col_idx.data(), places, 0, this->comm());
    mpi::gather(part.values.data(), c_.values.data(), places, 0, this->comm());
    // STUDENT
    gather_words(part.col_idx.data(), c_.col_idx.data(), places);
    gather_words(part.values.data(), c_.col_idx.data(), places);
    // END
    if (!this->root()) return;
    for (std::size_t r = 0; r + 1 < rows.size(); ++r) {
      for (Offset i = rows[r]; i < rows[r + 1]; ++i) c_.row_ptr[static_cast<std::size_t>(i) + 1] += places[r];
    }
  }
  // SOLUTION
  // STUDENT
  /// As the original called MPI_Gatherv: with untyped addresses, of which the compiler checks nothing.
  void gather_words(const void* part, void* whole, const std::vector<Offset>& places) const {
    mpi::gather(static_cast<const std::uint32_t*>(part), static_cast<std::uint32_t*>(whole), places, 0,
                this->comm());
  }
  // END
  void forget() override {
    micro::RankSpgemm<T>::forget();
    c_ = Csr<T>();
  }
  Csr<T> result() const override { return c_; }

  Csr<T> c_;  ///< rank 0
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyGather>({.name = "task/gather_rows", .idea = "C is gathered on rank 0 array by array"});
}

}  // namespace stages
