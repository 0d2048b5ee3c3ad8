// Task: fill in the dealing: whole rows of A to each rank, so that all get about equally many non-zeros.
// Reference: 02_mpi/scatter_gather
// Ranks: 3
//
// bounds[r] is the first row of rank r, and bounds[ranks] the number of rows: rank r gets the rows bounds[r]
// .. bounds[r + 1] - 1, which may be none. The original cut A after every nnz / ranks non-zeros, in the middle
// of rows, so that C held several non-zeros at one place. Here a share is whole rows, and ends where its part
// of the non-zeros is about reached: row_ptr says how many non-zeros lie before a row.
//
// Before you write: for which matrices are equal shares of the non-zeros of A no equal shares of the work?

#include <algorithm>

#include "micro/rank_spgemm.hpp"

namespace stages {
namespace {

mpi::RowBounds deal(std::span<const Offset> row_ptr, int ranks) {
  const auto rows = static_cast<Index>(std::ssize(row_ptr) - 1);
  mpi::RowBounds bounds(static_cast<std::size_t>(ranks) + 1, 0);
  // SOLUTION
  for (int r = 1; r < ranks; ++r) {
    const Offset share = row_ptr.back() * r / ranks;
    const auto first = std::lower_bound(row_ptr.begin(), row_ptr.end() - 1, share) - row_ptr.begin();
    bounds[static_cast<std::size_t>(r)] = static_cast<Index>(first);
  }
  bounds.back() = rows;
  // STUDENT
  // Your code. Until then each rank gets rows / ranks rows, and what is left over is lost.
  for (int r = 1; r <= ranks; ++r) bounds[static_cast<std::size_t>(r)] = rows / ranks * r;
  // END
  return bounds;
}

template <class T>
class MyDealing final : public micro::RankSpgemm<T> {
 public:
  MyDealing(const SpgemmProblem<T>& problem, Exec& exec)
      : micro::RankSpgemm<T>(problem, exec, [](const Csr<T>& a, const Csr<T>& /*b*/, int ranks) {
          return deal(a.row_ptr, ranks);
        }) {}
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyDealing>({.name = "task/deal_rows", .idea = "whole rows, equal shares of the entries"});
}

}  // namespace stages
