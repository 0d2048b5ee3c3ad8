// SpMM over processes: as spmv_halo, with rows of B for elements of x.
//
// The idea: C = alpha A B + beta C with A's rows dealt by nnz, and B and C by rows the same way. A rank
// fetches the rows of B that its columns name. A message has n_cols times the bytes of SpMV's, and the
// multiplication takes less than n_cols times as long, because a non-zero of A is read once for all columns. So
// bytes may weigh more than in SpMV, also those of a rank's own rows, which are copied to where the fetched
// ones come: on one rank that copy takes up to 0.6 times as long as the multiplication (measured.md). The
// number of messages, the same for any n_cols, weighs less.
//
// On the ranks B and C are row-major whatever the problem's layouts are: a row is then one piece to send, and
// the kernel of step 1 is fastest with it. Rank 0 brings B into that form in load, and C back in fetch.
//
// Input: any CSR matrix, any number of columns, alpha, beta, layouts and leading dimensions. Cost: nnz x
// n_cols steps over ranks; messages of the rows of B that each rank lacks. The result has the bits of csr_spmm
// on a row-major B: each element is summed by the same code in the same order.

#include <algorithm>

#include "02_mpi/halo.hpp"
#include "02_mpi/stage.hpp"
#include "common/kernels/spmm_rows.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/clocks.hpp"
#include "common/mpi/exec.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/transfer.hpp"

namespace stages {
namespace {

/// Between a dense matrix in any layout and its rows without padding, one after the other. A row that lies in
/// one piece is copied in one piece.
template <class T>
void pack_rows(const DenseView<const T>& from, Buffer<T>& to) {
  to.resize(static_cast<std::size_t>(from.rows) * static_cast<std::size_t>(from.cols));
  auto next = to.begin();
  for (Index i = 0; i < from.rows; ++i) {
    if (from.layout == Layout::row_major) {
      next = std::copy_n(from.data + from.position(i, 0), from.cols, next);
      continue;
    }
    for (Index j = 0; j < from.cols; ++j) *next++ = from(i, j);
  }
}
template <class T>
void unpack_rows(const Buffer<T>& from, const DenseView<T>& to) {
  auto next = from.begin();
  for (Index i = 0; i < to.rows; ++i, next += to.cols) {
    if (to.layout == Layout::row_major) {
      std::copy_n(next, to.cols, to.data + to.position(i, 0));
      continue;
    }
    for (Index j = 0; j < to.cols; ++j) to(i, j) = next[j];
  }
}

template <class T>
class SpmmHalo final : public SpmmPlan<T> {
 public:
  SpmmHalo(const SpmmProblem<T>& problem, Exec& exec)
      : problem_(problem), exec_(exec), ranks_(*mpi::ranks_of(exec)), matrix_(problem.a.get(), ranks_) {
    facts_ = {problem.n_cols, problem.alpha, problem.beta};
    mpi::broadcast(&facts_, 1, 0, ranks_.comm());
    b_.resize(elements(matrix_.operand_count()));
    c_.resize(elements(matrix_.mine().rows));
    if (facts_.beta != T{0}) c0_.resize(c_.size());
    halo_.resize(elements(matrix_.needed()));
    measure_whole_ = [this] { measure_root_to_root(); };
  }

  static std::optional<std::string> refuse(const SpmmProblem<T>& /*problem*/, Exec& exec) {
    return mpi::needs_ranks(exec);
  }
  static Cost cost(const SpmmProblem<T>& problem) {
    const double n = problem.n_cols;
    // A, B and C once more on the ranks, B and C in rows on rank 0, and in the worst case all of B on each.
    return problem_cost(problem).plus_memory(
        static_cast<double>(problem.a->nnz()) * (sizeof(Index) + sizeof(T)) +
        2 * n * sizeof(T) * (double{1} * problem.a->rows + problem.a->cols) +
        mpi::world_size() * n * sizeof(T) * problem.a->cols);
  }

  void load(const SpmmOperands<T>& operands) override {
    if (ranks_.rank() == 0) {
      root_b_ = operands.b.view();
      root_c0_ = &operands.c0;
    }
    scatter_operands();
  }
  void reset() override { facts_.beta == T{0} ? poison(c_) : void(c_ = c0_); }

  void run() override {
    const auto start = std::chrono::steady_clock::now();
    const Offset sent = mpi::bytes_sent();
    {
      Phase phase(exec_, "exchange");
      matrix_.exchange(b_.data(), facts_.n_cols, halo_.data());
    }
    double compute = 0;
    {
      Phase phase(exec_, "compute");
      const auto begin = std::chrono::steady_clock::now();
      multiply();
      compute = mpi::seconds_since(begin);
    }
    bytes_.exchange = mpi::bytes_sent() - sent;
    clocks_.add({compute, mpi::seconds_since(start), -1});
    clocks_.set_bytes(bytes_);
  }

  Dense<T> fetch() override {
    gather_rows();
    if (ranks_.rank() != 0) return {};
    Dense<T> c(matrix_.whole_rows(), facts_.n_cols, problem_.c_layout, problem_.ldc);
    if (facts_.beta == T{0}) {
      poison(c.data);
    } else {
      c.data = root_c0_->data;  // for its padding
    }
    unpack_rows(root_rows_, c.view());
    return c;
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
  std::size_t elements(Index rows) const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(facts_.n_cols);
  }

  void multiply() {
    const kernels::Strides rows{facts_.n_cols, 1};
    const kernels::Spmm<T> m{matrix_.mine(), halo_.data(), rows, c_.data(), rows, facts_.alpha, facts_.beta};
    for (Index i = 0; i < m.a.rows; ++i) kernels::multiply_row<32, true>(m, i, 0, facts_.n_cols);
  }

  void scatter_operands() {
    const Offset sent = mpi::bytes_sent();
    scatter_rows_of(root_b_, matrix_.operand_rows(), b_);
    if (facts_.beta != T{0}) {
      DenseView<const T> c0;
      if (ranks_.rank() == 0) c0 = root_c0_->view();
      scatter_rows_of(c0, matrix_.rows(), c0_);
    }
    bytes_.scatter = mpi::bytes_sent() - sent;
  }
  void scatter_rows_of(const DenseView<const T>& whole, const mpi::RowBounds& rows, Buffer<T>& part) {
    if (ranks_.rank() == 0) pack_rows(whole, root_rows_);
    mpi::scatter(root_rows_.data(), part.data(), mpi::elements_before(rows, facts_.n_cols), 0, ranks_.comm());
  }

  void gather_rows() {
    const Offset sent = mpi::bytes_sent();
    if (ranks_.rank() == 0) root_rows_.resize(elements(matrix_.whole_rows()));
    mpi::gather(c_.data(), root_rows_.data(), mpi::elements_before(matrix_.rows(), facts_.n_cols), 0,
                ranks_.comm());
    bytes_.gather = mpi::bytes_sent() - sent;
  }

  /// The clock of a user whose B and C are on rank 0, which run() isn't. The first time is the warm-up.
  void measure_root_to_root() {
    Dense<T> c;
    if (ranks_.rank() == 0)
      c = Dense<T>(matrix_.whole_rows(), facts_.n_cols, problem_.c_layout, problem_.ldc);
    for (int k = 0; k < 4; ++k) {
      mpi::check(MPI_Barrier(ranks_.comm()), "starting together");
      const auto start = std::chrono::steady_clock::now();
      scatter_operands();
      if (facts_.beta != T{0}) c_ = c0_;
      run();
      gather_rows();
      if (ranks_.rank() == 0) unpack_rows(root_rows_, c.view());
      if (k > 0) clocks_.add({-1, -1, mpi::seconds_since(start)});
    }
    clocks_.set_bytes(bytes_);
  }

  struct Facts {
    Index n_cols = 1;
    T alpha = 1;
    T beta = 0;
  };

  SpmmProblem<T> problem_;
  Exec& exec_;
  mpi::MpiCommunicator& ranks_;
  mpi::HaloMatrix<T> matrix_;
  Facts facts_;
  DenseView<const T> root_b_;          // rank 0
  const Dense<T>* root_c0_ = nullptr;  // rank 0
  Buffer<T> root_rows_;                // rank 0: a dense matrix by rows, on its way out or in
  Buffer<T> b_, c_, c0_;               // this rank's rows
  Buffer<T> halo_;                     // the rows of B that it needs
  mpi::Clocks clocks_;
  mpi::RunBytes bytes_;
  std::function<void()> measure_whole_;  // for metrics(), which is const and has to run the plan
};

}  // namespace

void add_mpi_spmm_halo(Registry& registry) {
  registry.add<SpmmHalo>({.name = "02_mpi/spmm_halo",
                          .idea = "rows on the ranks; each fetches the rows of B that it lacks",
                          .needs = {.several_ranks = true, .mpi = true}});
}

}  // namespace stages
