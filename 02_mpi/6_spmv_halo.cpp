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
namespace mpi {

template <class T>
HaloMatrix<T>::HaloMatrix(const Csr<T>* whole, MpiCommunicator& ranks)
    : ranks_(ranks), me_(static_cast<std::size_t>(ranks.rank())), transfers_(ranks.comm()) {
  Index shape[2] = {0, 0};
  CsrView<T> view;
  if (whole != nullptr) {
    shape[0] = whole->rows;
    shape[1] = whole->cols;
    view = whole->view();
    rows_ = deal(whole->row_ptr, ranks.size());
    imbalance_ = mpi::imbalance(whole->row_ptr, rows_);
  }
  broadcast(shape, 2, 0, ranks.comm());
  broadcast(&imbalance_, 1, 0, ranks.comm());
  rows_ = shared_bounds(std::move(rows_), ranks.comm());
  operand_rows_ = rows_;
  if (shape[0] != shape[1]) {
    for (std::size_t r = 0; r < operand_rows_.size(); ++r)
      operand_rows_[r] =
          static_cast<Index>(Offset{shape[1]} * static_cast<Offset>(r) / (std::ssize(operand_rows_) - 1));
    operand_rows_.back() = shape[1];
  }
  scatter_rows(view, rows_, shape[1], mine_, ranks.comm());
  NeededRows needed = needed_rows(mine_.col_idx, shape[1]);
  requests_ = exchange_requests(needed.rows, operand_rows_, ranks);
  mine_.col_idx = std::move(needed.places);
  mine_.cols = static_cast<Index>(needed.rows.size());
}

template <class T>
void HaloMatrix<T>::start_exchange(const T* own, Index width, T* halo) {
  const std::size_t ranks = rows_.size() - 1;
  const Offset w = width;
  packed_.resize(requests_.send_rows.size() * static_cast<std::size_t>(width));
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me_) continue;
    transfers_.receive(halo + w * requests_.receive_bounds[r],
                       w * (requests_.receive_bounds[r + 1] - requests_.receive_bounds[r]),
                       static_cast<int>(r));
  }
  for (std::size_t step = 1; step <= ranks; ++step) {
    const std::size_t r = (me_ + step) % ranks;
    const Offset begin = requests_.send_bounds[r], end = requests_.send_bounds[r + 1];
    T* const to = r == me_ ? halo + w * requests_.receive_bounds[r] : packed_.data() + w * begin;
    for (Offset s = begin; s < end; ++s) {
      const T* const from = own + w * requests_.send_rows[static_cast<std::size_t>(s)];
      std::copy_n(from, width, to + w * (s - begin));
    }
    if (r != me_) transfers_.send(to, w * (end - begin), static_cast<int>(r));
  }
}

template class HaloMatrix<float>;
template class HaloMatrix<double>;

}  // namespace mpi

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
