// SpGEMM over processes: scatter A, broadcast B, multiply, gather C.
//
// The idea: rank 0 holds A, B and in the end C. A is cut by rows into shares of about equal nnz, and each rank
// gets one. B goes to all of them. Each rank makes its rows of C by sparse dot products, as two_pointer_dot of
// step 1 does, and rank 0 gathers them. first.cpp does the same for y = A x in plain MPI; here the calls are
// those of common/mpi, for whole matrices (scattered_rows.hpp).
//
// What the course project's version got wrong: it cut A in the middle of rows, so that C held several non-zeros
// at one place, each a part of the sum; here shares are whole rows. It padded the last share with zeros, to
// make all equally long; MPI_Scatterv takes shares as long as they are. It gathered the values into the array
// of the columns; here each array is gathered into its own. Every rank sorted B into columns; here every rank
// counts, in linear time.
//
// What remains is the method. Rank 0 sends B to everyone and takes all of C; and equal shares of nnz(A) are
// equal shares of the work only where rows are alike, as on the project's pair.
//
// Input: any CSR matrices, any number of ranks. Cost: as two_pointer_dot, over ranks, and nnz(B) steps on each;
// messages of up to nnz(A) + (ranks - 1) x nnz(B) + nnz(C) non-zeros, all from or to rank 0.

#include "02_mpi/dot_rows.hpp"
#include "02_mpi/scattered_rows.hpp"
#include "02_mpi/stage.hpp"

namespace stages {
namespace {

template <class T>
class ScatterGather final : public ScatteredRows<T> {
 public:
  ScatterGather(const SpgemmProblem<T>& problem, Exec& exec) : ScatteredRows<T>(problem, exec) {
    std::span<const Offset> entries_before;
    if (this->root()) entries_before = problem.a->row_ptr;
    this->deal_rows(entries_before);
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    constexpr double kEntry = sizeof(Index) + sizeof(Offset) + sizeof(T);
    return ScatteredRows<T>::cost_with(
               problem, kEntry * static_cast<double>(problem.b->nnz()) + 20.0 * problem.b->cols)
        .with_work(kernels::sparse_dot_steps(*problem.a, *problem.b));
  }

 private:
  void multiply_rows(const CsrView<T>& a, const CsrView<T>& b, Csr<T>& c) override {
    const kernels::Columns columns = kernels::columns_of(b);
    b_values_.resize(columns.source.size());
    for (std::size_t t = 0; t < b_values_.size(); ++t) b_values_[t] = b.values[columns.source[t]];
    dot_rows(a, columns, b_values_.data(), b.cols, c);
  }

  Buffer<T> b_values_;  // by columns
};

}  // namespace

void add_mpi_scatter_gather(Registry& registry) {
  registry.add<ScatterGather>({.name = "02_mpi/scatter_gather",
                               .idea = "rank 0 scatters A and broadcasts B; dot products; C is gathered"});
}

}  // namespace stages
