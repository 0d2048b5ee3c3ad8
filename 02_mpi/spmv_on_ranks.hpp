#pragma once
// What the SpMV rungs on ranks share: x and y lie on the ranks by rows. A rung adds how one product is made.

#include "02_mpi/on_ranks.hpp"

namespace stages::mpi {

template <class T>
class SpmvOnRanks : public OnRanks<T, SpmvPlan<T>> {
 public:
  SpmvOnRanks(const SpmvProblem<T>& problem, Exec& exec) : OnRanks<T, SpmvPlan<T>>(problem.a.get(), exec) {
    facts_ = {problem.mode, problem.n_vectors};
    broadcast(&facts_, 1, 0, this->ranks_.comm());
    this->clocks_ = Clocks(facts_.n_vectors);
    x_.resize(elements(matrix_.operand_count(), operands()));
    y_.resize(elements(matrix_.mine().rows, facts_.n_vectors));
    this->halo_.resize(static_cast<std::size_t>(matrix_.needed()));
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    // A once more on the ranks, and in the worst case all of x on each.
    const double entry = sizeof(Index) + sizeof(T);
    return problem_cost(problem).plus_memory(static_cast<double>(problem.a->nnz()) * entry +
                                             world_size() * static_cast<double>(problem.a->cols) *
                                                 (2 * sizeof(T) + sizeof(Index)));
  }

  void load(const SpmvOperands<T>& operands) override {
    if (this->root()) root_x_ = operands.x.data.data();
    scatter_operands();
  }
  void reset() override { poison(y_); }
  Dense<T> fetch() override {
    gather_result();
    return whole_y_;
  }

 protected:
  /// y = A x on this rank: x is what it holds of the operand, y its rows. Brings what it lacks of x into
  /// `halo_`. Returns the seconds of this rank's own multiplications.
  virtual double product(const T* x, T* y) = 0;

  using OnRanks<T, SpmvPlan<T>>::matrix_;

 private:
  bool chain() const { return facts_.mode == Mode::chain; }
  Index operands() const { return chain() ? 1 : facts_.n_vectors; }
  static std::size_t elements(Index rows, Index vectors) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(vectors);
  }

  double products() override {
    double compute = 0;
    for (Index j = 0; j < facts_.n_vectors; ++j) {
      const T* x = chain() && j > 0 ? y_.data() + elements(matrix_.mine().rows, j - 1)
                                    : x_.data() + elements(matrix_.operand_count(), chain() ? 0 : j);
      compute += product(x, y_.data() + elements(matrix_.mine().rows, j));
    }
    return compute;
  }

  void scatter_operands() override {
    const std::vector<Offset> bounds(matrix_.operand_rows().begin(), matrix_.operand_rows().end());
    const Offset sent = bytes_sent();
    for (Index j = 0; j < operands(); ++j)
      scatter(root_x_ == nullptr ? nullptr : root_x_ + elements(matrix_.operand_rows().back(), j),
              x_.data() + elements(matrix_.operand_count(), j), bounds, 0, this->ranks_.comm());
    this->bytes_.scatter = bytes_sent() - sent;
  }

  void gather_result() override {
    if (this->root() && whole_y_.data.empty())
      whole_y_ = Dense<T>(matrix_.whole_rows(), facts_.n_vectors, Layout::col_major);
    const std::vector<Offset> bounds(matrix_.rows().begin(), matrix_.rows().end());
    const Offset sent = bytes_sent();
    for (Index j = 0; j < facts_.n_vectors; ++j)
      gather(y_.data() + elements(matrix_.mine().rows, j),
             this->root() ? whole_y_.data.data() + elements(matrix_.whole_rows(), j) : nullptr, bounds, 0,
             this->ranks_.comm());
    this->bytes_.gather = bytes_sent() - sent;
  }

  struct Facts {
    Mode mode = Mode::single;
    Index n_vectors = 1;
  };

  Facts facts_;
  const T* root_x_ = nullptr;  // rank 0
  Dense<T> whole_y_;           // rank 0
  Buffer<T> x_, y_;            // this rank's rows, vector after vector
};

}  // namespace stages::mpi
