#pragma once
// What a run may take of a matrix before anything is prepared for it.

#include <string>

#include "common/harness/device_watch.hpp"
#include "common/harness/runner.hpp"
#include "common/matrix/types.hpp"

namespace stages {

class RunLimits {
 public:
  /// `simulated`: kernels run on the executor, if there are any.
  RunLimits(const RunOptions& options, bool simulated);

  /// Products of matrices with next to nothing in them still take memory and time for each row and column.
  /// Throws OutOfMemory where that is out of proportion. `vectors`: columns of the dense operand, of numbers of
  /// `value_bytes`. A file is trusted less than a spec, whose writer has asked for so many.
  void require_room(const std::string& name, Index rows, Index cols, Offset nnz, double vectors,
                    std::size_t value_bytes) const;
  /// kDefaultProducts, or fewer where so many would be beyond the limits for every entry.
  Index default_products(Offset nnz) const;

 private:
  double memory_;  ///< bytes; 0: not limited by an option
  double work_;
};

/// Throws Error where an option asks for what is not known of this machine's GPU.
void require_what_it_tells(const RunOptions& options, const Machine& machine);

}  // namespace stages
