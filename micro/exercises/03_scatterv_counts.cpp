// Task: fill in the counts of MPI_Scatterv: how many non-zeros of A does each rank get?
// Step: 02_mpi
// Reference: 02_mpi/scatter_gather
// Ranks: 3
//
// Rank r gets the rows bounds[r] .. bounds[r + 1] - 1 of A. Their columns and values lie one behind the other
// in two arrays on rank 0, and MPI_Scatterv cuts each array into pieces: for each rank where its piece begins
// (this is done already) and how many elements it has. Rows have different lengths, so the number of rows is
// not the number of non-zeros.
//
//   bounds      0           2           3        4           rank 0: rows 0 and 1
//   row_ptr     0     3     5           9       10
//   values      a a a b b   c c c c     d
//               |--------|  |------|    |            counts 5, 4, 1
//
// Hint: In the drawing rank 1 has one row. Why is its count 4?
// Hint: row_ptr[i] is how many non-zeros lie before row i. A count is the difference of two of them.
// Hint: The rows of rank r begin at bounds[r] and end before bounds[r + 1]; look both up in row_ptr, and
//   subtract: static_cast<int>(row_ptr[bounds[r + 1]] - ...).

#include <limits>
#include <vector>

#include "micro/rank_spgemm.hpp"

namespace stages {
namespace {

/// For each rank the number of non-zeros that its rows have. bounds has one element more than there are ranks.
std::vector<int> counts_of(const mpi::RowBounds& bounds, const Offset* row_ptr) {
  std::vector<int> counts(bounds.size() - 1);
  for (std::size_t r = 0; r < counts.size(); ++r) {
    // SOLUTION
    counts[r] = static_cast<int>(row_ptr[bounds[r + 1]] - row_ptr[bounds[r]]);
    // STUDENT
    // Your code. Until then each rank gets as many non-zeros as it has rows.
    static_cast<void>(row_ptr);
    counts[r] = bounds[r + 1] - bounds[r];
    // END
  }
  return counts;
}

template <class T>
class Mine final : public micro::RankSpgemm<T> {
  using micro::RankSpgemm<T>::RankSpgemm;

  void place() override {
    std::vector<int> counts, begins;  // on rank 0 alone
    if (this->root()) {
      counts = counts_of(this->bounds_, this->a_.row_ptr);
      for (std::size_t r = 0; r < counts.size(); ++r) {
        const Offset begin = this->a_.row_ptr[this->bounds_[r]], end = this->a_.row_ptr[this->bounds_[r + 1]];
        if (counts[r] != end - begin)
          fail("counts[{}] is {}, and the rows {} .. {} have {} entries", r, counts[r], this->bounds_[r],
               this->bounds_[r + 1] - 1, end - begin);
        begins.push_back(static_cast<int>(begin));
      }
    }
    // The whole rows as they should be, then without their non-zeros, which come from rank 0.
    Csr<T>& part = this->a_part_;
    mpi::scatter_rows(this->a_, this->bounds_, this->shape_.inner, part, this->comm());
    part.col_idx.assign(part.col_idx.size(), 0);
    part.values.assign(part.values.size(), std::numeric_limits<T>::quiet_NaN());
    const auto mine = static_cast<int>(part.nnz());
    mpi::check(MPI_Scatterv(this->a_.col_idx, counts.data(), begins.data(), MPI_INT32_T, part.col_idx.data(),
                            mine, MPI_INT32_T, 0, this->comm()),
               "scattering the columns");
    mpi::check(MPI_Scatterv(this->a_.values, counts.data(), begins.data(), this->type_of_values(),
                            part.values.data(), mine, this->type_of_values(), 0, this->comm()),
               "scattering the values");
    this->place_b();
  }
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Mine>({.name = "micro/scatterv_counts", .idea = "a count is a difference of row pointers"});
}

}  // namespace stages
