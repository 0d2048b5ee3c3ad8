#pragma once
// Where multi_blocks.cpp puts C together: in memory that all processes of a node see, or on one GPU. Each
// process writes its block to its place.

#include <cstring>

#include "common/gpu/cuda.hpp"
#include "common/matrix/types.hpp"
#include "common/multigpu/host_window.hpp"
#include "common/multigpu/root_memory.hpp"

namespace stages::spgemm {

/// C on the host, in memory that all processes of the node see.
template <class T>
class WindowCsr {
 public:
  explicit WindowCsr(MPI_Comm node) : row_ptr_(node), col_idx_(node), values_(node) {}

  /// Collective; a node's processes come here together, so nobody still reads what is overwritten after it.
  void reserve(Index rows, Offset nnz) {
    values_.fence();
    row_ptr_.reserve(Offset{rows} + 1);
    col_idx_.reserve(nnz);
    values_.reserve(nnz);
  }
  void fence() const { values_.fence(); }
  bool locked() const { return col_idx_.window().locked() && values_.window().locked(); }
  Offset* row_ptr() const { return row_ptr_.data(); }
  Index* col_idx() const { return col_idx_.data(); }
  T* values() const { return values_.data(); }

  /// NaN in place of the values shows what nobody has written since.
  void poison(Offset nnz) const { std::memset(values(), 0xff, static_cast<std::size_t>(nnz) * sizeof(T)); }

  Csr<T> read(Index rows, Index cols, Offset nnz) const {
    Csr<T> c(rows, cols);
    if (nnz == 0) return c;
    std::memcpy(c.row_ptr.data(), row_ptr(), c.row_ptr.size() * sizeof(Offset));
    c.col_idx.assign(col_idx(), col_idx() + nnz);
    c.values.assign(values(), values() + nnz);
    return c;
  }

 private:
  mpi::HostArray<Offset> row_ptr_;
  mpi::HostArray<Index> col_idx_;
  mpi::HostArray<T> values_;
};

/// C on the GPU of rank 0.
template <class T>
struct RootCsr {
  explicit RootCsr(const mpi::MpiCommunicator& ranks) : row_ptr(ranks), col_idx(ranks), values(ranks) {}

  void reserve(Index rows, Offset nnz) {
    row_ptr.reserve(Offset{rows} + 1);
    col_idx.reserve(nnz);
    values.reserve(nnz);
  }
  void complete(cudaStream_t stream) {
    row_ptr.complete(stream);
    col_idx.complete(stream);
    values.complete(stream);
  }

  /// As WindowCsr's. On rank 0, asynchronous on the stream.
  void poison(Offset nnz, cudaStream_t stream) {
    STAGES_CUDA(cudaMemsetAsync(values.data(), 0xff, static_cast<std::size_t>(nnz) * sizeof(T), stream));
  }

  /// On rank 0.
  Csr<T> read(Index rows, Index cols, Offset nnz) const {
    Csr<T> c(rows, cols);
    c.col_idx.resize(static_cast<std::size_t>(nnz));
    c.values.resize(static_cast<std::size_t>(nnz));
    const auto download = [](auto& to, const auto* from) {
      if (to.empty()) return;
      STAGES_CUDA(cudaMemcpy(to.data(), from, to.size() * sizeof(to[0]), cudaMemcpyDeviceToHost));
    };
    download(c.row_ptr, row_ptr.data());
    download(c.col_idx, col_idx.data());
    download(c.values, values.data());
    return c;
  }

  mpi::RootArray<Offset> row_ptr;
  mpi::RootArray<Index> col_idx;
  mpi::RootArray<T> values;
};

}  // namespace stages::spgemm
