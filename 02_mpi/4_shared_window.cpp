// SpGEMM over processes on one node, where no non-zero is sent: operands and result in memory that all ranks
// see.
//
// The idea: MPI can give the ranks of a node a piece of memory that all see (MPI_Win_allocate_shared). Rank 0
// puts A and B there once, and every rank reads its rows of A, and the rows of B that it needs, where they
// are. Each rank makes its rows of C in its own memory, because nobody knows how many non-zeros they will have;
// MPI_Exscan over these counts then tells each rank where its rows begin in C, and all of them write at once
// to where C is wanted. There is no gather.
//
// Each non-zero of C is written twice, once by the kernel and once into the window. Counting first would allow
// to write it once, but costs a pass over all products, which is dearer wherever C has fewer non-zeros than
// there are products. Memory that is mapped for the first time is slow: each page faults on every rank that
// touches it. Windows only grow and are kept, so this belongs to the warm-up.
//
// Input: any CSR matrices, any number of ranks on one node; several share no memory. Cost: one step a product,
// over ranks; A and B copied by rank 0 alone, C copied by all ranks. Memory: A, B and C once more.

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "02_mpi/stage.hpp"
#include "common/kernels/spgemm_rows.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/shared_window.hpp"
#include "common/mpi/spgemm_plan.hpp"
#include "common/mpi/transfer.hpp"

namespace stages {
namespace {

/// A CSR matrix in the shared memory of a node.
template <class T>
class SharedCsr {
 public:
  explicit SharedCsr(MPI_Comm node) : row_ptr_(node), col_idx_(node), values_(node) {}

  void reserve(Index rows, Offset nnz) {
    row_ptr_.reserve(Offset{rows} + 1);
    col_idx_.reserve(nnz);
    values_.reserve(nnz);
  }
  Offset* row_ptr() const { return row_ptr_.data(); }
  Index* col_idx() const { return col_idx_.data(); }
  T* values() const { return values_.data(); }
  CsrView<T> view(Index rows, Index cols) const { return {rows, cols, row_ptr(), col_idx(), values()}; }
  void fence() const { values_.fence(); }

  /// Called by one rank of a node.
  void copy_from(const CsrView<T>& m) const {
    const auto nnz = static_cast<std::size_t>(m.row_ptr[m.rows]);
    std::memcpy(row_ptr(), m.row_ptr, (static_cast<std::size_t>(m.rows) + 1) * sizeof(Offset));
    if (nnz == 0) return;
    std::memcpy(col_idx(), m.col_idx, nnz * sizeof(Index));
    std::memcpy(values(), m.values, nnz * sizeof(T));
  }

 private:
  mpi::SharedArray<Offset> row_ptr_;
  mpi::SharedArray<Index> col_idx_;
  mpi::SharedArray<T> values_;
};

template <class T>
class SharedWindowPlan final : public mpi::MpiSpgemmPlan<T> {
 public:
  static constexpr bool kChains = true;
  SharedWindowPlan(const SpgemmProblem<T>& problem, Exec& exec)
      : mpi::MpiSpgemmPlan<T>(problem, exec),
        shared_a_(this->ranks_.node()),
        shared_b_(this->ranks_.node()),
        c_(this->ranks_.node()),
        rows_(this->shape_.cols) {
    std::vector<Offset> before;
    if (this->root()) before = mpi::products_before(*problem.a, *problem.b, 1);
    this->deal_rows_by_time(std::move(before));
  }

  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec& exec) {
    if (auto reason = mpi::MpiSpgemmPlan<T>::refuse(problem, exec)) return reason;
    if (mpi::ranks_of(exec)->nodes() > 1)
      return "has ranks on several nodes, which share no memory; see 02_mpi/distributed";
    std::vector<double> windows;
    const auto matrix = [&](Index rows, Offset nnz) {
      const auto entries = static_cast<double>(nnz);
      for (const double bytes : {sizeof(Offset) * (rows + 1.0), sizeof(Index) * entries, sizeof(T) * entries})
        windows.push_back(bytes);
    };
    matrix(problem.a->rows, problem.a->nnz());
    matrix(problem.b->rows, problem.b->nnz());
    matrix(problem.a->rows, problem.result_bound);
    if (std::string lack = mpi::shared_memory_problem(windows); !lack.empty()) return lack;
    return std::nullopt;
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    const double entry = sizeof(Index) + sizeof(T);
    return problem_cost(problem).plus_memory(
        mpi::world_size() * kernels::spgemm_rows_bytes(*problem.b) +
        entry * static_cast<double>(problem.a->nnz() + problem.b->nnz() + problem.result_bound));
  }

 private:
  void use(const mpi::RowBounds& bounds) override {
    first_row_ = bounds[this->me()];
    last_row_ = bounds[this->me() + 1];
  }

  void place() override {
    const auto& shape = this->shape_;
    shared_b_.fence();  // nobody still reads what is overwritten now
    shared_a_.reserve(shape.rows, shape.nnz_a);
    shared_b_.reserve(shape.inner, shape.nnz_b);
    const auto fill = [&](const SharedCsr<T>& shared, const CsrView<T>& matrix, Index rows, Offset nnz) {
      if (this->root()) {
        shared.copy_from(matrix);
        mpi::add_traffic(bytes_of(rows, nnz));
      }
      shared.fence();
    };
    fill(shared_a_, this->a_, shape.rows, shape.nnz_a);
    if (!this->has_b()) fill(shared_b_, this->b_, shape.inner, shape.nnz_b);
    kept_rows_ = Csr<T>();
  }

  /// A view of this rank's rows of A would have row pointers that don't begin at 0; so these are made apart.
  CsrView<T> own_rows() {
    const CsrView<T> all = shared_a_.view(this->shape_.rows, this->shape_.inner);
    const Offset first = all.row_ptr[first_row_];
    own_row_ptr_.resize(static_cast<std::size_t>(last_row_ - first_row_) + 1);
    for (std::size_t i = 0; i < own_row_ptr_.size(); ++i)
      own_row_ptr_[i] = all.row_ptr[static_cast<std::size_t>(first_row_) + i] - first;
    return {last_row_ - first_row_, all.cols, own_row_ptr_.data(), all.col_idx + first, all.values + first};
  }

  void multiply() override {
    Phase phase(this->exec_, "compute");
    const auto start = std::chrono::steady_clock::now();
    const CsrView<T> a = kept_rows_.rows > 0 ? kept_rows_.view() : own_rows();
    const CsrView<T> b = shared_b_.view(this->shape_.inner, this->shape_.cols);
    rows_.reserve(a, b, c_part_);
    rows_.fill(a, b, c_part_);
    this->add_compute_seconds(mpi::seconds_since(start));
  }

  void collect() override {
    c_.fence();  // nobody still reads the C before this one
    const Offset mine = c_part_.nnz();
    Offset before = 0;  // of the ranks before this one; rank 0's is not written
    mpi::check(MPI_Exscan(&mine, &before, 1, MPI_INT64_T, MPI_SUM, this->comm()), "adding up counts");
    mpi::check(MPI_Allreduce(&mine, &nnz_, 1, MPI_INT64_T, MPI_SUM, this->comm()), "adding up counts");
    c_.reserve(this->shape_.rows, nnz_);
    write_rows(this->root() ? 0 : before);
    c_.fence();
  }

  /// Writes this rank's rows, whose non-zeros begin at `first` in C.
  void write_rows(Offset first) {
    Offset* row_ptr = c_.row_ptr() + first_row_;
    if (this->root()) row_ptr[0] = 0;
    for (std::size_t i = 1; i < c_part_.row_ptr.size(); ++i) row_ptr[i] = c_part_.row_ptr[i] + first;
    if (c_part_.nnz() > 0) {
      const auto nnz = static_cast<std::size_t>(c_part_.nnz());
      std::memcpy(c_.col_idx() + first, c_part_.col_idx.data(), nnz * sizeof(Index));
      std::memcpy(c_.values() + first, c_part_.values.data(), nnz * sizeof(T));
    }
    mpi::add_traffic(bytes_of(c_part_.rows, c_part_.nnz()));
  }

  void forget() override {
    c_part_ = Csr<T>();
    if (this->root() && nnz_ > 0) std::memset(c_.values(), 0xff, static_cast<std::size_t>(nnz_) * sizeof(T));
    nnz_ = 0;
  }

  Csr<T> result() const override {
    Csr<T> c(this->shape_.rows, this->shape_.cols);
    const auto nnz = static_cast<std::size_t>(nnz_);
    std::memcpy(c.row_ptr.data(), c_.row_ptr(), c.row_ptr.size() * sizeof(Offset));
    c.col_idx.assign(c_.col_idx(), c_.col_idx() + nnz);
    c.values.assign(c_.values(), c_.values() + nnz);
    return c;
  }
  void keep_rows() override { std::swap(kept_rows_, c_part_); }

  static Offset bytes_of(Index rows, Offset nnz) {
    return Offset{rows} * Offset{sizeof(Offset)} + nnz * Offset{sizeof(Index) + sizeof(T)};
  }

  SharedCsr<T> shared_a_, shared_b_, c_;
  kernels::SpgemmRows<T> rows_;
  Index first_row_ = 0, last_row_ = 0;
  Buffer<Offset> own_row_ptr_;
  Csr<T> c_part_, kept_rows_;  // kept: A's, where those are the rows of C of the round before
  Offset nnz_ = 0;             // of C
};

}  // namespace

void add_mpi_shared_window(Registry& registry) {
  registry.add<SharedWindowPlan>({.name = "02_mpi/shared_window",
                                  .idea = "A, B and C in memory that all ranks of the node see: no gather",
                                  .previous = "balanced"});
}

}  // namespace stages
