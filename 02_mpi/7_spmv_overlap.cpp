// SpMV over processes: what needs no message is multiplied while the messages travel.
//
// The idea: rows whose columns are all at home (inner rows) wait for nobody. So a product begins its messages,
// multiplies the inner rows, waits, and then multiplies the others (border rows). In 6_spmv_halo.cpp the
// processor is idle while messages travel; here they cost time only where they take longer than the inner
// rows. A mesh has few border rows. A random graph has few inner rows: there is nothing to do meanwhile, and
// nothing is gained.
//
// Between two ranks of one node nothing is gained on a mesh either, where messages have some 30 KB and a rank's
// own elements of x are copied first (measured.md). Between nodes it was not measured.
//
// Whether messages travel while nobody calls MPI is up to the MPI library: short ones are sent at once; of long
// ones many libraries move the next piece only when MPI is called again.
//
// Input, cost and bits are those of spmv_halo: each row is summed by the same code in the same order.

#include "02_mpi/spmv_on_ranks.hpp"
#include "02_mpi/stage.hpp"
#include "common/kernels/spmv_rows.hpp"

namespace stages {

template <class T>
bool mpi::HaloMatrix<T>::at_home(Index i) const {
  const auto columns = row_columns(mine_, i);
  const Offset begin = requests_.receive_bounds[me_], end = requests_.receive_bounds[me_ + 1];
  return columns.empty() || (columns.front() >= begin && columns.back() < end);  // they ascend
}

namespace {

template <class T>
class SpmvOverlap final : public mpi::SpmvOnRanks<T> {
 public:
  SpmvOverlap(const SpmvProblem<T>& problem, Exec& exec) : mpi::SpmvOnRanks<T>(problem, exec) {
    const Csr<T>& a = this->matrix_.mine();
    // Neighbouring rows of one kind are grouped together, for the kernel.
    for (Index begin = 0; begin < a.rows;) {
      const bool inner = this->matrix_.at_home(begin);
      Index end = begin + 1;
      while (end < a.rows && this->matrix_.at_home(end) == inner) ++end;
      kernels::group_rows(a, begin, end, order_, inner ? inner_ : border_);
      begin = end;
    }
  }

 private:
  double product(const T* x, T* y) override {
    {
      const auto phase = this->phase("exchange");
      this->matrix_.start_exchange(x, 1, this->halo_.data());
    }
    double seconds = multiply(inner_, y);
    {
      const auto phase = this->phase("exchange");
      this->matrix_.finish_exchange();
    }
    return seconds + multiply(border_, y);
  }

  /// Returns the seconds that it took.
  double multiply(const std::vector<kernels::Group>& groups, T* y) {
    const auto phase = this->phase("compute");
    const auto start = std::chrono::steady_clock::now();
    const Csr<T>& a = this->matrix_.mine();
    kernels::multiply_groups(a, a.row_ptr.data(), groups, order_.data(), this->halo_.data(), y);
    return mpi::seconds_since(start);
  }

  Buffer<Index> order_;
  std::vector<kernels::Group> inner_, border_;
};

}  // namespace

void add_mpi_spmv_overlap(Registry& registry) {
  registry.add<SpmvOverlap>({.name = "02_mpi/spmv_overlap",
                             .idea = "rows that need no message are multiplied while the messages travel",
                             .previous = "spmv_halo"});
}

}  // namespace stages
