// SpGEMM over processes: the same scatter and gather, with a kernel that takes a step for each product.
//
// The idea: 1_scatter_gather.cpp lets each row of A meet each column of B. Here each rank multiplies as
// fast/gustavson_adaptive.cpp of step 1 does: a row of C is the sum of the rows of B that the row of A names.
// So B is broadcast by rows, as it is, and rank 0 makes no columns of it. The ranks have the same rows of A as
// before: equal shares of its non-zeros.
//
// How it is written is new, too: the calls of MPI are behind common/mpi, which every entry from here on uses
// (scattered_rows.hpp).
//
// The lesson is what this does to the clock. Computing takes a hundredth of the time, and as much is sent as
// before: what was hidden behind the dot products is now a third of the whole (measured.md, two ranks).
//
// Input: any CSR matrices, any number of ranks. Cost: a step a product, over ranks; scatter_gather's messages.

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
                           .idea = "gustavson_adaptive of step 1 on each rank",
                           .previous = "scatter_gather"});
}

}  // namespace stages
