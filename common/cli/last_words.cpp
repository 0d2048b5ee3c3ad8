#include "common/cli/last_words.hpp"

#include <fcntl.h>
#include <unistd.h>

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
constexpr unsigned char kNone = 0;  ///< through the pipe: there is nothing to wait for any more

std::array<int, 2> told;          ///< a pipe: about all that a signal handler may do is write to it
std::atomic<std::int64_t> heard;  ///< when the first signal came, in ns; 0: none has

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

void write_byte(unsigned char byte) {
  while (write(told[1], &byte, 1) < 0 && errno == EINTR) {
  }
}

void on_signal(int signal) {
  const int before = errno;
  // One that follows at once is no second thought: mpirun ends its ranks by several.
  constexpr std::int64_t kAtOnce = 1'000'000'000;
  std::int64_t first = 0;
  if (heard.compare_exchange_strong(first, now())) {
    write_byte(static_cast<unsigned char>(signal));
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

void listen(const std::function<void(const std::string&)>& words) {
  unsigned char signal = kNone;
  while (read(told[0], &signal, 1) < 0 && errno == EINTR) {
  }
  if (signal == kNone) return;
  words(std::string("SIG") + sigabbrev_np(signal));
  end_by(signal);
}

}  // namespace

void leave_nothing_behind() { handle(end_by); }

LastWords::LastWords(std::function<void(const std::string& signal)> words) {
  if (pipe2(told.data(), O_CLOEXEC) != 0)
    fail("no pipe can be had: {}; close other programs", std::strerror(errno));
  heard = 0;
  try {
    listener_ = std::thread(listen, std::move(words));
  } catch (const std::system_error& error) {
    for (const int end : told) close(end);
    fail("no thread can be had: {}; close other programs, or raise `ulimit -u`", error.what());
  }
  handle(on_signal);
}

LastWords::~LastWords() {
  handle(end_by);
  write_byte(kNone);
  listener_.join();
  for (const int end : told) close(end);
}

}  // namespace stages
