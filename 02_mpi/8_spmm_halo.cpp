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

#include "02_mpi/on_ranks.hpp"
#include "02_mpi/stage.hpp"
#include "common/kernels/spmm_rows.hpp"

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
class SpmmHalo final : public mpi::OnRanks<T, SpmmPlan<T>> {
 public:
  SpmmHalo(const SpmmProblem<T>& problem, Exec& exec)
      : mpi::OnRanks<T, SpmmPlan<T>>(problem.a.get(), exec), problem_(problem) {
    facts_ = {problem.n_cols, problem.alpha, problem.beta};
    mpi::broadcast(&facts_, 1, 0, this->ranks_.comm());
    b_.resize(elements(matrix_.operand_count()));
    c_.resize(elements(matrix_.mine().rows));
    if (facts_.beta != T{0}) c0_.resize(c_.size());
    this->halo_.resize(elements(matrix_.needed()));
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
    if (this->root()) {
      root_b_ = operands.b.view();
      root_c0_ = &operands.c0;
      whole_c_ = {};
    }
    scatter_into(c0_);  // the result of a run stays in c_ until the next reset
  }
  void reset() override { facts_.beta == T{0} ? poison(c_) : void(c_ = c0_); }

  Dense<T> fetch() override {
    gather_result();
    return whole_c_;
  }

 private:
  using mpi::OnRanks<T, SpmmPlan<T>>::matrix_;

  std::size_t elements(Index rows) const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(facts_.n_cols);
  }

  double products() override {
    {
      const auto phase = this->phase("exchange");
      matrix_.exchange(b_.data(), facts_.n_cols, this->halo_.data());
    }
    const auto phase = this->phase("compute");
    const auto start = std::chrono::steady_clock::now();
    const kernels::Strides rows{facts_.n_cols, 1};
    const kernels::Spmm<T> m{matrix_.mine(), this->halo_.data(), rows,       c_.data(),
                             rows,           facts_.alpha,       facts_.beta};
    for (Index i = 0; i < m.a.rows; ++i) kernels::multiply_row<32, true>(m, i, 0, facts_.n_cols);
    return mpi::seconds_since(start);
  }

  void scatter_operands() override { scatter_into(c_); }
  void scatter_into(Buffer<T>& c0_here) {
    const Offset sent = mpi::bytes_sent();
    scatter_rows_of(root_b_, matrix_.operand_rows(), b_);
    if (facts_.beta != T{0}) {
      DenseView<const T> c0;
      if (this->root()) c0 = root_c0_->view();
      scatter_rows_of(c0, matrix_.rows(), c0_here);
    }
    this->bytes_.scatter = mpi::bytes_sent() - sent;
  }
  void scatter_rows_of(const DenseView<const T>& whole, const mpi::RowBounds& rows, Buffer<T>& part) {
    if (this->root()) pack_rows(whole, root_rows_);
    mpi::scatter(root_rows_.data(), part.data(), mpi::elements_before(rows, facts_.n_cols), 0,
                 this->ranks_.comm());
  }

  void gather_result() override {
    const Offset sent = mpi::bytes_sent();
    if (this->root()) root_rows_.resize(elements(matrix_.whole_rows()));
    mpi::gather(c_.data(), root_rows_.data(), mpi::elements_before(matrix_.rows(), facts_.n_cols), 0,
                this->ranks_.comm());
    this->bytes_.gather = mpi::bytes_sent() - sent;
    if (!this->root()) return;
    if (whole_c_.data.empty()) {
      whole_c_ = Dense<T>(matrix_.whole_rows(), facts_.n_cols, problem_.c_layout, problem_.ldc);
      facts_.beta == T{0} ? poison(whole_c_.data) : void(whole_c_.data = root_c0_->data);  // for its padding
    }
    unpack_rows(root_rows_, whole_c_.view());
  }

  struct Facts {
    Index n_cols = 1;
    T alpha = 1;
    T beta = 0;
  };

  SpmmProblem<T> problem_;
  Facts facts_;
  DenseView<const T> root_b_;          // rank 0
  const Dense<T>* root_c0_ = nullptr;  // rank 0
  Buffer<T> root_rows_;                // rank 0: a dense matrix by rows, on its way out or in
  Dense<T> whole_c_;                   // rank 0
  Buffer<T> b_, c_, c0_;               // this rank's rows
};

}  // namespace

void add_mpi_spmm_halo(Registry& registry) {
  registry.add<SpmmHalo>(
      {.name = "02_mpi/spmm_halo", .idea = "rows on the ranks; each fetches the rows of B that it lacks"});
}

}  // namespace stages
