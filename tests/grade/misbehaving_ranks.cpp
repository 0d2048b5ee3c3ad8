// A student's file for several ranks, for an exercise with "// Ranks:". It is right, and rank 1 misbehaves at
// the first product as the environment variable STAGES_MISBEHAVE says.
#include <map>
#include <stdexcept>

#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"
#include "tests/grade/misbehaves.hpp"

namespace stages {
namespace {

void attack() {
  if (misbehaves("ranks:hang")) wait();
  if (misbehaves("ranks:memory")) {
    for (;;) std::memset(std::malloc(10'000'000), 1, 10'000'000);
  }
  if (misbehaves("ranks:fork_bomb")) {
    for (;;) {
      if (fork() < 0) throw std::runtime_error("no more processes");
    }
  }
}

/// Rank 0 multiplies; the others wait for it, and it for them.
template <class T>
class Misbehaving final : public SpgemmPlan<T> {
 public:
  Misbehaving(const SpgemmProblem<T>& problem, Exec& exec) : problem_(problem), ranks_(exec.communicator()) {}

  static Cost cost(const SpgemmProblem<T>& problem) { return problem_cost(problem); }

  void load(const SpgemmOperands<T>& operands) override { operands_ = &operands; }
  void reset() override { c_ = {}; }
  void run() override {
    if (ranks_.rank() == 1) attack();
    if (ranks_.rank() == 0) multiply();
    ranks_.barrier();
  }
  Csr<T> fetch() override { return c_; }

 private:
  void multiply() {
    const Csr<T>&a = *problem_.a, &b = *problem_.b;
    c_ = Csr<T>(a.rows, b.cols);
    for (Index i = 0; i < a.rows; ++i) {
      std::map<Index, T> sums;
      for (Offset p = a.row_ptr[at(i)]; p < a.row_ptr[at(i) + 1]; ++p) {
        const std::size_t k = at(a.col_idx[at(p)]);
        for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q)
          sums[b.col_idx[at(q)]] += operands_->a_values[at(p)] * operands_->b_values[at(q)];
      }
      for (const auto& [column, value] : sums) {
        c_.col_idx.push_back(column);
        c_.values.push_back(value);
      }
      c_.row_ptr[at(i) + 1] = c_.nnz();
    }
  }
  static std::size_t at(Offset k) { return static_cast<std::size_t>(k); }

  SpgemmProblem<T> problem_;
  Communicator& ranks_;
  const SpgemmOperands<T>* operands_ = nullptr;
  Csr<T> c_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Misbehaving>({.name = "task/misbehaving_ranks",
                             .idea = "what STAGES_MISBEHAVE says",
                             .needs = {.several_ranks = true, .mpi = true}});
}

}  // namespace stages
