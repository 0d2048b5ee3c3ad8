#pragma once
// Progress on stderr: on a terminal one line that is rewritten in place, elsewhere a line for each entry.

#include <chrono>
#include <cstddef>
#include <string>

#include "common/harness/runner.hpp"

namespace stages {

class Progress {
 public:
  /// `total` entries in all are to be run.
  explicit Progress(std::size_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Something beside the entries, such as the reading of a file: in place, cut to one line of the terminal.
  void doing(const std::string& what);

  /// A line that stays: for what the user should know even when it has scrolled by.
  void say(const std::string& line);

  /// For run_problem. This object must outlive the events.
  RunEvents events();

  /// Removes the line in place, before something else is printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  void running(const ResultRow& row, const std::string& what);
  std::string numbered(std::size_t number, const std::string& what) const;

  std::size_t total_;
  std::size_t begun_ = 0;  ///< entries whose check has begun
  std::size_t done_ = 0;
  bool terminal_;
  bool shown_ = false;           ///< a line in place is on the terminal
  Clock::time_point last_ = {};  ///< when an entry was shown there
};

}  // namespace stages
