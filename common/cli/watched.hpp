#pragma once
// A child process under watch: it may hang, crash, or eat memory, and its parent goes on with a reason.

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace stages {

struct WatchedCommand {
  std::vector<std::string> words;                                ///< the program and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to this process's
  std::string output;                                            ///< file that gets stdout and stderr
  double silence = 0;                                            ///< seconds without a sign of life; 0: any
  double most_memory = 0;                                        ///< bytes resident; 0: any
  /// A number that grows while the child is well: the silence is counted from its last change.
  std::function<double()> sign_of_life = {};
};

enum class End { exited, killed_by_signal, too_long, too_much_memory };

struct WatchedEnd {
  End how = End::exited;
  int code = 0;  ///< exit code, or the signal
};

/// Runs it to its end, or ends it. Throws Error where it cannot be started.
WatchedEnd run_watched(const WatchedCommand& command);

}  // namespace stages
