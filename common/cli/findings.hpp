#pragma once
// What a run has found out so far, for whoever ends it before its time.

#include <mutex>
#include <span>
#include <string>

#include "common/harness/results.hpp"

namespace stages {

/// The run writes it, another thread may read it.
class Findings {
 public:
  /// The results between two problems.
  void keep(const Results& results);
  /// The rows of the problem under way, before one of them is timed.
  void keep_current(std::span<const ResultRow> rows);

  /// All of it, as a part: the context says so, and `why`; so do the rows that were not reached.
  Results part(const std::string& why) const;

 private:
  mutable std::mutex mutex_;
  Results whole_;
  std::vector<ResultRow> current_;
};

}  // namespace stages
