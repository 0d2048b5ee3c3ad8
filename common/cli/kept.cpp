#include "common/cli/kept.hpp"

#include <fmt/format.h>

#include <new>

#include "common/cli/program.hpp"
#include "common/matrix/error.hpp"

namespace stages {

void Kept::keep() {
  const std::lock_guard lock(mutex_);
  whole_ = results_;
  current_.clear();
  first_ = results_.rows.size();
}

void Kept::keep_under_way(std::span<const ResultRow> rows) {
  const std::lock_guard lock(mutex_);
  current_.assign(rows.begin(), rows.end());
}

bool Kept::attempt(const std::vector<ResultRow>& blank, const bool& all_wait,
                   const std::function<void()>& work) {
  first_ = results_.rows.size();
  keep_under_way(blank);
  try {
    work();
    return true;
  } catch (const OutOfMemory& error) {  // with its number, before it was taken
    if (all_wait) throw;
    lose(blank, Status::skipped, error.what());
  } catch (const Error& error) {
    if (all_wait) throw;
    note(error.what());
    lose(blank, Status::failed, error.what());
  } catch (const std::bad_alloc&) {
    if (all_wait) throw;
    const std::string what =
        fmt::format("{}: {}", blank.empty() ? "" : blank.front().problem.matrix, out_of_memory());
    note(what);
    lose(blank, Status::failed, what);
  }
  return false;
}

void Kept::note(const std::string& error) {
  errors_.push_back(error);
  tell_(error);
}

void Kept::lose(const std::vector<ResultRow>& blank, Status status, const std::string& why) {
  if (under_way().empty()) results_.rows.insert(results_.rows.end(), blank.begin(), blank.end());
  for (ResultRow& row : under_way()) {
    const bool has_result = row.timed() || (row.simulated && row.checked);
    if (row.status != Status::good || has_result) continue;
    row.status = status;
    row.reason = why;
  }
}

Results Kept::part(const std::string& why) const {
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
