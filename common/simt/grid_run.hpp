#pragma once
// What the blocks of one launch share, whichever OS threads run them, and words for places in it.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include "common/matrix/error.hpp"
#include "common/simt/observer.hpp"

namespace stages::simt {

/// The order of threads between waits, and of blocks.
struct Schedule {
  enum class Kind : std::uint8_t { forward, reverse, random } kind = Kind::forward;
  std::uint64_t seed = 0;
};

/// The OS thread that holds it runs, and the others wait for it in turn.
class Baton {
 public:
  void take(std::binary_semaphore& own) {
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(taken_, true)) return;
      waiting_.push_back(&own);
    }
    own.acquire();
  }
  void pass() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) {
      taken_ = false;
      return;
    }
    waiting_.front()->release();
    waiting_.pop_front();
  }

 private:
  std::mutex mutex_;
  bool taken_ = false;
  std::deque<std::binary_semaphore*> waiting_;
};

/// What the blocks of one launch share.
struct GridRun {
  const Grid& grid;
  Schedule schedule;
  const std::uint64_t blocks;
  std::atomic<std::uint64_t> next_block = 0;
  std::atomic<Fault> stop = Fault::none;

  // The grid barrier.
  std::atomic<std::uint64_t> arrived_blocks = 0, generation = 0;

  // Finding out that nobody can go on, while threads spin: `progress` counts the rounds, of any runner, in
  // which something other than futile spinning happened; a runner whose whole round was futile notes the
  // count that it began with in its `idle_at`. When all notes are equal to the count, nothing has been
  // written since everybody looked, so nobody will ever see anything new.
  struct Idle {
    std::atomic<std::uint64_t> idle_at = ~std::uint64_t{0};
    std::atomic<std::uint64_t> beats = 0;  ///< threads finished and waits over, for the watchdog
    std::atomic<bool> active = true;
  };
  std::atomic<std::uint64_t> progress = 0;
  std::vector<Idle> runners;

  std::mutex report_mutex;
  std::string report;

  Observer* observer = nullptr;  ///< null: there is none
  bool one_at_a_time = false;    ///< of the OS threads only the one that has the baton runs
  Baton baton;

  /// A cluster's dynamic shared memories by block; null before a block begins and after it ends.
  std::vector<std::atomic<void*>> cluster_shared;

  GridRun(const Grid& g, Schedule s, std::size_t runner_count)
      : grid(g),
        schedule(s),
        blocks(g.blocks()),
        runners(runner_count),
        cluster_shared(g.cluster > 1 ? blocks : 0) {}

  std::uint64_t block_at(std::uint64_t turn) const;
  bool all_idle(std::uint64_t at) const;
  /// The first fault wins; its `text` opens the report.
  void stop_with(Fault fault, const std::string& text);
};

/// Spreads the bits of a number over all of it.
inline std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline bool same_place(Where a, Where b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

/// "kernel.cu:12".
inline std::string file_line(Where at) { return fmt::format("{}:{}", at.file_name(), at.line()); }

/// "(0,0,1)".
inline std::string coordinates(uint3 v) { return fmt::format("({},{},{})", v.x, v.y, v.z); }

}  // namespace stages::simt
