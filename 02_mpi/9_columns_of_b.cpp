// SpGEMM over processes by dot products, where bringing B into columns is a part of the run: on one rank or on
// all of them, by sorting or by counting.
//
// The idea: dot products need B by columns, and B comes by rows. In the course project's version every rank
// sorted all of B. Its report plans that all ranks sort it together, each a p-th, and never tried that. So:
// each rank has some rows of B, of about equal nnz. The ranks sum up how many non-zeros each column has; then
// each knows where every column begins, and which columns belong to which rank, if all get about equal nnz.
// An all-to-all sends each non-zero to the owner of its column, who brings its non-zeros into order. An
// all-gather brings the pieces to all ranks, as each needs all columns. `..._on_one`: rank 0 does it, and
// broadcasts.
//
// Order by sorting takes n log n steps for n non-zeros. Order by counting takes n: it is known where a column
// begins, and non-zeros arrive in the order of their rows, so each goes to the next free place of its column.
// It is a merge of the rows of B that compares nothing.
//
// Look at the phase "columns of B" and its parts: "to owners" (count, deal and send), "order", and "to all".
// Only what a rank sends and orders is divided by p. Each rank still counts over all columns, and receives all
// of B. The dot products take much longer than all of this; they are here because they need it.
//
// Input: any CSR matrices, any number of ranks. In a chain B is converted in the first round alone. Cost on a
// rank: n log n or n steps, of n = nnz(B)/p by all, and the columns of B; then two_pointer_dot's, over ranks.
// Messages: B's rows to the ranks, (row, column, value) of each non-zero to its owner, B to each rank.

#include <algorithm>
#include <tuple>

#include "02_mpi/dot_rows.hpp"
#include "02_mpi/scattered_rows.hpp"
#include "02_mpi/stage.hpp"
#include "common/mpi/transfer.hpp"

namespace stages {
namespace {

enum class Where { on_one, by_all };
enum class Order { sorted, counted };

template <class T>
struct Triplet {
  Index col, row;
  T value;
};

template <class T>
class ColumnsOfB final : public GatheredToRoot<T> {
 public:
  ColumnsOfB(const SpgemmProblem<T>& problem, Exec& exec, Where where, Order order)
      : GatheredToRoot<T>(problem, exec), by_all_(where == Where::by_all), order_(order) {
    std::span<const Offset> entries_before;
    if (this->root()) {
      entries_before = problem.a->row_ptr;
      b_bounds_ = mpi::deal(problem.b->row_ptr, by_all_ ? this->ranks_.size() : 1);
      b_bounds_.resize(ranks() + 1, problem.b->rows);
    }
    b_bounds_ = mpi::shared_bounds(std::move(b_bounds_), this->comm());
    this->deal_rows(entries_before);
    outgoing_.resize(ranks());
    columns_.col_ptr.resize(static_cast<std::size_t>(this->shape_.cols) + 1);
    columns_.row_idx.resize(static_cast<std::size_t>(this->shape_.nnz_b));
    b_values_.resize(columns_.row_idx.size());
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    constexpr double kEntry = sizeof(Index) + sizeof(T);
    const auto nnz = static_cast<double>(problem.b->nnz());
    return problem_cost(problem)
        .with_work(kernels::sparse_dot_steps(*problem.a, *problem.b))
        .plus_memory(mpi::world_size() *
                         (kEntry * nnz + (3.0 * sizeof(Offset) + sizeof(Index)) * problem.b->cols) +
                     (kEntry + 3 * sizeof(Triplet<T>)) * nnz +
                     kEntry * static_cast<double>(problem.a->nnz() + problem.result_bound));
  }

 private:
  void place() override {
    mpi::scatter_rows(this->a_, this->bounds_, this->shape_.inner, this->a_part_, this->comm());
    if (!this->has_b()) mpi::scatter_rows(this->b_, b_bounds_, this->shape_.cols, b_part_, this->comm());
  }

  void multiply() override {
    if (!this->has_b()) make_columns();
    Phase phase(this->exec_, "compute");
    const auto start = std::chrono::steady_clock::now();
    dot_rows(this->a_part_.view(), columns_, b_values_.data(), this->shape_.cols, this->c_part_);
    this->add_compute_seconds(mpi::seconds_since(start));
  }

  void make_columns() {
    Phase phase(this->exec_, "columns of B");
    const bool converts = by_all_ || this->root();
    part("to owners", [&] {
      if (converts) count_columns();
      if (by_all_) send_to_owners();
    });
    part("order", [&] {
      if (converts && order_ == Order::sorted) sort_entries();
      if (converts && order_ == Order::counted) place_entries();
    });
    part("to all", [&] { bring_to_all(); });
  }

  /// A part of the phase, with its waiting for the slowest rank, which the next part is not to pay.
  template <class Work>
  void part(std::string_view name, Work&& work) {
    Phase phase(this->exec_, name);
    work();
    mpi::check(MPI_Barrier(this->comm()), "waiting for all ranks");
  }

  /// Where each column begins, and the first column of each rank.
  void count_columns() {
    std::vector<double> counts(static_cast<std::size_t>(this->shape_.cols), 0);  // exact up to 2^53
    for (const Index j : b_part_.col_idx) ++counts[static_cast<std::size_t>(j)];
    if (by_all_) mpi::sum_over_ranks(counts, this->comm());
    columns_.col_ptr[0] = 0;
    for (std::size_t j = 0; j < counts.size(); ++j)
      columns_.col_ptr[j + 1] = columns_.col_ptr[j] + static_cast<Offset>(counts[j]);
    owners_ = mpi::deal(columns_.col_ptr, by_all_ ? this->ranks_.size() : 1);
    owners_.resize(ranks() + 1, this->shape_.cols);
  }

  /// Calls visit(entry) for this rank's non-zeros of B, row by row.
  template <class Visit>
  void for_each_entry(Visit&& visit) const {
    const Index first_row = b_bounds_[this->me()];
    for (Index i = 0; i < b_part_.rows; ++i) {
      const auto row = static_cast<std::size_t>(i);
      for (auto q = static_cast<std::size_t>(b_part_.row_ptr[row]);
           q < static_cast<std::size_t>(b_part_.row_ptr[row + 1]); ++q)
        visit(Triplet<T>{b_part_.col_idx[q], first_row + i, b_part_.values[q]});
    }
  }

  /// entries_ are then those of this rank's columns, in the order of their rows.
  void send_to_owners() {
    for (Buffer<Triplet<T>>& entries : outgoing_) entries.clear();
    for_each_entry([&](const Triplet<T>& entry) {
      const auto owner = std::upper_bound(owners_.begin(), owners_.end(), entry.col) - owners_.begin() - 1;
      outgoing_[static_cast<std::size_t>(owner)].push_back(entry);
    });
    std::vector<Offset> counts;
    for (const Buffer<Triplet<T>>& entries : outgoing_) counts.push_back(std::ssize(entries));
    const std::vector<Offset> incoming = mpi::all_to_all(counts, this->comm());
    entries_.resize(static_cast<std::size_t>(first_entry(this->me() + 1) - first_entry(this->me())));
    mpi::Transfers transfers(this->comm());
    Triplet<T>* place = entries_.data();
    for (std::size_t r = 0; r < ranks(); place += incoming[r++]) {
      if (r == this->me()) {
        std::copy(outgoing_[r].begin(), outgoing_[r].end(), place);
      } else {
        transfers.receive(place, incoming[r], static_cast<int>(r));
        transfers.send(outgoing_[r].data(), counts[r], static_cast<int>(r));
      }
    }
    transfers.wait();
  }

  void sort_entries() {
    if (!by_all_) {
      entries_.clear();
      for_each_entry([&](const Triplet<T>& entry) { entries_.push_back(entry); });
    }
    std::sort(entries_.begin(), entries_.end(), [](const Triplet<T>& x, const Triplet<T>& y) {
      return std::tie(x.col, x.row) < std::tie(y.col, y.row);
    });
    auto t = static_cast<std::size_t>(first_entry(this->me()));
    for (const Triplet<T>& entry : entries_) {
      columns_.row_idx[t] = entry.row;
      b_values_[t++] = entry.value;
    }
  }

  void place_entries() {
    const Index first = owners_[this->me()];
    next_.assign(columns_.col_ptr.begin() + first, columns_.col_ptr.begin() + owners_[this->me() + 1]);
    const auto place = [&](const Triplet<T>& entry) {
      const auto t = static_cast<std::size_t>(next_[static_cast<std::size_t>(entry.col - first)]++);
      columns_.row_idx[t] = entry.row;
      b_values_[t] = entry.value;
    };
    if (by_all_) {
      std::for_each(entries_.begin(), entries_.end(), place);
    } else {
      for_each_entry(place);
    }
  }

  void bring_to_all() {
    if (by_all_) {
      std::vector<Offset> bounds(ranks() + 1);
      for (std::size_t r = 0; r < bounds.size(); ++r) bounds[r] = first_entry(r);
      mpi::all_gather(columns_.row_idx.data(), bounds, this->comm());
      mpi::all_gather(b_values_.data(), bounds, this->comm());
    } else {
      mpi::broadcast(columns_.col_ptr.data(), std::ssize(columns_.col_ptr), 0, this->comm());
      mpi::broadcast(columns_.row_idx.data(), this->shape_.nnz_b, 0, this->comm());
      mpi::broadcast(b_values_.data(), this->shape_.nnz_b, 0, this->comm());
    }
    columns_.not_empty.clear();
    for (Index j = 0; j < this->shape_.cols; ++j) {
      const auto column = static_cast<std::size_t>(j);
      if (columns_.col_ptr[column] < columns_.col_ptr[column + 1]) columns_.not_empty.push_back(j);
    }
  }

  std::size_t ranks() const { return static_cast<std::size_t>(this->ranks_.size()); }
  /// Where the columns of rank r begin among the non-zeros of B by columns.
  Offset first_entry(std::size_t r) const { return columns_.col_ptr[static_cast<std::size_t>(owners_[r])]; }

  bool by_all_;
  Order order_;
  mpi::RowBounds b_bounds_, owners_;  // of the rows of B, and of its columns
  Csr<T> b_part_;
  std::vector<Buffer<Triplet<T>>> outgoing_;  // for each rank
  Buffer<Triplet<T>> entries_;                // of this rank's columns
  Buffer<Offset> next_;                       // place for the next non-zero of each of them
  kernels::Columns columns_;                  // of B
  Buffer<T> b_values_;                        // by columns
};

}  // namespace

void add_mpi_columns_of_b(Registry& registry) {
  registry.add<ColumnsOfB>(
      {.name = "02_mpi/columns_sorted_on_one",
       .idea = "in the run rank 0 sorts B into columns and broadcasts them; dot products",
       .previous = "scatter_gather"},
      Where::on_one, Order::sorted);
  registry.add<ColumnsOfB>({.name = "02_mpi/columns_counted_on_one",
                            .idea = "the same by counting the entries of each column, in linear time",
                            .previous = "columns_sorted_on_one"},
                           Where::on_one, Order::counted);
  registry.add<ColumnsOfB>({.name = "02_mpi/columns_sorted_by_all",
                            .idea = "each rank sorts some of B's columns, and all get all of them",
                            .previous = "columns_sorted_on_one"},
                           Where::by_all, Order::sorted);
  registry.add<ColumnsOfB>({.name = "02_mpi/columns_counted_by_all",
                            .idea = "the same by counting",
                            .previous = "columns_sorted_by_all"},
                           Where::by_all, Order::counted);
}

}  // namespace stages
