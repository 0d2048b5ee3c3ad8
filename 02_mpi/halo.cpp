#include "02_mpi/halo.hpp"

#include <algorithm>

namespace stages::mpi {

template <class T>
HaloMatrix<T>::HaloMatrix(const Csr<T>* whole, MpiCommunicator& ranks)
    : comm_(ranks.comm()), me_(static_cast<std::size_t>(ranks.rank())), transfers_(ranks.comm()) {
  Index shape[2] = {0, 0};
  CsrView<T> view;
  if (whole != nullptr) {
    shape[0] = whole->rows;
    shape[1] = whole->cols;
    view = whole->view();
    rows_ = deal(whole->row_ptr, ranks.size());
    imbalance_ = mpi::imbalance(whole->row_ptr, rows_);
  }
  broadcast(shape, 2, 0, comm_);
  broadcast(&imbalance_, 1, 0, comm_);
  rows_ = shared_bounds(std::move(rows_), comm_);
  operand_rows_ = rows_;
  if (shape[0] != shape[1]) {
    for (std::size_t r = 0; r < operand_rows_.size(); ++r)
      operand_rows_[r] =
          static_cast<Index>(Offset{shape[1]} * static_cast<Offset>(r) / (std::ssize(operand_rows_) - 1));
    operand_rows_.back() = shape[1];
  }
  scatter_rows(view, rows_, shape[1], mine_, comm_);
  NeededRows needed;
  needed.find(mine_.col_idx, shape[1]);
  exchange_requests(needed.rows(), operand_rows_, comm_, requests_);
  mine_.col_idx = needed.compact_columns();
  mine_.cols = static_cast<Index>(needed.rows().size());
}

template <class T>
bool HaloMatrix<T>::at_home(Index i) const {
  const auto columns = row_columns(mine_, i);
  const Offset begin = requests_.receive_bounds[me_], end = requests_.receive_bounds[me_ + 1];
  return columns.empty() || (columns.front() >= begin && columns.back() < end);  // they ascend
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

}  // namespace stages::mpi
