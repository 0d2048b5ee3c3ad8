// The check of a whole entry: which runs it makes, with which operands, and what must agree.

#include "common/harness/check.hpp"

#include <algorithm>
#include <limits>

#include "common/harness/check_parts.hpp"
#include "common/harness/plan.hpp"
#include "common/matrix/processors.hpp"

namespace stages {
namespace {

/// For the operands of a run where others came in after the reset: C0 is of those before.
template <class Operands>
void exchange_c0(Operands& a, Operands& b) {
  if constexpr (requires { a.c0; }) std::swap(a.c0, b.c0);
}

/// Whether run() reads the operands where they lay when they were loaded, so that those which lie there when it
/// begins are what it multiplies. GPUs, ranks and vendor libraries have copies.
bool reads_in_place(const Entry& entry) { return !entry.needs.gpu && !entry.needs.mpi && !entry.is_vendor(); }

/// What run() has to read of operands that are loaded. B of an SpGEMM is none of it: an entry may sort its
/// values by columns in load().
template <class Operands>
auto& read_by_run(Operands& operands) {
  if constexpr (requires { operands.x; }) {
    return operands.x.data;
  } else if constexpr (requires { operands.b; }) {
    return operands.b.data;
  } else {
    return operands.a_values;
  }
}

/// Turns round the order of it; once more, and it is as before.
template <class Operands>
void turn_round(Operands& operands) {
  std::ranges::reverse(read_by_run(operands));
}

/// The same with all that load() takes.
template <class Operands>
void turn_all_round(Operands& operands) {
  turn_round(operands);
  if constexpr (requires { operands.c0; }) std::ranges::reverse(operands.c0.data);
  if constexpr (requires { operands.b_values; }) std::ranges::reverse(operands.b_values);
}

/// B with an infinity in the row that the first non-zero of A meets: the products of that column are infinite,
/// and those of zeros in a matrix written out are NaN.
template <class T>
void put_infinities(const SpmmProblem<T>& p, SpmmOperands<T>& operands) {
  if (p.a->nnz() == 0) return;
  for (Index j = 0; j < p.n_cols; ++j)
    operands.b(p.a->col_idx.front(), j) = std::numeric_limits<T>::infinity();
}

/// The check of one kind of values. Adds to `report`; stops at the first failure (all ranks alike).
template <class Problem>
void check_kind(const Entry& entry, const Offer<Problem>& offer, const Problem& problem, Exec& exec,
                ValueKind kind, const CheckOptions& options, CheckReport& report) {
  Communicator& ranks = exec.communicator();
  const bool root = ranks.rank() == 0;
  const Problem p = root ? with_values(problem, kind, options.seed) : problem;
  const auto plan = offer.prepare(p, exec);
  typename Problem::Operands first, second;
  if (root) {
    first = make_operands(p, kind, options.seed + 1);
    if (kind == ValueKind::real || options.quick) second = make_operands(p, kind, options.seed + 2);
  }
  const auto judge = [&](const typename Problem::Operands& operands, const typename Problem::Result& result,
                         const char* which) {
    if (root) {
      const CheckReport found = verify(p, operands, result, kind, entry.claims, options);
      report.rows_checked = found.rows_checked;
      report.rows = found.rows;
      report.worst = std::max(report.worst, found.worst);
      if (kind == ValueKind::real) {
        report.sums = found.sums;
        report.not_judged = std::max(report.not_judged, found.not_judged);
      }
      if (!found.passed())
        report.failure = fmt::format("{} (with {} {} values)", found.failure, which,
                                     kind == ValueKind::real ? "real" : "integer");
    }
    return ranks.agreed(report.passed());
  };
  const auto run = [&] {
    plan->run();
    exec.synchronize();
    return plan->fetch();
  };
  // Whether they have the same bits, on all ranks: only rank 0 has results.
  const auto same_result = [&](const typename Problem::Result& known,
                               const typename Problem::Result& result) {
    return ranks.agreed(root && checking::same_bits(known, result));
  };
  // A result with the bits of one that was found right needs no second look.
  const auto judge_again = [&](const typename Problem::Result& known, const typename Problem::Result& result,
                               const char* which) {
    if (same_result(known, result)) return true;
    if (!judge(first, result, which)) return false;
    if (root && entry.claims.bitwise_reproducible)
      report.failure =
          "the same operands gave other bits in another run, and the entry claims that they cannot";
    return ranks.agreed(report.passed());
  };
  plan->load(first);
  plan->reset();
  const auto result = run();
  if (!judge(first, result, "the first")) return;
  if (options.quick) {
    plan->load(second);
    plan->reset();
    judge(second, run(), "the second");
    return;
  }
  if (kind == ValueKind::integer) {  // exact, and that is all they are for, and zeros that need no reset
    auto zeros = first;
    std::ranges::fill(read_by_run(zeros), 0);
    plan->load(zeros);
    if (starts_from_c0(p)) plan->reset();
    judge(zeros, run(), "zeros in the place of the first, and");
    return;
  }
  if (exec.simulated()) {
    report.note = plan->note();
    report.metrics = plan->metrics();
  }
  // The second operands are there for run() only: what load, reset or fetch multiply, which nobody times, is
  // then the product of the first. C0 is what was there at the reset. Where run() reads what lies there, load
  // sees other values than it does.
  const bool in_place = reads_in_place(entry);
  plan->reset();
  if (in_place) turn_round(second);
  plan->load(second);
  if (in_place) turn_round(second);
  plan->run();
  exec.synchronize();
  plan->load(first);
  {
    plan->fetch();  // who asks twice gets it twice, whatever is loaded
    plan->load(first);
    const auto other = plan->fetch();
    exchange_c0(first, second);
    const bool right = judge(second, other, "the second");
    exchange_c0(first, second);
    if (!right && root && checking::same_bits(result, other)) {
      report.failure += "; it is the product of the first: kept, or made by load, reset or fetch";
    } else if (!right && root && in_place) {
      turn_round(second);
      if (verify(p, second, other, kind, entry.claims, options).passed())
        report.failure += "; it is the product of what load() saw, and run() has to read the operands itself";
    }
    if (!right) return;
  }
  if constexpr (Problem::kOp == Op::spmm) {
    if (starts_from_c0(p)) {
      plan->load(second);
      plan->reset();
      if (!judge(second, run(), "the second, with its own C0 and")) return;
    } else {  // what C held is not read: an infinity times beta = 0 would be NaN
      auto infinite = first;
      if (root) put_infinities(p, infinite);
      plan->load(infinite);
      plan->run();
    }
  }
  // New values in the place of those that were loaded last are loaded like any, and need no reset.
  plan->load(second);
  turn_all_round(first);
  plan->load(first);
  turn_all_round(first);
  plan->load(first);
  if (starts_from_c0(p)) plan->reset();
  if (!judge_again(result, run(), "again the first")) return;
  // As the clock will run it: without loading again, and without a reset where that changes nothing. Who asks
  // for figures then, which some plans measure, still finds the result.
  if (starts_from_c0(p)) plan->reset();
  plan->run();
  exec.synchronize();
  plan->metrics();
  if (!judge_again(result, plan->fetch(), "the first, not loaded again,")) return;
  if (const auto note = plan->note(); exec.simulated() && note != report.note)
    report.failure = fmt::format("its note is '{}' after other runs, and was '{}'", note, report.note);
  if (!ranks.agreed(report.passed())) return;
  if (!in_place) return;
  // And what is there already is no answer to others that came to the same place.
  turn_round(first);
  if (starts_from_c0(p)) plan->reset();
  const auto turned = run();
  if (same_result(result, turned)) judge(first, turned, "others in the place of the first, and");
}

}  // namespace

std::string CheckReport::void_because() const {
  if (!passed() || not_judged == 0 || not_judged < sums) return {};
  return fmt::format(
      "no result can be judged: the products of each of the {} sums add up beyond the range of the type; "
      "take --type f64 or smaller values",
      not_judged);
}

template <class Problem>
CheckReport verify(const Problem& problem, const typename Problem::Operands& operands,
                   const typename Problem::Result& result, ValueKind kind, const Claims& claims,
                   const CheckOptions& options) {
  const AllProcessors hold;
  if constexpr (Problem::kOp == Op::spgemm) {
    return checking::verify_sparse(problem, operands, result, kind, claims, options);
  } else {
    return checking::verify_dense(problem, operands, result, kind, options);
  }
}

template <class Problem>
CheckReport check_entry(const Entry& entry, const Problem& problem, Exec& exec, const CheckOptions& options) {
  CheckReport report;
  const Offer<Problem> offer = entry.on<Problem>().look(problem, exec);
  for (const ValueKind kind : {ValueKind::real, ValueKind::integer}) {
    if (options.quick && kind == ValueKind::real) continue;
    check_kind(entry, offer, problem, exec, kind, options, report);
    exec.clear_phases();  // whose events would be kept for somebody who asks
    if (!exec.communicator().agreed(report.passed())) break;
  }
  return report;
}

template <class Problem>
double check_bytes(const Problem& p) {
  double elements = operand_elements(p);
  if constexpr (Problem::kOp == Op::spmv) elements += 2.0 * p.a->rows * p.n_vectors;
  if constexpr (Problem::kOp == Op::spmm) elements += 2.0 * p.a->rows * p.n_cols;
  return sizeof(typename Problem::Value) * elements;
}

#define STAGES_INSTANTIATE(P)                                                                           \
  template CheckReport verify(const P&, const P::Operands&, const P::Result&, ValueKind, const Claims&, \
                              const CheckOptions&);                                                     \
  template CheckReport check_entry(const Entry&, const P&, Exec&, const CheckOptions&);                 \
  template double check_bytes(const P&);
STAGES_FOR_EACH_PROBLEM(STAGES_INSTANTIATE)

}  // namespace stages
