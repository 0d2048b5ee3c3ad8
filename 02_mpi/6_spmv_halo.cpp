// SpMV over processes: rows of A on the ranks, and of x only what is missing is sent.
//
// The idea: y = A x by rows needs no cooperation but for x: the rank that has row i needs x[k] for each of
// the row's columns k. x lies on the ranks as y does (A's rows dealt by nnz), so most of that is often at
// home, and the rest, the halo, is fetched from the ranks that own it. Which elements these are depends on A
// alone, so prepare finds it out once; a run packs what others need, sends and receives one message a
// neighbour, and multiplies as csr_spmv_by_length of step 1 does. A chain of products never passes a root:
// y lies where the next x is wanted.
//
// How large the halo is depends on the matrix: a mesh cut into 4 has one of its edges only, a random graph
// needs nearly all of x everywhere. `bytes_exchanged` in the JSON tells it.
//
// Input: any CSR matrix; a chain needs a square one. Cost: nnz steps over ranks; a message to each rank that
// needs something, at most nnz of the rank's rows elements. The result has the bits of csr_spmv_by_length:
// each row is summed by the same code in the same order.

#include "02_mpi/spmv_on_ranks.hpp"
#include "02_mpi/stage.hpp"
#include "common/kernels/spmv_rows.hpp"

namespace stages {
namespace {

template <class T>
class SpmvHalo final : public mpi::SpmvOnRanks<T> {
 public:
  SpmvHalo(const SpmvProblem<T>& problem, Exec& exec) : mpi::SpmvOnRanks<T>(problem, exec) {
    const Csr<T>& a = this->matrix_.mine();
    kernels::group_rows(a, 0, a.rows, order_, groups_);
  }

 private:
  double product(const T* x, T* y) override {
    {
      const auto phase = this->phase("exchange");
      this->matrix_.exchange(x, 1, this->halo_.data());
    }
    const auto phase = this->phase("compute");
    const auto start = std::chrono::steady_clock::now();
    const Csr<T>& a = this->matrix_.mine();
    kernels::multiply_groups(a, a.row_ptr.data(), groups_, order_.data(), this->halo_.data(), y);
    return mpi::seconds_since(start);
  }

  Buffer<Index> order_;  // this rank's rows, those of equal length together
  std::vector<kernels::Group> groups_;
};

}  // namespace

void add_mpi_spmv_halo(Registry& registry) {
  registry.add<SpmvHalo>(
      {.name = "02_mpi/spmv_halo", .idea = "rows on the ranks; of x, each fetches the elements it lacks"});
}

}  // namespace stages
