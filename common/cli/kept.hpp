#pragma once
// What a run has found out, kept whatever happens to it: the rows so far, those of what is under way, and the
// errors that cost some.

#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/harness/results.hpp"

namespace stages {

/// The run writes it; part() may be called by another thread.
class Kept {
 public:
  /// `tell` is called with each error.
  explicit Kept(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {}

  /// The run's own: nobody else looks at it.
  Results& results() { return results_; }
  /// What could not be done, in words.
  const std::vector<std::string>& errors() const { return errors_; }

  /// The rows of what is under way: those behind what was kept, or was there before the attempt.
  std::span<ResultRow> under_way() { return std::span(results_.rows).subspan(first_); }

  /// All that is in results() stays.
  void keep();
  /// So do these, of what is under way.
  void keep_under_way(std::span<const ResultRow> rows);

  /// Does `work`, which is to make the rows that are `blank` here. Rows without a result yet tell of an error
  /// in it, and the run goes on: false. Where `all_wait` says that other ranks are in the middle of the work it
  /// is thrown.
  bool attempt(const std::vector<ResultRow>& blank, const bool& all_wait, const std::function<void()>& work);
  /// An error that costs no row.
  void note(const std::string& error);

  /// All of it, as a part: the context says so, and `why`; so do the rows that were not reached.
  Results part(const std::string& why) const;

 private:
  void lose(const std::vector<ResultRow>& blank, Status status, const std::string& why);

  std::function<void(const std::string&)> tell_;
  Results results_;
  std::size_t first_ = 0;
  std::vector<std::string> errors_;
  mutable std::mutex mutex_;  ///< of what follows
  Results whole_;
  std::vector<ResultRow> current_;
};

}  // namespace stages
