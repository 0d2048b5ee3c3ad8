#pragma once
// Whether it is run() that multiplies, of entries that have copies of what they load, so that the check
// cannot put other values to the same place: kernels are counted on the executor, and what the host does is
// timed.

#include <algorithm>
#include <limits>
#include <string>

#include "common/harness/check.hpp"
#include "common/judge/least.hpp"
#include "common/judge/student/counting.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"

namespace stages {

template <class T>
std::shared_ptr<const Csr<T>> generated(const std::string& spec) {
  return std::make_shared<const Csr<T>>(generate<T>(spec));
}

/// Why what the kernels of two runs read and write cannot be all of a product: of one after load(), and of
/// one more without it. Or work goes on in a stream that nobody waits for. Empty: it can. Throws Error where
/// kernels cannot be counted.
template <class Problem>
std::string not_counted_in_run(const Entry& entry, const Problem& problem, Exec& exec) {
  const Problem p = with_values(problem, ValueKind::real, 1);
  const auto plan = entry.on<Problem>().prepare(p, exec);
  const auto operands = make_operands(p, ValueKind::real, 2);
  plan->load(operands);
  plan->reset();
  for (const char* const which : {"the run after load()", "the run after that"}) {
    const judge::Counts counts = judge::count(*plan, exec, p, operands);
    const auto result = plan->fetch();
    std::string why = verify(p, operands, result, ValueKind::real, entry.claims).failure;
    if (why.empty()) why = judge::implausible(counts, judge::least_bytes(p, operands, result));
    if (!why.empty()) return fmt::format("{}: {}", which, why);
  }
  if (!judge::look_for_races(*plan, exec).awaited)
    return "work that run() has begun goes on in a stream that nobody waits for";
  return {};
}

/// Why run() cannot hold the product, by its time: the first without a load is quicker than loading others and
/// fetching the result. `problem` has far more products than operands and results; matrices only on rank 0.
/// Collective.
template <class Problem>
std::string not_timed_in_run(const Entry& entry, const Problem& problem, Exec& exec) {
  const bool root = exec.communicator().rank() == 0;
  const Problem p = root ? with_values(problem, ValueKind::real, 1) : problem;
  const auto plan = entry.on<Problem>().prepare(p, exec);
  typename Problem::Operands one, two;
  if (root) {
    one = make_operands(p, ValueKind::real, 2);
    two = make_operands(p, ValueKind::real, 3);
  }
  double in_run = std::numeric_limits<double>::infinity(), behind = in_run;
  for (int k = 0; k < 5; ++k) {
    plan->load(one);
    plan->reset();
    plan->run();
    in_run = std::min(in_run, exec.time([&] { plan->run(); }));
    behind = std::min(behind, exec.time([&] {
      plan->load(two);
      plan->fetch();
    }));
  }
  if (behind <= in_run) return {};
  return fmt::format("run() takes {:.2g} ms, and load() and fetch() after it take {:.2g} ms", in_run * 1e3,
                     behind * 1e3);
}

/// A matrix half full: its product with 64 vectors, or with itself, has far more products than numbers. (Each
/// number of a sparse C is made of a quarter as many as A has rows.)
template <class Problem>
Problem heavy_problem(Index n = Problem::kOp == Op::spgemm ? 768 : 192) {
  using T = typename Problem::Value;
  const auto a = generated<T>(fmt::format("gen:fixed:n={},per_row={}", n, n / 2));
  if constexpr (Problem::kOp == Op::spmv) return make_spmv_problem<T>("half full", a, Mode::stream, 64);
  if constexpr (Problem::kOp == Op::spmm)
    return make_spmm_problem<T>({.name = "half full", .a = a, .n_cols = 64});
  if constexpr (Problem::kOp == Op::spgemm) return make_spgemm_problem<T>("half full", a, a);
}

/// The same of an entry in double precision. Dot products take many steps a product: a smaller matrix will do.
inline std::string not_timed_in_run(const Entry& entry, Exec& exec) {
  if (entry.op == Op::spmv) return not_timed_in_run(entry, heavy_problem<SpmvProblem<double>>(), exec);
  if (entry.op == Op::spmm) return not_timed_in_run(entry, heavy_problem<SpmmProblem<double>>(), exec);
  auto heavy = heavy_problem<SpgemmProblem<double>>();
  if (entry.on<SpgemmProblem<double>>().look(heavy, exec).cost(heavy).work >
      static_cast<double>(heavy.products))
    heavy = heavy_problem<SpgemmProblem<double>>(256);
  return not_timed_in_run(entry, heavy, exec);
}

}  // namespace stages
