// Task: find the fault in the displacements of MPI_Scatterv: A is rows x width, by rows.
// Step: 02_mpi
// Reference: 02_mpi/scatter_gather
// Ranks: 3
//
// Here A travels as a rectangle: each row has `width` places, and what a short row does not need stays empty.
// Rank r gets the rows bounds[r] .. bounds[r + 1] - 1. A displacement says where its piece begins, counted
// from the beginning of the array, in elements. The counts are right.
//
//   width 4            elements
//   row 0   a a a .     0  1  2  3     rank 0: 2 rows, 8 elements, begins at  0
//   row 1   b b . .     4  5  6  7
//   row 2   c c c c     8  9 10 11     rank 1: 1 row,  4 elements, begins at  8
//   row 3   d . . .    12 13 14 15     rank 2: 1 row,  4 elements, begins at 12
//
// Hint: Rank 0 has what it needs, the others have not. What is different about displacement 0?
// Hint: Before the piece of rank r lie bounds[r] rows. How many elements are that?
// Hint: A row has width elements, whatever the number of rows: begins[r] = bounds[r] * ...

#include <algorithm>
#include <vector>

#include "micro/rank_spgemm.hpp"

namespace stages {
namespace {

constexpr Index kEmpty = -1;

template <class T>
class Mine final : public micro::RankSpgemm<T> {
  using micro::RankSpgemm<T>::RankSpgemm;

  void place() override {
    Offset longest = 0;
    std::vector<Index> columns;  // on rank 0: rows x width
    std::vector<T> values;
    if (this->root()) longest = write_out(columns, values);
    mpi::broadcast(&longest, 1, 0, this->comm());
    const auto width = static_cast<int>(longest);

    std::vector<int> counts, begins;
    for (std::size_t r = 0; r + 1 < this->bounds_.size(); ++r) {
      counts.push_back((this->bounds_[r + 1] - this->bounds_[r]) * width);
      // SOLUTION
      begins.push_back(this->bounds_[r] * width);
      // STUDENT
      begins.push_back(this->bounds_[r]);
      // END
    }

    const int mine = counts[this->me()];
    std::vector<Index> my_columns(static_cast<std::size_t>(mine));
    std::vector<T> my_values(my_columns.size());
    mpi::check(MPI_Scatterv(columns.data(), counts.data(), begins.data(), MPI_INT32_T, my_columns.data(),
                            mine, MPI_INT32_T, 0, this->comm()),
               "scattering the columns");
    mpi::check(MPI_Scatterv(values.data(), counts.data(), begins.data(), this->type_of_values(),
                            my_values.data(), mine, this->type_of_values(), 0, this->comm()),
               "scattering the values");
    take(my_columns, my_values, width);
    this->place_b();
  }

  /// A as a rectangle; returns its width, which is the length of the longest row.
  Offset write_out(std::vector<Index>& columns, std::vector<T>& values) const {
    const CsrView<T>& a = this->a_;
    Offset width = 0;
    for (Index i = 0; i < a.rows; ++i) width = std::max(width, a.row_ptr[i + 1] - a.row_ptr[i]);
    columns.assign(static_cast<std::size_t>(a.rows * width), kEmpty);
    values.assign(columns.size(), T{0});
    for (Index i = 0; i < a.rows; ++i) {
      std::copy(a.col_idx + a.row_ptr[i], a.col_idx + a.row_ptr[i + 1], columns.begin() + i * width);
      std::copy(a.values + a.row_ptr[i], a.values + a.row_ptr[i + 1], values.begin() + i * width);
    }
    return width;
  }

  /// The rows of this rank, without the empty places.
  void take(const std::vector<Index>& columns, const std::vector<T>& values, int width) {
    Csr<T>& part = this->a_part_;
    part = Csr<T>(this->bounds_[this->me() + 1] - this->bounds_[this->me()], this->shape_.inner);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      if (columns[k] != kEmpty) {
        part.col_idx.push_back(columns[k]);
        part.values.push_back(values[k]);
      }
      part.row_ptr[k / static_cast<std::size_t>(width) + 1] = part.nnz();
    }
  }
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Mine>({.name = "micro/displacements", .idea = "where a piece begins, in elements"});
}

}  // namespace stages
