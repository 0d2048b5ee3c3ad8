// Task: fill in the dealing by products: all ranks get about as many multiplications, not equal parts of A.
// Reference: 08_spgemm_multigpu/multi_blocks
// Ranks: 3
//
// bounds[r] is the first row of rank r, and bounds[ranks] the number of rows: rank r makes the rows bounds[r]
// .. bounds[r + 1] - 1 of C. The original dealt rows one by one, row i to rank i mod K, so that all ranks had
// as many rows. Row i of C takes a multiplication for each non-zero of each row of B that row i of A names.
// Where rows of B have different lengths, as in a skewed graph, neither equal rows nor equal non-zeros of A are
// equal work: a few rows that name long ones keep one rank busy while the others wait.
//
// A share is whole rows, all in their order, and ends where its part of the products is about reached. The
// frame counts the products of each share: more than an equal part and the heaviest row is too much.
//
// Before you write: it would be easier to deal by non-zeros of A. For which matrices is that enough, and by how
// much is it wrong where A is a star, one row and one column full?

#include <algorithm>

#include "micro/balance.hpp"
#include "micro/rank_spgemm.hpp"

namespace stages {
namespace {

/// The first row of each rank, by the structures of A and B; `a.col_idx[p]`, for p from a.row_ptr[i] to
/// a.row_ptr[i + 1] - 1, are the rows of B that row i of A names.
template <class T>
mpi::RowBounds deal(const Csr<T>& a, const Csr<T>& b, int ranks) {
  const auto rows = static_cast<std::size_t>(a.rows);
  std::vector<Offset> before(rows + 1, 0);  // before[i]: the weight of all rows before row i
  // SOLUTION
  for (std::size_t i = 0; i < rows; ++i) {
    before[i + 1] = before[i];
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p)
      before[i + 1] += b.row_nnz(a.col_idx[static_cast<std::size_t>(p)]);
  }
  // STUDENT
  // Your code. Until then no row weighs anything, and the last rank has all of them.
  static_cast<void>(b);
  // END
  mpi::RowBounds bounds(static_cast<std::size_t>(ranks) + 1, 0);
  for (int r = 1; r < ranks; ++r) {
    const Offset share = before.back() * r / ranks;
    const auto first = std::lower_bound(before.begin(), before.end() - 1, share) - before.begin();
    bounds[static_cast<std::size_t>(r)] = static_cast<Index>(first);
  }
  bounds.back() = a.rows;
  return bounds;
}

template <class T>
class MyDealing final : public micro::RankSpgemm<T> {
 public:
  MyDealing(const SpgemmProblem<T>& problem, Exec& exec)
      : micro::RankSpgemm<T>(problem, exec,
                             [](const Csr<T>& a, const Csr<T>& b, int ranks) { return deal(a, b, ranks); }) {
    if (this->root()) products_ = mpi::products_before(*problem.a, *problem.b, 0);
  }

 private:
  void place() override {
    if (this->root()) micro::require_balance(this->bounds_, products_, 1, "rank", "products");
    micro::RankSpgemm<T>::place();
  }

  std::vector<Offset> products_;  ///< rank 0: before each row
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyDealing>({.name = "task/deal_products", .idea = "whole rows, equal shares of the products"});
}

}  // namespace stages
