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
  void keep(const Results& results) {
    const std::lock_guard lock(mutex_);
    whole_ = results;
    current_.clear();
  }
  /// The rows of the problem under way, before one of them is timed.
  void keep_current(std::span<const ResultRow> rows) {
    const std::lock_guard lock(mutex_);
    current_.assign(rows.begin(), rows.end());
  }
  /// All of it, as a part: the context says so, and `why`; so do the rows that were not reached.
  Results part(const std::string& why) const {
    const std::lock_guard lock(mutex_);
    Results part = whole_;
    for (ResultRow row : current_) {
      if (row.status == Status::good && !row.checked) {
        row.status = Status::skipped;
        row.reason = "not reached: " + why;
      } else if (row.status == Status::good && !row.simulated) {
        row.note = "not timed: " + why;
      }
      part.rows.push_back(std::move(row));
    }
    part.context.emplace_back("part", why);
    return part;
  }

 private:
  mutable std::mutex mutex_;
  Results whole_;
  std::vector<ResultRow> current_;
};

}  // namespace stages
