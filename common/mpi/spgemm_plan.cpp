#include "common/mpi/spgemm_plan.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/matrix/error.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/exec.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {

std::optional<std::string> needs_ranks(Exec& exec) {
  if (ranks_of(exec) != nullptr) return std::nullopt;
  return "needs 1 or more ranks of MPI: give --ranks N, or start the program by mpirun";
}

template <class T>
std::optional<std::string> MpiSpgemmPlan<T>::refuse(const SpgemmProblem<T>& problem, Exec& exec) {
  if (problem.destination == Destination::one_gpu) return "cannot leave C on a GPU: it computes on the host";
  return needs_ranks(exec);
}

template <class T>
MpiSpgemmPlan<T>::MpiSpgemmPlan(const SpgemmProblem<T>& problem, Exec& exec, Placed placed)
    : problem_(problem), exec_(exec), ranks_(*ranks_of(exec)), placed_(placed) {
  if (root()) {
    shape_ = {problem.a->rows,  problem.a->cols,     problem.b->cols, problem.a->nnz(),      problem.b->nnz(),
              problem.products, problem.destination, problem.rounds,  problem.a == problem.b};
    a_ = problem.a->view();
    b_ = problem.b->view();
  }
  broadcast(&shape_, 1, 0, comm());
  measure_whole_ = [this] { measure_whole_product(); };
}

template <class T>
RowBounds MpiSpgemmPlan<T>::bounds_for(std::span<const Offset> before) {
  return shared_bounds(root() ? deal(before, ranks_.size()) : RowBounds(), comm());
}

template <class T>
void MpiSpgemmPlan<T>::use(const RowBounds& /*bounds*/) {
  fail("a plan of step 2 deals rows and has no use(): override it, it takes the bounds that were dealt");
}

template <class T>
void MpiSpgemmPlan<T>::deal_rows(std::span<const Offset> before) {
  dealt_ = bounds_for(before);
  use(dealt_);
}

/// Products are not time: one that lands in a cache line just used, or beside its neighbours in a word of the
/// bitmap, costs a fifth of one that comes alone from a short row of B. On web graphs and other matrices
/// whose parts differ, equal products were found to leave the slowest of 16 ranks 1.3 to 2.3 times the mean
/// time; a model of the kernel with eight constants 1.1 to 1.5 times, with constants of one processor and one
/// kernel. So the clock is asked. Each rank multiplies its rows, the weights of its share are scaled to the
/// time that it took, and the rows are dealt by these weights; the next trial shows what is still wrong,
/// within smaller pieces. Computed from the times of single pieces, three trials come to 1.05 or less on all of
/// them; on a machine where others are at work the clock misleads, see 02_mpi/notes.md.
///
/// The best trial is kept, so an unlucky measurement cannot make it worse than equal products. Which ranks
/// have which rows then differs from start to start; the bits of C do not, because no row's sum depends on
/// where it is made.
template <class T>
void MpiSpgemmPlan<T>::deal_rows_by_time(std::vector<Offset> before, double least_seconds) {
  constexpr int kTrials = 4;
  constexpr double kEven = 1.03;  // the slowest over the mean: less is within the noise of the clock
  RowBounds bounds = dealt_ = bounds_for(before);
  double least = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial < kTrials && ranks_.size() > 1; ++trial) {
    use(bounds);
    const std::vector<double> seconds = seconds_of_shares();
    const double slowest = *std::max_element(seconds.begin(), seconds.end());
    if (slowest < least) {
      least = slowest;
      dealt_ = bounds;
    }
    const double mean = std::reduce(seconds.begin(), seconds.end()) / ranks_.size();
    if (slowest <= kEven * mean || slowest < least_seconds) break;
    if (root()) before = reweighed(before, bounds, seconds);
    RowBounds next = bounds_for(before);
    if (next == bounds) break;  // rows are too few or too heavy to move
    bounds = std::move(next);
  }
  use(dealt_);
}

/// How long each share takes, on all ranks: the best of two multiplications after one that warms up, or of five
/// where they are short and on the host, and so easily disturbed. All ranks multiply at once, because the
/// memory that they share is part of the time; unless they take turns.
template <class T>
std::vector<double> MpiSpgemmPlan<T>::seconds_of_shares() {
  const bool on_gpus = placed_ == Placed::by_load;
  if (!on_gpus) place();
  compute_seconds_ = 0;
  multiply();
  double warm_up = compute_seconds_;
  max_over_ranks(std::span(&warm_up, 1), comm());
  const int timings = warm_up < 0.05 && !on_gpus ? 5 : 2;
  double least = std::numeric_limits<double>::infinity();
  for (int k = 0; k < timings; ++k) {
    check(MPI_Barrier(comm()), "starting together");
    compute_seconds_ = 0;
    multiply();
    least = std::min(least, compute_seconds_);
  }
  std::vector<double> seconds(static_cast<std::size_t>(ranks_.size()), 0);
  seconds[me()] = least;
  sum_over_ranks(seconds, comm());
  return seconds;
}

template <class T>
void MpiSpgemmPlan<T>::load(const SpgemmOperands<T>& operands) {
  if (root()) {
    a_ = problem_.a->view();
    a_.values = operands.a_values.data();
    b_.values = operands.b_values.data();
  }
  if (shape_.rounds > 1) begin_round(0);
  if (!places_in_run()) place();
}

template <class T>
void MpiSpgemmPlan<T>::advance() {
  if (!places_in_run()) {
    keep_rows();
  } else if (root()) {
    take_result(kept_);
    a_ = kept_.view();
  }
  begin_round(round_ + 1);
}

template <class T>
void MpiSpgemmPlan<T>::begin_round(std::size_t round) {
  round_ = round;
  clocks_.resize(std::max(clocks_.size(), round + 1));
  if (root()) shape_.nnz_a = a_.row_ptr[a_.rows];
  if (places_in_run()) broadcast(&shape_.nnz_a, 1, 0, comm());
}

template <class T>
void MpiSpgemmPlan<T>::run() {
  collected_ = false;
  product(places_in_run());
}

/// Barriers between the steps, so that waiting for the slowest rank is told apart from moving data.
template <class T>
void MpiSpgemmPlan<T>::product(bool whole) {
  const auto start = std::chrono::steady_clock::now();
  compute_seconds_ = 0;
  RunBytes bytes;
  const Offset sent_before = bytes_sent();
  if (whole) {
    Phase phase(exec_, "scatter");
    place();
    check(MPI_Barrier(comm()), "waiting for all ranks");
  }
  bytes.scatter = bytes_sent() - sent_before;
  const auto placed = std::chrono::steady_clock::now();
  multiply();
  bytes.exchange = bytes_sent() - sent_before - bytes.scatter;
  const bool stays = !whole && shape_.destination == Destination::distributed;
  if (!stays) {
    Phase phase(exec_, "wait");
    check(MPI_Barrier(comm()), "waiting for all ranks");
  }
  const double distributed = seconds_since(placed);
  if (!stays) {
    Phase phase(exec_, "gather");
    collect();
    collected_ = true;
  }
  bytes.gather = bytes_sent() - sent_before - bytes.scatter - bytes.exchange;
  note_run({compute_seconds_, distributed, whole ? seconds_since(start) : -1}, bytes);
}

/// Times of the executor mean nothing, so there they stay unknown.
template <class T>
void MpiSpgemmPlan<T>::note_run(const RunTimes& times, const RunBytes& bytes) {
  if (!exec_.simulated()) clocks().add(takes_turns() ? RunTimes{.compute = times.compute} : times);
  clocks().set_bytes(bytes);
}

/// What a user pays whose matrices start and end on one rank. Where that isn't what run() does, it is
/// measured here; a first time warms up place() and collect().
template <class T>
void MpiSpgemmPlan<T>::measure_whole_product() {
  const Clocks before = clocks();
  product(true);
  const RunBytes moved = clocks().bytes();
  clocks() = before;
  if (takes_turns()) return clocks().set_bytes(moved);
  for (int k = 0; k < 3; ++k) {
    check(MPI_Barrier(comm()), "starting together");
    product(true);
  }
}

template <class T>
Csr<T> MpiSpgemmPlan<T>::fetch() {
  if (!collected_) collect();
  collected_ = true;
  return root() ? result() : Csr<T>();
}

template <class T>
std::vector<Metric> MpiSpgemmPlan<T>::metrics() const {
  if (!places_in_run() && shape_.rounds == 1) measure_whole_();
  std::vector<Metric> out = clocks_[round_].metrics(comm());
  if (round_ == 0) {
    double balance = root() ? imbalance() : 1;
    broadcast(&balance, 1, 0, comm());
    out.push_back({"imbalance", balance, ""});
  }
  out.push_back({"cores", static_cast<double>(cores_here().cores), ""});
  out.push_back({"ranks_per_core", oversubscription(ranks_), ""});
  for (Metric& metric : own_metrics()) out.push_back(std::move(metric));
  return out;
}

template <class T>
double MpiSpgemmPlan<T>::imbalance() const {
  return dealt_.empty() ? 1 : mpi::imbalance(products_before(*problem_.a, *problem_.b, 0), dealt_);
}

namespace {

/// The shape of `a`, and room for so many non-zeros; all of it uninitialised where it is new.
template <class T>
void resize(Csr<T>& a, Index rows, Index cols, Offset entries) {
  a.rows = rows;
  a.cols = cols;
  a.row_ptr.resize(static_cast<std::size_t>(rows) + 1);
  a.resize(entries);
}

}  // namespace

template <class T>
void GatheredRows<T>::gather(const Csr<T>& mine, const RowBounds& bounds, Index cols, MPI_Comm comm) {
  const int rank = own_rank(comm);
  const std::vector<Offset> places = all_bounds(mine.nnz(), comm);
  const std::vector<Offset> rows(bounds.begin(), bounds.end());
  if (rank == 0) {
    resize(whole_, bounds.back(), cols, places.back());
    whole_.row_ptr[0] = 0;
  }
  mpi::gather(mine.row_ptr.data() + 1, whole_.row_ptr.data() + 1, rows, 0, comm);
  mpi::gather(mine.col_idx.data(), whole_.col_idx.data(), places, 0, comm);
  mpi::gather(mine.values.data(), whole_.values.data(), places, 0, comm);
  if (rank != 0) return;
  for (std::size_t r = 0; r + 1 < bounds.size(); ++r)
    for (Index i = bounds[r]; i < bounds[r + 1]; ++i)
      whole_.row_ptr[static_cast<std::size_t>(i) + 1] += places[r];
}

template <class T>
void scatter_rows(const CsrView<T>& whole, const RowBounds& bounds, Index cols, Csr<T>& part, MPI_Comm comm) {
  const int rank = own_rank(comm);
  std::vector<Offset> places(bounds.size());  // where each rank's non-zeros begin
  if (rank == 0)
    for (std::size_t r = 0; r < bounds.size(); ++r) places[r] = whole.row_ptr[bounds[r]];
  broadcast(places.data(), std::ssize(places), 0, comm);
  const std::vector<Offset> rows(bounds.begin(), bounds.end());
  const auto mine = static_cast<std::size_t>(rank);
  resize(part, bounds[mine + 1] - bounds[mine], cols, places[mine + 1] - places[mine]);
  scatter(whole.row_ptr, part.row_ptr.data(), rows, 0, comm);
  scatter(whole.col_idx, part.col_idx.data(), places, 0, comm);
  scatter(whole.values, part.values.data(), places, 0, comm);
  part.row_ptr.back() = places[mine + 1];
  for (Offset& place : part.row_ptr) place -= places[mine];
}

template <class T>
CsrView<T> broadcast_matrix(const CsrView<T>& whole, Csr<T>& copy, MPI_Comm comm) {
  struct Size {
    Index rows, cols;
    Offset nnz;
  } size{};
  const int rank = own_rank(comm);
  if (rank == 0) size = {whole.rows, whole.cols, whole.row_ptr[whole.rows]};
  broadcast(&size, 1, 0, comm);
  CsrView<T> view = whole;
  if (rank != 0) {
    resize(copy, size.rows, size.cols, size.nnz);
    view = copy.view();
  }
  // MPI_Bcast takes one pointer for the sender, who only reads, and the receivers.
  broadcast(const_cast<Offset*>(view.row_ptr), Offset{size.rows} + 1, 0, comm);
  broadcast(const_cast<Index*>(view.col_idx), size.nnz, 0, comm);
  broadcast(const_cast<T*>(view.values), size.nnz, 0, comm);
  return view;
}

#define STAGES_INSTANTIATE(T)                                                                \
  template class MpiSpgemmPlan<T>;                                                           \
  template class GatheredRows<T>;                                                            \
  template void scatter_rows(const CsrView<T>&, const RowBounds&, Index, Csr<T>&, MPI_Comm); \
  template CsrView<T> broadcast_matrix(const CsrView<T>&, Csr<T>&, MPI_Comm);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)

}  // namespace stages::mpi
