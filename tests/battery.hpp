#pragma once
// The battery (common/battery) given to an entry, and what became of it.
//
// STAGES_BATTERY=small|brief|full|sweep chooses the cases (default full). STAGES_DATA names directories
// (separated by ':') whose .mtx and .mtx.gz files are read and multiplied too.

#include "common/battery/battery.hpp"
#include "common/harness/check.hpp"
#include "common/harness/registry.hpp"

namespace stages::battery {

/// The small half; that by the quick check, for passes that look for something else; all; and the sweep, which
/// has hundreds of others, size by size and width by width.
enum class Pass { small, brief, full, sweep };
inline bool is_half(Pass pass) { return pass == Pass::small || pass == Pass::brief; }
/// What STAGES_BATTERY says. Throws Error for any other word.
Pass pass_from_environment();

std::vector<Case> sweep(Op op);
/// Those that STAGES_BATTERY_ONLY leaves.
std::vector<Case> cases(Op op, Pass pass);

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
Tally run(const Entry& entry, Exec& exec, Pass pass, Limits limits = {}, CheckOptions options = {},
          const std::function<bool(const Case&, const Tally&)>& go_on = {});

/// What is wrong with chains of an SpGEMM entry, whose rows get narrower each round, or wider, and begin
/// again; empty: nothing, or it does no such chains. Collective.
std::string check_chains(const Entry& entry, Exec& exec, Destination destination = Destination::host);

/// The cases that an entry must run at least, or the battery says nothing (with STAGES_BATTERY_ONLY, 0).
int least_cases();

/// The matrix files that STAGES_DATA names, sorted. Throws Error for a directory without or not to be read.
std::vector<std::string> data_files();

}  // namespace stages::battery
