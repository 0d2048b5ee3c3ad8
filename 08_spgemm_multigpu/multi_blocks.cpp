// SpGEMM over several GPUs: blocks of neighbouring rows of about equal work.
//
// The idea: K processes with a GPU each. The rows of A are cut into K blocks of neighbouring rows whose
// numbers of products are about equal; B is on every GPU. Each process multiplies its block by the kernels of
// binned.cu, and its block of C, its columns, values and row pointers, is a contiguous part of the whole.
//
// Compared with multi_gather.cpp: a process gets work, not rows, so no GPU waits for another unless a single
// row is heavier than a share; neighbouring rows, which tend to read the same rows of B, share a cache; and a
// block of C needs no interleaving, only a place.
//
// Where C must be on the host, no process has all of it pass through it: C lies in memory that all processes
// of the node see, and each copies its block from its GPU to the place where it belongs, all at once, each
// over its own bus. The place follows from one number of each process. Between nodes, which share no memory,
// blocks go by messages.
//
// Input: any CSR matrices, any number of processes. Cost: binned.cu's, over K; B on every GPU; C once in the
// shared window.

#include <algorithm>
#include <cstring>

#include "08_spgemm_multigpu/multi_product.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "common/gpu/memory.hpp"
#include "common/multigpu/host_window.hpp"

namespace stages {
namespace {

/// What a row costs beside its products, in products. On one H200 `hypersparse` (a product a row) takes about
/// 0.17 ns a row, and `uniform` (64 a row) 0.05 ns a product.
constexpr Offset kRowWeight = 4;

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
  bool locked() const { return col_idx_.locked() && values_.locked(); }
  Offset* row_ptr() const { return row_ptr_.data(); }
  Index* col_idx() const { return col_idx_.data(); }
  T* values() const { return values_.data(); }

 private:
  mpi::HostArray<Offset> row_ptr_;
  mpi::HostArray<Index> col_idx_;
  mpi::HostArray<T> values_;
};

template <class T>
class MultiBlocks final : public spgemm::MultiProduct<T> {
 public:
  MultiBlocks(const SpgemmProblem<T>& problem, Exec& exec)
      : spgemm::MultiProduct<T>(problem, exec), window_(this->ranks_.node()) {
    std::vector<Offset> weights;
    if (this->root()) weights = mpi::products_before(*problem.a, *problem.b, kRowWeight);
    bounds_ = this->deal_rows(weights);
    this->take_rows(this->a_, bounds_);
    own_row_ptr_ = PinnedArray<Offset>(static_cast<std::size_t>(own_rows()) + 1);
  }

  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec& exec) {
    if (problem.destination == Destination::one_gpu)
      return "leaves C on 0 GPUs as a whole: it stays distributed or comes to the host";
    return mpi::needs_ranks(exec);
  }

  std::string note() const override {
    const std::string note = spgemm::MultiProduct<T>::note();
    if (nnz_ == 0 || window_.locked()) return note;
    return note + (note.empty() ? "" : "; ") + "C's memory could not be page-locked";
  }

 private:
  void place() override { this->place_values(this->a_.values); }

  Index own_rows() const { return bounds_[this->me() + 1] - bounds_[this->me()]; }

  void collect() override {
    if (this->ranks_.nodes() == 1) return write_to_window();
    c_.gather(this->product().fetch(), bounds_, this->shape_.cols, this->comm());
  }

  void write_to_window() {
    const std::vector<Offset> places = mpi::all_bounds(this->product().results(), this->comm());
    nnz_ = places.back();
    window_.reserve(this->shape_.rows, nnz_);
    const Offset first = places[this->me()];
    this->product().copy_to_host(own_row_ptr_.data(), window_.col_idx() + first, window_.values() + first);
    Offset* const row_ptr = window_.row_ptr() + bounds_[this->me()];
    if (this->root()) row_ptr[0] = 0;
    for (std::size_t i = 1; i < own_row_ptr_.size(); ++i) row_ptr[i] = first + own_row_ptr_[i];
    mpi::add_traffic(Offset{own_rows()} * Offset{sizeof(Offset)} +
                     (places[this->me() + 1] - first) * Offset{sizeof(Index) + sizeof(T)});
    window_.fence();
  }

  void forget() override {
    if (this->root() && nnz_ > 0)
      std::memset(window_.values(), 0xff, static_cast<std::size_t>(nnz_) * sizeof(T));
    nnz_ = 0;
    c_.forget();
    this->product().reset();
  }

  Csr<T> result() const override {
    if (this->ranks_.nodes() > 1) return c_.whole();
    Csr<T> c(this->shape_.rows, this->shape_.cols);
    if (nnz_ == 0) return c;
    std::memcpy(c.row_ptr.data(), window_.row_ptr(), c.row_ptr.size() * sizeof(Offset));
    c.col_idx.assign(window_.col_idx(), window_.col_idx() + nnz_);
    c.values.assign(window_.values(), window_.values() + nnz_);
    return c;
  }

  mpi::RowBounds bounds_;
  WindowCsr<T> window_;
  PinnedArray<Offset> own_row_ptr_;
  Offset nnz_ = 0;          // of C, where it is in the window
  mpi::GatheredRows<T> c_;  // where there are several nodes
};

}  // namespace

void add_multi_blocks(Registry& registry) {
  registry.add<MultiBlocks>({.name = "08_spgemm_multigpu/multi_blocks",
                             .idea = "several GPUs: blocks of neighbouring rows of equal work; C left there, "
                                     "or copied to its place by each",
                             .needs = {.gpu = true, .several_ranks = true, .mpi = true}});
}

}  // namespace stages
