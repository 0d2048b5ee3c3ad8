#pragma once
// One block at a time on one OS thread: its CUDA threads, their barriers, their warps; and what the blocks of a
// launch share. The heart of the executor.
//
// Each CUDA thread is in one State. A thread that must wait puts itself into a waiting state and hands over
// to the next one that can run: first those that were released, then those that have not started, and when
// there is neither, the OS thread's own stack (`main_`), where idle() finds out whether anybody can still be
// woken. The release of a barrier is the business of the thread that completes it, by arriving or by exiting.
//
// Nothing unwinds: at a fault the threads of the block are dropped where they stand. Kernels own nothing.

#include <array>
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
#include "common/matrix/random.hpp"
#include "common/simt/fiber.hpp"
#include "common/simt/observer.hpp"
#include "common/simt/shared_memory.hpp"
#include "common/simt/thread.hpp"

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
  const Schedule schedule;
  const std::uint64_t blocks;
  Observer& observer;
  const bool one_at_a_time;  ///< of the OS threads only the one that has the baton runs
  Baton baton;
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
  std::vector<Idle> runners;
  std::atomic<std::uint64_t> progress = 0;

  std::mutex report_mutex;
  std::string report;

  /// A cluster's dynamic shared memories by block; null before a block begins and after it ends.
  std::vector<std::atomic<void*>> cluster_shared;

  std::uint64_t block_at(std::uint64_t turn) const;
  /// The first fault wins; its `text` opens the report.
  void stop_with(Fault fault, const std::string& text);
};

inline bool same_place(Where a, Where b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

/// "kernel.cu:12".
inline std::string file_line(Where at) { return fmt::format("{}:{}", at.file_name(), at.line()); }

/// "(0,0,1)".
inline std::string coordinates(uint3 v) { return fmt::format("({},{},{})", v.x, v.y, v.z); }

enum class State : std::uint8_t { fresh, ready, running, barrier, warp, grid, spin, done };

class BlockRunner {
 public:
  BlockRunner() : fibers_(&BlockRunner::fiber_body) {}

  /// Runs blocks of `run` until there are none left or it is stopped. `self` is this runner's place in
  /// run.runners.
  void run(GridRun& run, std::size_t self);

  // Called on a thread's fiber, by the device functions of the same names.
  // `code` is where they return to.
  int block_barrier(Vote vote, int predicate, Where at, const void* code);
  std::uint64_t meet(WarpOp op, unsigned mask, std::uint64_t value, unsigned lane, Where at,
                     const void* code);
  void grid_barrier(Where at, const void* code);
  void spin_turn(Where at);
  void spin_end() { note_progress(); }
  void pause_turn(Where at);
  void* dynamic_shared_memory() { return dynamic_shared_.data(); }
  void* cluster_shared_memory(void* own, unsigned rank, Where at);
  unsigned lane() const { return current_ % kLanes; }
  [[noreturn]] void fault(std::string what, Where at);

  // For the observer.
  GridRun& launch() { return *run_; }
  unsigned threads() const { return threads_in_block_; }
  /// Where a waiting thread goes on.
  const void* code_of(unsigned thread) const { return thread_[thread].code; }
  /// The lanes of a warp that neither wait nor have exited.
  unsigned able_to_run(unsigned warp) const;
  /// Lets others run, first those that have not started.
  void let_others_run();
  /// The launch is stopped, and this thread would go on for ever.
  [[noreturn]] void leave();
  /// The stack on which a thread of the kernel runs; empty: none does. For handlers of signals, too.
  Span stack_of_fiber() const { return fiber_ == nullptr || fiber_ == &main_ ? Span{} : stack_of(*fiber_); }
  /// "LINE: block (0,0,0) thread (1,0,0) of the kernel launched at FILE:LINE: ".
  std::string place(const std::string& line) const;

 private:
  struct Thread {
    Fiber* fiber = nullptr;
    State state = State::fresh;
    uint3 index = {};
    Where at;                       ///< where it waits
    const void* code = nullptr;     ///< and where it then goes on, for the observer
    unsigned mask = 0;              ///< in a meeting: its lanes
    unsigned source = 0;            ///< in a shuffle: the lane it wants
    std::uint64_t in = 0, out = 0;  ///< what it brought, what it gets
  };
  struct Meeting {
    WarpOp op;
    unsigned mask, arrived;
    Where at;
  };
  struct Warp {
    unsigned live = 0;      ///< lanes that exist and have not exited
    unsigned meetings = 0;  ///< in progress; several only with disjoint masks
    std::array<Meeting, 32> meeting;
  };
  struct Barrier {
    unsigned arrived = 0, count = 0;
    Vote vote = Vote::none;
    Where at;
  };

  static void fiber_body(Fiber& self);
  void run_block(std::uint64_t block);
  void prepare_threads();
  void run_current_thread();
  void exit_current_thread();
  void idle();
  void abandon();

  int take_next();
  void enter(unsigned thread);
  void hand_over(Fiber& from, int next);
  void note_progress() {
    dirty_ = true;
    auto& beats = run_->runners[self_].beats;
    beats.store(beats.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void wait();
  void wait_as(State state, Where at);
  void push_ready(unsigned thread) {
    ready_[(ready_head_ + ready_size_++) % ready_.size()] = static_cast<std::uint16_t>(thread);
  }
  void release_all(State state);
  void shuffle_order();
  std::uint64_t random();

  void release_barrier();
  void release_meeting(Warp& warp, unsigned slot);
  void multiply_tiles_of(const Thread* lanes, const Meeting& m);
  void check_meeting(const Warp& warp, WarpOp op, unsigned mask, Where at);
  // Out of the way of those that may go on: what makes a message has a large frame.
  [[noreturn, gnu::noinline, gnu::cold]] void refuse_mask(unsigned mask, Where at);
  [[noreturn, gnu::noinline, gnu::cold]] void refuse_meeting(const Meeting& other, unsigned mask, Where at);
  [[noreturn, gnu::noinline, gnu::cold]] void refuse_barrier(Where at);
  void grid_arrive();

  static Span stack_of(const Fiber& fiber) {
    return {reinterpret_cast<std::uintptr_t>(fiber.stack), fiber.size};
  }
  std::string place(Where at) const;
  std::string waiters(State state, unsigned first, unsigned last) const;
  void append_table(std::string& text) const;

  GridRun* run_ = nullptr;
  std::size_t self_ = 0;
  FiberPool fibers_;
  Fiber main_;
  Fiber* fiber_ = nullptr;  ///< the running one

  unsigned threads_in_block_ = 0, live_ = 0, current_ = 0;
  dim3 shape_ = {0, 0, 0};  ///< of the block that thread_[].index was made for
  std::vector<Thread> thread_;
  std::array<Warp, 32> warp_;
  std::vector<std::uint16_t> order_;  ///< position -> thread
  unsigned next_fresh_ = 0;

  std::array<std::uint16_t, 1024> ready_;  ///< ring buffer; a thread is in it once at most
  unsigned ready_head_ = 0, ready_size_ = 0;
  std::vector<std::uint16_t> spinners_;

  Barrier barrier_;
  unsigned grid_waiting_ = 0;
  std::uint64_t grid_generation_ = 0;

  bool dirty_ = true;  ///< something happened in this round that may have changed memory
  std::uint64_t round_began_ = 0;
  unsigned futile_rounds_ = 0;
  std::uint64_t random_state_ = 0;

  BlockObserver* observer_ = nullptr;  ///< null: this launch is not observed
  std::binary_semaphore baton_{0};     ///< to wait for GridRun::baton

  DynamicShared dynamic_shared_;
  StaticShared static_shared_;
};

}  // namespace stages::simt
