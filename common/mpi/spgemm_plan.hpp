#pragma once
// What the SpGEMM plans over several ranks share: where operands and result are, and the order of the steps.
//
// The operands start on rank 0. A plan gives three steps, each collective:
//
//   place()     brings the loaded A and B from rank 0 to where the ranks need them
//   multiply()  each rank makes its rows of C, fetching from the others what it lacks
//   collect()   brings all rows of C to rank 0
//
// Where C must be on the host, run() is all three: root to root. Where C stays distributed, place() belongs
// to load() and collect() to fetch(), and run() is multiply() alone; root to root is then measured apart, for
// the metrics. With GPUs place() always belongs to load(), as on one GPU: see Placed.
//
// In a chain C is the next A. Where place() belongs to load(), each rank keeps its rows of C as those of A
// (keep_rows), dealt as they were, and no matrix moves between two rounds. Root to root rank 0 has C, and
// place() brings it to the ranks again, but not B, which they have.

#include <functional>
#include <optional>
#include <string>

#include "common/harness/exec.hpp"
#include "common/harness/plan.hpp"
#include "common/mpi/clocks.hpp"
#include "common/mpi/communicator.hpp"
#include "common/mpi/deal.hpp"

namespace stages::mpi {

/// Why an entry for ranks cannot run here: it needs an MpiCommunicator.
std::optional<std::string> needs_ranks(Exec& exec);

/// Which part of a product whose C goes to one place brings A and B to the ranks.
enum class Placed {
  by_run,   ///< run() is root to root
  by_load,  ///< run() starts from operands on the ranks, as a plan for one GPU does
};

/// The shape of a product, known on all ranks.
struct ProductShape {
  Index rows = 0;   ///< of A and C
  Index inner = 0;  ///< columns of A, rows of B
  Index cols = 0;   ///< of B and C
  Offset nnz_a = 0, nnz_b = 0, products = 0;
  Destination destination = Destination::host;
  Index rounds = 1;
  bool a_is_b = false;
};

template <class T>
class MpiSpgemmPlan : public SpgemmPlan<T> {
 public:
  static constexpr Needs kNeeds = {.several_ranks = true, .mpi = true};
  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec& exec);

  void load(const SpgemmOperands<T>& operands) final;
  void reset() final { forget(); }
  void run() final;
  Csr<T> fetch() final;
  void advance() final;
  std::vector<Metric> metrics() const final;

 protected:
  MpiSpgemmPlan(const SpgemmProblem<T>& problem, Exec& exec, Placed placed = Placed::by_run);

  virtual void place() = 0;
  virtual void multiply() = 0;
  virtual void collect() = 0;
  /// Makes the result of the last run unusable, so that a run that writes nothing shows.
  virtual void forget() = 0;
  /// Rank 0: C on the host, after collect().
  virtual Csr<T> result() const = 0;
  /// The same in `to`; what that holds may be the memory of the next result.
  virtual void take_result(Csr<T>& to) { to = result(); }
  /// Of a plan that chains: this rank's rows of C become those of A.
  virtual void keep_rows() {}
  /// In place(): whether B is where it has to be, from the round before.
  bool has_b() const { return round_ > 0; }

  /// Collective: the rows of each rank are now those of its share in `bounds`, until the next call. Only a
  /// plan that calls deal_rows() or deal_rows_by_time() needs it, and must have it. Trials multiply next; where
  /// load() brings values (Placed::by_load), before there are any.
  virtual void use(const RowBounds& bounds);

  /// Deals rows by `before` (rank 0's; weights as for deal()).
  void deal_rows(std::span<const Offset> before);
  /// Deals rows by `before`, multiplies, and deals again by the time that each rank took, unless all of them
  /// took less than `least_seconds`; see the .cpp.
  void deal_rows_by_time(std::vector<Offset> before, double least_seconds = 0);
  /// Rank 0: the largest share of the products over the mean share.
  virtual double imbalance() const;
  /// Figures that only this plan has. Collective.
  virtual std::vector<Metric> own_metrics() const { return {}; }
  /// Whether ranks share what multiply() needs and take turns (take_turns): its time is then worth telling,
  /// and no time beside it. The same on all ranks.
  virtual bool takes_turns() const { return false; }
  /// For multiply(): seconds of this rank's own multiplications.
  void add_compute_seconds(double seconds) { compute_seconds_ += seconds; }

  bool root() const { return ranks_.rank() == 0; }
  MPI_Comm comm() const { return ranks_.comm(); }
  std::size_t me() const { return static_cast<std::size_t>(ranks_.rank()); }

  SpgemmProblem<T> problem_;
  Exec& exec_;
  MpiCommunicator& ranks_;
  ProductShape shape_;
  CsrView<T> a_, b_;  ///< rank 0: the operands as loaded. Elsewhere empty

 private:
  bool places_in_run() const { return placed_ == Placed::by_run && shape_.destination == Destination::host; }
  /// What a round has that the one before it had not: the size of A, and clocks of its own.
  void begin_round(std::size_t round);
  Clocks& clocks() { return clocks_[round_]; }
  RowBounds bounds_for(std::span<const Offset> before);
  std::vector<double> seconds_of_shares();
  /// `whole`: all three steps, root to root; else multiply(), and collect() unless C stays distributed.
  void product(bool whole);
  void measure_whole_product();
  void note_run(const RunTimes& times, const RunBytes& bytes);

  Placed placed_;
  std::size_t round_ = 0;                ///< of a chain
  Csr<T> kept_;                          ///< rank 0, root to root: the C that is A now
  std::function<void()> measure_whole_;  ///< for metrics(), which is const and has to run the plan
  std::vector<Clocks> clocks_ = std::vector<Clocks>(1);  ///< of each round
  RowBounds dealt_;
  double compute_seconds_ = 0;
  bool collected_ = false;
};

/// Rows of C that lie on the ranks in the order of the ranks, brought together on rank 0 by MPI_Gatherv:
/// first the row pointers, then columns and values, each into its own array.
template <class T>
class GatheredRows {
 public:
  void gather(const Csr<T>& mine, const RowBounds& bounds, Index cols, MPI_Comm comm);
  void forget() { whole_ = Csr<T>(); }
  const Csr<T>& whole() const { return whole_; }  ///< on rank 0
  void exchange(Csr<T>& other) { std::swap(whole_, other); }

 private:
  Csr<T> whole_;
};

/// Rows bounds[r] .. bounds[r + 1] of a matrix that rank 0 holds, to rank r: `part` is then that piece, its
/// row pointers from 0. `whole` is not looked at elsewhere; `cols` is the same on all ranks.
template <class T>
void scatter_rows(const CsrView<T>& whole, const RowBounds& bounds, Index cols, Csr<T>& part, MPI_Comm comm);

/// A matrix that rank 0 holds, on all ranks: rank 0 keeps a view of its own, the others get a copy in `copy`.
template <class T>
CsrView<T> broadcast_matrix(const CsrView<T>& whole, Csr<T>& copy, MPI_Comm comm);

}  // namespace stages::mpi
