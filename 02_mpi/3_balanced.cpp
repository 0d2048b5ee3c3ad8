// SpGEMM over processes, with shares of rows that take equally long.
//
// The idea: in 2_gustavson.cpp ranks have equally many entries of A. But row i of C takes, over its entries k
// in A, the length of row k of B; where rows of B differ, so do the times of the ranks, and all wait for the
// slowest. Here the shares are contiguous rows with about equal sums of that, the products. Products are only
// nearly time, so the first deal is tried out and corrected (deal_rows_by_time in common/mpi/spgemm_plan.cpp).
// A row is never cut; where a single row holds more than a share, it bounds the speed-up.
//
// On the project's pair, whose rows are alike, this gains nothing, and on two ranks hardly anything anywhere:
// their halves are alike. See measured.md and notes.md.
//
// Input: any CSR matrices, any number of ranks. Cost: one step a product, over ranks, and up to four more
// products before the run, to try out the deals; messages as in scatter_gather.

#include "02_mpi/scattered_rows.hpp"
#include "02_mpi/stage.hpp"

namespace stages {
namespace {

template <class T>
class Balanced final : public ScatteredRows<T> {
 public:
  Balanced(const SpgemmProblem<T>& problem, Exec& exec) : ScatteredRows<T>(problem, exec) {
    std::vector<Offset> before;
    if (this->root()) before = mpi::products_before(*problem.a, *problem.b, 1);
    this->deal_rows_by_time(std::move(before));
  }
};

}  // namespace

void add_mpi_balanced(Registry& registry) {
  registry.add<Balanced>({.name = "02_mpi/balanced",
                          .idea = "shares of rows that take equally long",
                          .needs = {.several_ranks = true, .mpi = true}});
}

}  // namespace stages
