#include "common/cli/last_words.hpp"

#include <semaphore.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <system_error>

#include "common/matrix/error.hpp"
#include "common/matrix/temporary_files.hpp"

namespace stages {
namespace {

// What ends a program by itself and leaves it the time to say something: from a terminal (INT, QUIT, HUP),
// and from batch systems before their limits (TERM, XCPU, USR1, USR2, ALRM).
constexpr std::array kSignals = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,  SIGXCPU,
                                 SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM};

sem_t told;                       ///< about all that a signal handler may do is post one
std::atomic<int> by;              ///< the first signal; 0: none has come
std::atomic<std::int64_t> heard;  ///< when it came, in ns

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);  // of the clocks the one that a signal handler may read
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void end_by(int signal) {
  remove_temporary_files();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void on_signal(int signal) {
  const int before = errno;
  // One that follows at once is no second thought: mpirun ends its ranks by several.
  constexpr std::int64_t kAtOnce = 1'000'000'000;
  std::int64_t first = 0;
  if (heard.compare_exchange_strong(first, now())) {
    by = signal;
    sem_post(&told);
  } else if (now() - first > kAtOnce) {
    end_by(signal);
  }
  errno = before;
}

/// But for what nohup, or a shell's &, has had ignored.
void handle(void (*handler)(int)) {
  for (const int signal : kSignals)
    if (std::signal(signal, handler) == SIG_IGN) std::signal(signal, SIG_IGN);
}

}  // namespace

void leave_nothing_behind() { handle(end_by); }

LastWords::LastWords(const std::function<void(const std::string& signal)>& words) {
  sem_init(&told, 0, 0);
  heard = by = 0;
  try {
    listener_ = std::thread([words] {
      while (sem_wait(&told) != 0) {  // a signal has come to this thread
      }
      if (by == 0) return;
      words(std::string("SIG") + sigabbrev_np(by));
      end_by(by);
    });
  } catch (const std::system_error& error) {
    fail("no thread can be had: {}; close other programs, or raise `ulimit -u`", error.what());
  }
  handle(on_signal);
}

LastWords::~LastWords() {
  handle(end_by);
  sem_post(&told);
  listener_.join();
}

}  // namespace stages
