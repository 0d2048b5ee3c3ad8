#pragma once
// The checker: recomputes a result in higher precision by another algorithm than any step uses, and compares.
//
// An element passes when  |c - reference| <= 2 n eps sum |a b|  holds, with n its number of products (alpha,
// beta and C0 counted), eps the spacing of the type at 1, and the reference in double (for float) or long
// double (for double). The comparison is written so that NaN fails. Integer operands make every sum exact,
// and then the elements must be equal.
//
//   dense results   every element is tested for NaN; elements of the chosen rows and columns are compared with
//                   the reference; padding must be as reset() left it
//   SpGEMM          the structure of every row is tested (columns ascend, in range); chosen rows are compared
//                   with expand-sort-compress: the products of the row are written out, sorted by column and
//                   summed, pattern included
//   integers        for all rows, chosen or not: C w = A (B w) for a random integer vector w, in exact 64-bit
//                   arithmetic
//
// Where sum |a b| is beyond the range of the type, one order of summation gives a number and another infinity
// or NaN: such an element cannot be judged, and is counted.
//
// All rows are chosen where that costs at most `budget` products; otherwise the first, the last, the longest
// and a seeded sample of the others, and the report says so.

#include <cstdint>
#include <string>
#include <vector>

#include "common/harness/operands.hpp"
#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"

namespace stages {

struct CheckOptions {
  Offset budget = 50'000'000;  ///< products that one comparison may recompute
  std::uint64_t seed = 1;
  int threads = 0;     ///< for the reference; 0: one per processor
  bool quick = false;  ///< two products of integers only, by one plan, each with operands of its own
};

struct CheckReport {
  std::string failure;      ///< what is wrong and where; empty: nothing
  Offset rows_checked = 0;  ///< rows compared element by element
  Offset rows = 0;
  double worst = 0;       ///< the largest |c - reference| / bound seen; at most 1 in a good result
  Offset sums = 0;        ///< among real values: elements of these rows that are sums of products
  Offset not_judged = 0;  ///< those of them whose products add up beyond the range of the type
  /// On the executor, where nothing is timed: what the plan said of itself after its first run. Its counts
  /// are those of a GPU; what the executor cannot know it leaves unknown.
  std::string note;
  std::vector<Metric> metrics;
  bool passed() const { return failure.empty(); }
  /// Why nothing was found wrong and yet nothing can be said for the results with real values; empty: it can.
  std::string void_because() const;
  bool sampled() const { return rows_checked < rows; }
};

/// Compares one result with the reference. `claims` says what the entry may leave out.
template <class Problem>
CheckReport verify(const Problem& problem, const typename Problem::Operands& operands,
                   const typename Problem::Result& result, ValueKind kind, const Claims& claims,
                   const CheckOptions& options = {});

/// Runs an entry through the whole check: with real values one set of operands, another, the first again, and
/// once more without loading; then one set of integers. The second set is there for run() only, between reset
/// and fetch. All results are verified, and those of the first operands must agree bit for bit where the
/// entry claims it. Exceptions of the plan pass through. Collective; the report is rank 0's, and the other
/// ranks' say only whether it passed.
template <class Problem>
CheckReport check_entry(const Entry& entry, const Problem& problem, Exec& exec,
                        const CheckOptions& options = {});

/// Bytes that check_entry takes beside what a Cost counts: other dense operands, and two dense results to
/// compare. Of a sparse result only a bound is known, which a Cost counts and C rarely comes near.
template <class Problem>
double check_bytes(const Problem& problem);

}  // namespace stages
