// SpGEMM over processes with the calls of MPI: scatter A, broadcast B, multiply, gather C.
//
// The idea: rank 0 holds A, B and in the end C. A is cut by rows into shares of about equal nnz, and each rank
// gets one (MPI_Scatterv). B, by columns, goes to all of them (MPI_Bcast). Each rank makes its rows of C by
// sparse dot products, as two_pointer_dot of step 1 does. MPI_Gatherv brings the rows back to rank 0, whose
// own already lie where they belong (MPI_IN_PLACE). Read run() from top to bottom: it is the whole program.
// check() turns an error code of MPI into an error with a text.
//
// What the course project's version got wrong: it cut A in the middle of rows, so that C held several non-zeros
// at one place, each a part of the sum; here shares are whole rows. It padded the last share with zeros, to
// make all equally long; MPI_Scatterv takes shares as long as they are. It gathered the values into the array
// of the columns; here each array has its own MPI_Gatherv. Every rank sorted B into columns again; here rank 0
// does, before the run, which only brings the values into that order.
//
// What remains is the method. Rank 0 sends B to everyone and takes all of C; and equal shares of nnz(A) are
// equal shares of the work only where rows are alike, as on the project's pair.
//
// Input: any CSR matrices of fewer than 2^31 non-zeros, also in C: the counts of MPI are int. (The next
// entries use common/mpi/transfer.hpp, which sends any size.) Cost: as two_pointer_dot, over ranks; messages
// of up to nnz(A) + (ranks - 1) x nnz(B) + nnz(C) non-zeros, all from or to rank 0.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "02_mpi/stage.hpp"
#include "common/kernels/sparse_dot_rows.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/clocks.hpp"
#include "common/mpi/exec.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/spgemm_plan.hpp"
#include "common/mpi/transfer.hpp"

namespace stages {
namespace {

using mpi::check;

MPI_Datatype type_of(float) { return MPI_FLOAT; }
MPI_Datatype type_of(double) { return MPI_DOUBLE; }

template <class T>
class ScatterGather final : public SpgemmPlan<T> {
 public:
  static constexpr bool kChains = true;
  ScatterGather(const SpgemmProblem<T>& problem, Exec& exec)
      : problem_(problem),
        exec_(exec),
        comm_(mpi::ranks_of(exec)->comm()),
        me_(mpi::ranks_of(exec)->rank()),
        ranks_(mpi::ranks_of(exec)->size()),
        first_row_(places()),
        first_entry_(places()),
        row_count_(places() - 1),
        entry_count_(places() - 1) {
    if (me_ == 0) take_columns_of_b();
    check(MPI_Bcast(b_size_, 3, MPI_INT, 0, comm_), "broadcasting the size of B");
    columns_.col_ptr.resize(static_cast<std::size_t>(b_size_[0]) + 1);
    columns_.not_empty.resize(static_cast<std::size_t>(b_size_[1]));
    columns_.row_idx.resize(static_cast<std::size_t>(b_size_[2]));
    b_values_.resize(columns_.row_idx.size());
    share_out(problem.a);
  }

  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec& exec) {
    if (problem.destination != Destination::host) return "brings C to rank 0, and cannot leave it elsewhere";
    const Offset most = std::max({problem.a->nnz(), problem.b->nnz(), problem.result_bound});
    if (most > std::numeric_limits<int>::max())
      return fmt::format("has up to {:.3g} non-zeros in a matrix, and MPI counts to 2147483647 here",
                         static_cast<double>(most));
    return mpi::needs_ranks(exec);
  }
  static Cost cost(const SpgemmProblem<T>& problem) {
    constexpr double kEntry = sizeof(Index) + sizeof(T);
    return problem_cost(problem)
        .with_work(kernels::sparse_dot_steps(*problem.a, *problem.b))
        .plus_memory(mpi::world_size() * (kEntry * static_cast<double>(problem.b->nnz()) +
                                          (8.0 + sizeof(Index)) * problem.b->cols) +
                     kEntry * static_cast<double>(problem.a->nnz() + problem.result_bound));
  }

  void load(const SpgemmOperands<T>& operands) override {
    operands_ = operands;
    if (std::exchange(round_, 0) > 0) share_out(problem_.a);
  }
  /// In a chain: C on rank 0 is the next A, whose rows are shared out anew. B stays on the ranks.
  void advance() override {
    clocks_.resize(std::max(clocks_.size(), ++round_ + 1));
    operands_.a_values.swap(c_.values);
    share_out(std::make_shared<const Csr<T>>(std::move(c_)));
    c_ = Csr<T>();
  }
  void reset() override { c_ = Csr<T>(); }
  Csr<T> fetch() override { return me_ == 0 ? c_ : Csr<T>(); }

  void run() override {
    const auto start = std::chrono::steady_clock::now();
    // Scatter: the lengths of A's rows, the columns and the values, each rank's share to that rank.
    std::optional<Phase> phase(std::in_place, exec_, "scatter");
    const T* whole_values = me_ == 0 ? operands_.a_values.data() : nullptr;
    const Index* whole_columns = me_ == 0 ? a_->col_idx.data() : nullptr;
    const int my_rows = row_count_[rank()], my_entries = entry_count_[rank()];
    check(MPI_Scatterv(whole_lengths_.data(), row_count_.data(), first_row_.data(), MPI_INT, lengths_.data(),
                       my_rows, MPI_INT, 0, comm_),
          "scattering the lengths of A's rows");
    check(MPI_Scatterv(whole_columns, entry_count_.data(), first_entry_.data(), MPI_INT, a_columns_.data(),
                       my_entries, MPI_INT, 0, comm_),
          "scattering A's columns");
    check(MPI_Scatterv(whole_values, entry_count_.data(), first_entry_.data(), type_of(T()), a_values_.data(),
                       my_entries, type_of(T()), 0, comm_),
          "scattering A's values");
    // Broadcast: all of B, by columns, to all ranks, unless they have it from the round before.
    if (round_ == 0) broadcast_b();
    // Multiply: this rank's rows of C. Each row meets each column of B.
    const auto placed = std::chrono::steady_clock::now();
    phase.emplace(exec_, "compute");
    const double compute = multiply();
    phase.emplace(exec_, "wait");
    check(MPI_Barrier(comm_), "waiting for all ranks");
    const double distributed = mpi::seconds_since(placed);
    // Gather: first how many non-zeros of C each rank has, then the lengths of its rows, columns and values.
    phase.emplace(exec_, "gather");
    const int my_results = static_cast<int>(c_.col_idx.size());
    std::vector<int> counts(places() - 1), first(places());
    check(MPI_Gather(&my_results, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, comm_), "counting C's entries");
    std::partial_sum(counts.begin(), counts.end(), first.begin() + 1);
    if (me_ == 0) {
      c_lengths_.resize(static_cast<std::size_t>(first_row_.back()));
      c_.col_idx.resize(static_cast<std::size_t>(first.back()));
      c_.values.resize(c_.col_idx.size());
    }
    const bool root = me_ == 0;
    const auto from = [&](const void* mine) { return root ? MPI_IN_PLACE : mine; };
    check(MPI_Gatherv(from(c_lengths_.data()), my_rows, MPI_INT, c_lengths_.data(), row_count_.data(),
                      first_row_.data(), MPI_INT, 0, comm_),
          "gathering the lengths of C's rows");
    check(MPI_Gatherv(from(c_.col_idx.data()), my_results, MPI_INT, c_.col_idx.data(), counts.data(),
                      first.data(), MPI_INT, 0, comm_),
          "gathering C's columns");
    check(MPI_Gatherv(from(c_.values.data()), my_results, type_of(T()), c_.values.data(), counts.data(),
                      first.data(), type_of(T()), 0, comm_),
          "gathering C's values");
    if (root) sum_lengths();
    note(compute, distributed, mpi::seconds_since(start), my_results);
  }

  std::vector<Metric> metrics() const override {
    std::vector<Metric> out = clocks_[round_].metrics(comm_);
    double imbalance = imbalance_;
    check(MPI_Bcast(&imbalance, 1, MPI_DOUBLE, 0, comm_), "broadcasting the imbalance");
    out.push_back({"imbalance", imbalance, ""});
    out.push_back({"cores", static_cast<double>(mpi::cores_here().cores), ""});
    out.push_back({"ranks_per_core", mpi::oversubscription(*mpi::ranks_of(exec_)), ""});
    return out;
  }

 private:
  std::size_t rank() const { return static_cast<std::size_t>(me_); }
  std::size_t places() const { return static_cast<std::size_t>(ranks_) + 1; }
  std::size_t count_of(const std::vector<int>& counts) const {
    return static_cast<std::size_t>(counts[rank()]);
  }

  /// Rank 0: makes the columns of B.
  void take_columns_of_b() {
    columns_ = kernels::columns_of(*problem_.b);
    b_size_[0] = problem_.b->cols;
    b_size_[1] = static_cast<int>(columns_.not_empty.size());
    b_size_[2] = static_cast<int>(problem_.b->nnz());
  }

  /// All of B, by columns, to all ranks.
  void broadcast_b() {
    if (me_ == 0) {
      for (std::size_t t = 0; t < b_values_.size(); ++t)
        b_values_[t] = operands_.b_values[static_cast<std::size_t>(columns_.source[t])];
    }
    check(MPI_Bcast(columns_.col_ptr.data(), b_size_[0] + 1, MPI_INT64_T, 0, comm_), "B's pointers");
    check(MPI_Bcast(columns_.not_empty.data(), b_size_[1], MPI_INT, 0, comm_), "B's columns in use");
    check(MPI_Bcast(columns_.row_idx.data(), b_size_[2], MPI_INT, 0, comm_), "B's rows");
    check(MPI_Bcast(b_values_.data(), b_size_[2], type_of(T()), 0, comm_), "B's values");
  }

  /// Rank 0 cuts `a` into shares of whole rows; each rank learns which, and makes room for its own.
  void share_out(std::shared_ptr<const Csr<T>> a) {
    a_ = std::move(a);
    if (me_ == 0) {
      first_row_ = mpi::deal(a_->row_ptr, ranks_);
      for (std::size_t r = 0; r < places(); ++r)
        first_entry_[r] = static_cast<int>(a_->row_ptr[static_cast<std::size_t>(first_row_[r])]);
      whole_lengths_.clear();
      for (Index i = 0; i < a_->rows; ++i) whole_lengths_.push_back(static_cast<int>(a_->row_nnz(i)));
      imbalance_ = mpi::imbalance(mpi::products_before(*a_, *problem_.b, 0), first_row_);
    }
    check(MPI_Bcast(first_row_.data(), ranks_ + 1, MPI_INT, 0, comm_), "broadcasting the rows of the ranks");
    check(MPI_Bcast(first_entry_.data(), ranks_ + 1, MPI_INT, 0, comm_), "broadcasting their entries");
    std::adjacent_difference(first_row_.begin() + 1, first_row_.end(), row_count_.begin());
    std::adjacent_difference(first_entry_.begin() + 1, first_entry_.end(), entry_count_.begin());
    lengths_.resize(count_of(row_count_));
    a_columns_.resize(count_of(entry_count_));
    a_values_.resize(a_columns_.size());
  }

  /// This rank's rows of C, and how many non-zeros each has. Returns the seconds that it took.
  double multiply() {
    const auto start = std::chrono::steady_clock::now();
    // On rank 0 these arrays will hold all of C: what is reserved and not yet written takes no memory.
    if (me_ == 0) {
      c_.col_idx.reserve(static_cast<std::size_t>(problem_.result_bound));
      c_.values.reserve(static_cast<std::size_t>(problem_.result_bound));
    }
    c_lengths_.clear();
    std::size_t count = 0;
    Offset at = 0;
    for (const int length : lengths_) {
      const std::size_t before = count, room = count + columns_.not_empty.size();
      if (room > c_.values.size()) {
        c_.col_idx.resize(std::max(room, 2 * c_.values.size()));
        c_.values.resize(c_.col_idx.size());
      }
      if (length > 0)
        count = kernels::dot_row<T>({a_columns_.data() + at, a_values_.data() + at, length}, columns_,
                                    b_values_.data(), c_, count);
      c_lengths_.push_back(static_cast<int>(count - before));
      at += length;
    }
    c_.col_idx.resize(count);
    c_.values.resize(count);
    return mpi::seconds_since(start);
  }

  /// Rank 0: the row pointers of C from the lengths of its rows.
  void sum_lengths() {
    c_.rows = problem_.a->rows;
    c_.cols = problem_.b->cols;
    c_.row_ptr.assign(1, 0);
    for (const int length : c_lengths_) c_.row_ptr.push_back(c_.row_ptr.back() + length);
  }

  /// The clocks of this run, and what this rank has sent.
  void note(double compute, double distributed, double whole, int my_results) {
    constexpr Offset kEntry = sizeof(Index) + sizeof(T);
    mpi::RunBytes bytes;
    if (me_ == 0) {
      const Offset others = first_entry_.back() - entry_count_[0];
      const Offset b =
          round_ > 0 ? 0 : 8 * (Offset{b_size_[0]} + 1) + 4 * Offset{b_size_[1]} + kEntry * b_size_[2];
      bytes.scatter = 4 * (Offset{first_row_.back()} - row_count_[0]) + kEntry * others + (ranks_ - 1) * b;
    } else {
      bytes.gather = 4 * Offset{row_count_[rank()]} + kEntry * my_results;
    }
    clocks_[round_].add({compute, distributed, whole});
    clocks_[round_].set_bytes(bytes);
  }

  SpgemmProblem<T> problem_;         // rank 0's
  std::shared_ptr<const Csr<T>> a_;  // rank 0's: the problem's, in a chain then the last C
  std::size_t round_ = 0;            // of a chain
  Exec& exec_;
  MPI_Comm comm_;
  int me_, ranks_;
  std::vector<int> first_row_, first_entry_;  // of each rank's share of A, and the ends
  std::vector<int> row_count_, entry_count_;  // of each rank's share
  int b_size_[3] = {0, 0, 0};                 // columns, those in use, non-zeros
  SpgemmOperands<T> operands_;                // rank 0: a copy, as the caller may drop his
  std::vector<int> whole_lengths_;            // rank 0: of A's rows
  std::vector<int> lengths_, c_lengths_;      // of this rank's rows of A and C
  Buffer<Index> a_columns_;
  Buffer<T> a_values_;
  kernels::Columns columns_;  // of B
  Buffer<T> b_values_;        // by columns
  Csr<T> c_;                  // this rank's rows; on rank 0 then all of them
  double imbalance_ = 1;
  std::vector<mpi::Clocks> clocks_ = std::vector<mpi::Clocks>(1);  // of each round
};

}  // namespace

void add_mpi_scatter_gather(Registry& registry) {
  registry.add<ScatterGather>({.name = "02_mpi/scatter_gather",
                               .idea = "rank 0 scatters A and broadcasts B; dot products; C is gathered",
                               .needs = {.several_ranks = true, .mpi = true}});
}

}  // namespace stages
