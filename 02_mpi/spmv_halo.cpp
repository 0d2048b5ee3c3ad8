// SpMV over processes: rows of A on the ranks, and of x only what is missing is sent.
//
// The idea: y = A x by rows needs no cooperation but for x: the rank that has row i needs x[k] for each of
// the row's columns k. x lies on the ranks as y does (A's rows dealt by nnz), so most of that is often at
// home, and the rest, the halo, is fetched from the ranks that own it. Which elements these are depends on A
// alone, so prepare finds it out once; a run packs what others need, sends and receives one message a
// neighbour, and multiplies as csr_spmv_by_length of stage 01 does. A chain of products never passes a root:
// y lies where the next x is wanted.
//
// A mesh cut into 4 has a halo of its edges, 0.1 % of x; a random graph needs nearly all of x everywhere, and
// then one product is over in less time than its messages take.
//
// Input: any CSR matrix; a chain needs a square one. Cost: nnz steps over ranks; a message to each rank that
// needs something, at most nnz of the rank's rows elements. The result has the bits of csr_spmv_by_length:
// each row is summed by the same code in the same order.

#include "02_mpi/halo.hpp"
#include "02_mpi/stage.hpp"
#include "common/kernels/spmv_rows.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/clocks.hpp"
#include "common/mpi/exec.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/transfer.hpp"

namespace stages {
namespace {

template <class T>
class SpmvHalo final : public SpmvPlan<T> {
 public:
  SpmvHalo(const SpmvProblem<T>& problem, Exec& exec)
      : exec_(exec), ranks_(*mpi::ranks_of(exec)), matrix_(problem.a.get(), ranks_) {
    facts_ = {problem.mode, problem.products};
    mpi::broadcast(&facts_, 1, 0, ranks_.comm());
    clocks_ = mpi::Clocks(facts_.products);
    x_.resize(elements(matrix_.operand_count(), chain() ? 1 : facts_.products));
    y_.resize(elements(matrix_.mine().rows, facts_.products));
    halo_.resize(static_cast<std::size_t>(matrix_.needed()));
    kernels::group_rows(matrix_.mine(), order_, groups_);
    measure_whole_ = [this] { measure_root_to_root(); };
  }

  static std::optional<std::string> refuse(const SpmvProblem<T>& /*problem*/, Exec& exec) {
    return mpi::needs_ranks(exec);
  }
  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    // A once more on the ranks, and in the worst case all of x on each.
    const double entry = sizeof(Index) + sizeof(T);
    cost.memory += static_cast<double>(problem.a->nnz()) * entry +
                   mpi::world_size() * static_cast<double>(problem.a->cols) * (2 * sizeof(T) + sizeof(Index));
    return cost;
  }

  void load(const SpmvOperands<T>& operands) override {
    if (ranks_.rank() == 0) root_x_ = operands.x.data.data();
    scatter_x();
  }
  void reset() override { poison(y_); }

  void run() override {
    const auto start = std::chrono::steady_clock::now();
    const Offset sent = mpi::bytes_sent();
    double compute = 0;
    for (Index j = 0; j < facts_.products; ++j) {
      const T* x = chain() && j > 0 ? y_.data() + elements(matrix_.mine().rows, j - 1)
                                    : x_.data() + elements(matrix_.operand_count(), chain() ? 0 : j);
      compute += product(x, y_.data() + elements(matrix_.mine().rows, j));
    }
    bytes_.exchange = mpi::bytes_sent() - sent;
    clocks_.add({compute, mpi::seconds_since(start), -1});
    clocks_.set_bytes(bytes_);
  }

  Dense<T> fetch() override {
    Dense<T> y;
    if (ranks_.rank() == 0) y = Dense<T>(matrix_.whole_rows(), facts_.products, Layout::col_major);
    gather_y(y.data.data());
    return y;
  }

  std::vector<Metric> metrics() const override {
    measure_whole_();
    std::vector<Metric> out = clocks_.metrics(ranks_.comm());
    out.push_back({"imbalance", matrix_.imbalance(), ""});
    out.push_back({"cores", static_cast<double>(mpi::cores_here().cores), ""});
    out.push_back({"ranks_per_core", mpi::oversubscription(ranks_), ""});
    return out;
  }

 private:
  bool chain() const { return facts_.mode == Mode::chain; }
  static std::size_t elements(Index rows, Index vectors) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(vectors);
  }

  /// One product; returns the seconds of this rank's own multiplications.
  double product(const T* x, T* y) {
    {
      Phase phase(exec_, "exchange");
      matrix_.exchange(x, 1, halo_.data());
    }
    Phase phase(exec_, "compute");
    const auto start = std::chrono::steady_clock::now();
    kernels::multiply_groups(matrix_.mine(), matrix_.mine().row_ptr.data(), groups_, order_.data(),
                             halo_.data(), y);
    return mpi::seconds_since(start);
  }

  void scatter_x() {
    const std::vector<Offset> bounds(matrix_.operand_rows().begin(), matrix_.operand_rows().end());
    const Offset sent = mpi::bytes_sent();
    for (Index j = 0; j < (chain() ? 1 : facts_.products); ++j) {
      mpi::scatter(root_x_ == nullptr ? nullptr : root_x_ + elements(matrix_.operand_rows().back(), j),
                   x_.data() + elements(matrix_.operand_count(), j), bounds, 0, ranks_.comm());
    }
    bytes_.scatter = mpi::bytes_sent() - sent;
  }

  void gather_y(T* whole) {
    const std::vector<Offset> bounds(matrix_.rows().begin(), matrix_.rows().end());
    const Offset sent = mpi::bytes_sent();
    for (Index j = 0; j < facts_.products; ++j) {
      mpi::gather(y_.data() + elements(matrix_.mine().rows, j),
                  whole == nullptr ? nullptr : whole + elements(matrix_.whole_rows(), j), bounds, 0,
                  ranks_.comm());
    }
    bytes_.gather = mpi::bytes_sent() - sent;
  }

  /// The clock of a user whose x and y are on rank 0, which run() isn't. The first time is the warm-up.
  void measure_root_to_root() {
    Dense<T> y;
    if (ranks_.rank() == 0) y = Dense<T>(matrix_.whole_rows(), facts_.products, Layout::col_major);
    for (int k = 0; k < 4; ++k) {
      mpi::check(MPI_Barrier(ranks_.comm()), "starting together");
      const auto start = std::chrono::steady_clock::now();
      scatter_x();
      run();
      gather_y(y.data.data());
      if (k > 0) clocks_.add({-1, -1, mpi::seconds_since(start)});
    }
    clocks_.set_bytes(bytes_);
  }

  struct Facts {
    Mode mode = Mode::single;
    Index products = 1;
  };

  Exec& exec_;
  mpi::MpiCommunicator& ranks_;
  mpi::HaloMatrix<T> matrix_;
  Facts facts_;
  const T* root_x_ = nullptr;  // rank 0
  Buffer<T> x_, y_;            // this rank's rows, vector after vector
  Buffer<T> halo_;             // the elements of x that its rows need
  Buffer<Index> order_;        // this rank's rows, those of equal length together
  std::vector<kernels::Group> groups_;
  mpi::Clocks clocks_;
  mpi::RunBytes bytes_;
  std::function<void()> measure_whole_;  // for metrics(), which is const and has to run the plan
};

}  // namespace

void add_mpi_spmv_halo(Registry& registry) {
  registry.add<SpmvHalo>({.name = "02_mpi/spmv_halo",
                          .idea = "rows on the ranks; of x, each fetches the elements it lacks",
                          .needs = {.several_ranks = true, .mpi = true}});
}

}  // namespace stages
