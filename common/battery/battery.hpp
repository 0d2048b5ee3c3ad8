#pragma once
// The battery: the problems that every entry must get right, as data. A backend brings an Exec and gets all
// of them: the same cases serve serial code, ranks, and kernels on a GPU or on the executor.
//
// STAGES_BATTERY=small|full|sweep chooses which (default full): the small half keeps one case of each kind,
// for runs that multiply time, such as sanitizers and shuffled thread orders; the sweep has hundreds of others,
// size by size and width by width (sweep.cpp), each checked quickly. STAGES_BATTERY_ONLY=TEXT keeps the cases
// whose name holds TEXT. STAGES_DATA names directories (separated by ':') whose .mtx and .mtx.gz files
// are read and multiplied too.

#include <functional>
#include <string>
#include <vector>

#include "common/harness/check.hpp"
#include "common/harness/registry.hpp"

namespace stages::battery {

/// A half of the cases; that by the quick check, for passes that look for something else; all; sizes in turn.
enum class Size { small, brief, full, sweep };
inline bool is_half(Size size) { return size == Size::small || size == Size::brief; }

/// What STAGES_BATTERY says. Throws Error for any other word.
Size size_from_environment();

/// One problem, without its type of value. Fields of other operations are not looked at.
struct Case {
  std::string name;  ///< unique within its operation
  Op op = Op::spmv;
  bool small = false;       ///< belongs to the small half
  bool both_types = false;  ///< of the sweep, others being for one type of value, in turns
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

/// Those of Size::sweep.
std::vector<Case> sweep(Op op);

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

/// Beyond these an entry does not run a case; its skip says the number.
struct Limits {
  double work = 1e9;    ///< Cost::work
  double memory = 2e9;  ///< Cost::memory, bytes
};

/// What became of one entry on some cases.
struct Tally {
  int ran = 0;
  std::vector<std::string> skips;     ///< "case: reason"
  std::vector<std::string> failures;  ///< "case: what is wrong"
  std::string text() const;           ///< failures and counts, for a test's message
  /// Why this is no pass: a failure, or fewer than `least` cases that ran. Empty: it is one.
  std::string objection(int least) const;
};

/// Checks `entry` on `problem`, or notes why it does not run: its own refusal, or a limit. A refusal without
/// a number in its reason is a failure, and so is any exception. Collective: ranks other than 0 may pass
/// problems without matrices, and their tally is not filled.
template <class Problem>
void check_on(const Entry& entry, const Problem& problem, Exec& exec, const Limits& limits,
              const CheckOptions& options, Tally& tally);

/// All cases of the entry's operation with values of type T; `go_on`, if any, is asked after each of them.
template <class T>
Tally run(const Entry& entry, Exec& exec, Size size, Limits limits = {}, CheckOptions options = {},
          const std::function<bool(const Case&, const Tally&)>& go_on = {});

/// What is wrong with chains of an SpGEMM entry, whose rows get narrower each round, or wider, and begin
/// again; empty: nothing, or it does no such chains. Collective.
std::string check_chains(const Entry& entry, Exec& exec, Destination destination = Destination::host);

/// The cases that an entry must run at least, or the battery says nothing (with STAGES_BATTERY_ONLY, 0).
int least_cases();

/// The matrix files that STAGES_DATA names, sorted. Throws Error for a directory without or not to be read.
std::vector<std::string> data_files();

}  // namespace stages::battery
