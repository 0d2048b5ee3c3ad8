#pragma once
// What a program still does when it is told to end.

#include <functional>
#include <string>
#include <thread>

namespace stages {

/// From now on the signals that ask a program to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT, and what batch systems
/// send before a limit: SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM) remove temporary files before they end the process.
void leave_nothing_behind();

/// While one lives, these signals do not end the process at once: `words` is called with the
/// signal's name, on a thread of its own, and then the process ends as by that signal. A second signal, a
/// second later or more, does not wait. At most one object at a time.
class LastWords {
 public:
  explicit LastWords(const std::function<void(const std::string& signal)>& words);
  /// The signals end the process at once again. Where one has come the process ends here.
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  std::thread listener_;
};

}  // namespace stages
