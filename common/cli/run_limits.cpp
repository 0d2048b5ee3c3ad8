#include "common/cli/run_limits.hpp"

#include <algorithm>

#include "common/cli/inputs.hpp"
#include "common/cli/run_options.hpp"
#include "common/matrix/generate.hpp"
#include "common/matrix/memory.hpp"

namespace stages {

RunLimits::RunLimits(const RunOptions& options, bool simulated)
    : memory_(options.max_memory),
      work_(simulated ? std::min(options.max_work, options.max_simulated_work) : options.max_work) {}

void RunLimits::require_room(const std::string& name, Index rows, Index cols, Offset nnz, double vectors,
                             std::size_t value_bytes) const {
  // Seen in runs on 4 million rows with one entry: row pointers, references, x, y and what checks y.
  const double line_bytes = 64 + 3 * static_cast<double>(value_bytes) * vectors;
  const double most = is_matrix_spec(name) ? static_cast<double>(available_memory()) / 2 : kMostForEmptyLines;
  require_room_for_lines(name, rows, cols, nnz, line_bytes, memory_ > 0 ? memory_ : most);
}

Index RunLimits::default_products(Offset nnz) const {
  return static_cast<Index>(
      std::clamp(work_ / static_cast<double>(std::max<Offset>(nnz, 1)), 1.0, double{kDefaultProducts}));
}

void require_what_it_tells(const RunOptions& options, const Machine& machine) {
  if (options.least_clock_mhz <= 0) return;
  DeviceState state{.unknown = machine.no_gpu};
  if (machine.gpu != nullptr) state = machine.gpu->state(true);
  if (machine.is_simulated()) state.unknown = "kernels run on the executor, where nothing is timed";
  require_told(state, options.least_clock_mhz);
}

}  // namespace stages
