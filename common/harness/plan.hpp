#pragma once
// A Plan is one entry at work on one problem. Its life, as the harness drives it:
//
//   constructor(problem, exec)   prepare: sees A's structure and values (SpGEMM: both matrices); uploads,
//                                converts, analyses, distributes, and allocates what later runs reuse
//   load(operands)               places x, B or new values
//   reset()                      poisons the output with NaN (beta != 0: restores C0), untimed
//   run()                        one multiplication, from loaded operands to a result where it is produced
//                                (`n_vectors` of them in stream and chain mode)
//   fetch()                      the result on the host. Padding of a dense result is as reset() left it
//
// They are called again and again, with different operands, which may lie where the last ones lay. What run()
// multiplies was loaded last before it: before the reset, after it, or for an earlier run. Between run and
// fetch others may be loaded, and the result stays what run() has made of those before, however often it is
// fetched. With several ranks every call is collective; operands are given and results returned on rank 0.

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/harness/problem.hpp"

namespace stages {

class Exec;

/// A figure that only some entries have.
struct Metric {
  std::string name;  ///< snake_case, as it stands in the JSON
  double value = 0;  ///< NaN: unknown here
  std::string unit;  ///< "B", "registers"; empty: a ratio or a count
};

/// What an entry needs of the machine.
struct Needs {
  bool gpu = false;
  bool several_ranks = false;  ///< works on more than one rank; the others are skipped there
  bool mpi = false;            ///< needs the ranks of MPI, be it a single one

  Needs operator|(const Needs& more) const {
    return {gpu || more.gpu, several_ranks || more.several_ranks, mpi || more.mpi};
  }
};

template <class ProblemType>
class Plan {
 public:
  using Problem = ProblemType;
  static constexpr Needs kNeeds = {};     ///< of each entry with such a plan
  static constexpr bool kChains = false;  ///< SpGEMM: has advance(), so it can run in a chain

  Plan() = default;
  virtual ~Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Of a plan that does what the problem needs, and keeps nothing beside its operands.
  static Cost cost(const Problem& problem) { return problem_cost(problem); }
  /// Of a plan that takes every problem.
  static std::optional<std::string> refuse(const Problem&, Exec&) { return std::nullopt; }
  /// The operands stay alive until the next load or the end of the plan. On the host a plan keeps views: what
  /// lies there when run() begins is what it multiplies. Only B of an SpGEMM may be copied, in another order.
  virtual void load(const typename Problem::Operands& operands) = 0;
  virtual void reset() = 0;
  virtual void run() = 0;
  virtual typename Problem::Result fetch() = 0;
  /// In a chain, between two runs: the C of the last run takes the place of A, where it lies; nothing else may
  /// be known of it. Timed with the run that follows. The next load begins the chain again.
  virtual void advance() {}
  /// What the plan wants people to know about how it ran ("fell back to row batches"); empty: nothing. Where a
  /// rule chose it, its name.
  virtual std::string note() const { return chosen; }
  /// Figures of the plan's own for the results: registers per thread, bytes moved, imbalance.
  virtual std::vector<Metric> metrics() const { return {}; }

  // Of a plan that rules chose (common/gpu/rules.hpp):
  std::string chosen;             ///< its entry
  std::vector<Metric> looked_at;  ///< what they looked at; of the row's metrics, with `feature_` before
};

template <class T>
using SpmvPlan = Plan<SpmvProblem<T>>;
template <class T>
using SpmmPlan = Plan<SpmmProblem<T>>;
template <class T>
using SpgemmPlan = Plan<SpgemmProblem<T>>;

/// Fills with NaN.
template <class T>
void poison(Buffer<T>& values) {
  std::fill(values.begin(), values.end(), std::numeric_limits<T>::quiet_NaN());
}

/// The host side that all SpMV plans of the CPU stages share: x and y, and the order of the products. A
/// derived class gives product(x, y): y = A x for one vector.
template <class T>
class HostSpmvPlan : public SpmvPlan<T> {
 public:
  explicit HostSpmvPlan(const SpmvProblem<T>& problem)
      : problem_(problem), y_(problem.a->rows, problem.n_vectors, Layout::col_major) {}

  void load(const SpmvOperands<T>& operands) override { x_ = operands.x.view(); }
  void reset() override { poison(y_.data); }
  void run() override {
    const bool chain = problem_.mode == Mode::chain;
    for (Index j = 0; j < problem_.n_vectors; ++j) {
      const T* x = chain && j > 0 ? y_.data.data() + y_.view().position(0, j - 1)
                                  : x_.data + x_.position(0, chain ? 0 : j);
      product(x, y_.data.data() + y_.view().position(0, j));
    }
  }
  Dense<T> fetch() override { return y_; }

 protected:
  virtual void product(const T* x, T* y) = 0;
  const Csr<T>& a() const { return *problem_.a; }

 private:
  SpmvProblem<T> problem_;
  DenseView<const T> x_;
  Dense<T> y_;
};

/// The host side of all SpMM plans of CPU stages. A derived class gives run(): c() = alpha A b() + beta c().
template <class T>
class HostSpmmPlan : public SpmmPlan<T> {
 public:
  explicit HostSpmmPlan(const SpmmProblem<T>& problem)
      : problem_(problem), c_(problem.a->rows, problem.n_cols, problem.c_layout, problem.ldc) {}

  void load(const SpmmOperands<T>& operands) override {
    b_ = operands.b.view();
    c0_ = &operands.c0;
  }
  void reset() override {
    if (problem_.beta == T{0}) {
      poison(c_.data);
    } else {
      c_.data = c0_->data;
    }
  }
  Dense<T> fetch() override { return c_; }

 protected:
  const SpmmProblem<T>& problem() const { return problem_; }
  const Csr<T>& a() const { return *problem_.a; }
  DenseView<const T> b() const { return b_; }
  DenseView<T> c() { return c_.view(); }

 private:
  SpmmProblem<T> problem_;
  DenseView<const T> b_;
  const Dense<T>* c0_ = nullptr;
  Dense<T> c_;
};

/// The host side that all SpGEMM plans of the CPU stages share: A and B with the loaded values. A derived
/// class gives run(), which leaves C in c_.
template <class T>
class HostSpgemmPlan : public SpgemmPlan<T> {
 public:
  static constexpr bool kChains = true;
  explicit HostSpgemmPlan(const SpgemmProblem<T>& problem)
      : first_(problem), problem_(problem), a_(problem.a->view()), b_(problem.b->view()) {}

  void load(const SpgemmOperands<T>& operands) override {
    problem_ = first_;
    a_ = problem_.a->view();
    a_.values = operands.a_values.data();
    b_.values = operands.b_values.data();
  }
  void advance() override {
    const auto next = std::make_shared<Csr<T>>(std::move(c_));
    c_ = kept_ ? std::move(*kept_) : Csr<T>();  // its memory serves the next C
    kept_ = next;
    problem_ = next_round<T>(problem_, next);
    a_ = next->view();
  }
  void reset() override { c_ = Csr<T>(); }
  Csr<T> fetch() override { return c_; }

 protected:
  /// Of this round, if it is a chain.
  const SpgemmProblem<T>& problem() const { return problem_; }
  const CsrView<T>& a() const { return a_; }
  const CsrView<T>& b() const { return b_; }
  Csr<T> c_;  ///< the result of the last run

 private:
  SpgemmProblem<T> first_, problem_;
  std::shared_ptr<Csr<T>> kept_;  ///< A of this round, if it is not the first
  CsrView<T> a_;
  CsrView<T> b_;
};

}  // namespace stages
