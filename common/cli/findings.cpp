#include "common/cli/findings.hpp"

namespace stages {

void Findings::keep(const Results& results) {
  const std::lock_guard lock(mutex_);
  whole_ = results;
  current_.clear();
}

void Findings::keep_current(std::span<const ResultRow> rows) {
  const std::lock_guard lock(mutex_);
  current_.assign(rows.begin(), rows.end());
}

Results Findings::part(const std::string& why) const {
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

}  // namespace stages
