// SpGEMM over processes: the same scatter and gather, with the fastest serial kernel on each rank.
//
// The idea: 1_scatter_gather.cpp lets each row of A meet each column of B. Here each rank multiplies as
// gustavson_adaptive of step 1 does, whose steps are the products: a row of C is the sum of the rows of B that
// the row of A names. So B is broadcast by rows, as it is, and rank 0 makes no columns of it. The ranks have
// the same rows of A as before: equal shares of its entries.
//
// What else is new is how it is written. The calls of MPI are behind common/mpi, which every entry from here
// on uses (scattered_rows.hpp).
//
// The lesson is what this does to the clock: two orders of magnitude less to compute, and as much to send. What
// was hidden behind the dot products is now a large part of the time.
//
// Input: any CSR matrices, any number of ranks. Cost: one step a product, over ranks; messages as in
// scatter_gather.

#include "02_mpi/scattered_rows.hpp"
#include "02_mpi/stage.hpp"

namespace stages {
namespace {

template <class T>
class Gustavson final : public ScatteredRows<T> {
 public:
  Gustavson(const SpgemmProblem<T>& problem, Exec& exec) : ScatteredRows<T>(problem, exec) {
    std::span<const Offset> entries_before;
    if (this->root()) entries_before = problem.a->row_ptr;
    this->deal_rows(entries_before);
  }
};

}  // namespace

void add_mpi_gustavson(Registry& registry) {
  registry.add<Gustavson>({.name = "02_mpi/gustavson",
                           .idea = "the fastest serial kernel on each rank",
                           .needs = {.several_ranks = true, .mpi = true}});
}

}  // namespace stages
