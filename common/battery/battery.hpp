#pragma once
// The battery: the problems that every entry must get right, as data. A backend brings an Exec and gets all
// of them: the same cases serve serial code, ranks, and kernels on a GPU or on the executor.
//
// The small half keeps one case of each kind, for runs that multiply time, such as sanitizers and shuffled
// thread orders. (What tests give entries beside these, size by size, is in tests/sweep.cpp.)
// STAGES_BATTERY_ONLY=TEXT keeps the cases whose name holds TEXT.

#include <functional>
#include <string>
#include <vector>

#include "common/harness/problem.hpp"

namespace stages::battery {

enum class Size { small, full };

/// One problem, without its type of value. Fields of other operations are not looked at.
struct Case {
  std::string name;  ///< unique within its operation
  Op op = Op::spmv;
  bool small = false;       ///< belongs to the small half
  bool both_types = false;  ///< of tests/sweep.cpp, whose others are for one type of value, in turns
  std::function<Csr<double>()> a = {};
  std::function<Csr<double>()> b = {};  ///< SpGEMM

  Mode mode = Mode::single;  ///< SpMV
  Index products = 1;

  Index n_cols = 1;  ///< SpMM
  double alpha = 1;
  double beta = 0;
  Layout b_layout = Layout::row_major;
  Layout c_layout = Layout::row_major;
  Offset b_padding = 0;  ///< leading dimension beyond the length of a line
  Offset c_padding = 0;
};

/// The cases of `op` that `size` and STAGES_BATTERY_ONLY leave.
std::vector<Case> cases(Op op, Size size);

/// Those of them whose name holds what STAGES_BATTERY_ONLY says.
std::vector<Case> chosen(std::vector<Case> cases);

/// The problem of a case. Problem::kOp must be the case's operation.
template <class Problem>
Problem make_problem(const Case& c);

/// Calls use(problem) with the problem of a case.
template <class T, class Use>
void with_problem(const Case& c, Use&& use) {
  if (c.op == Op::spmv) use(make_problem<SpmvProblem<T>>(c));
  if (c.op == Op::spmm) use(make_problem<SpmmProblem<T>>(c));
  if (c.op == Op::spgemm) use(make_problem<SpgemmProblem<T>>(c));
}

}  // namespace stages::battery
