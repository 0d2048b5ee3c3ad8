#pragma once
// Who is told what happens on the simulated device, as the lens is that counts and looks for races. The
// executor knows these two interfaces of it and nothing else.
//
// Loads and stores are not here: kernels that are compiled for it call the lens themselves, while
// ThreadLocal::observer is set, so that an access costs no more than a look at that where nobody observes.

#include <string>
#include <thread>

#include "common/simt/launch.hpp"

namespace stages::simt {

class BlockRunner;

/// What is told of the blocks of launches that one OS thread runs, one after the other, by that thread. Threads
/// have their numbers in the block.
class BlockObserver {
 public:
  virtual void end_launch() = 0;
  /// `fixed` and `dynamic` are its shared memories, and `own` the OS thread's variables that are none.
  virtual void begin_block(std::uint64_t number, Span own, Span fixed, Span dynamic) = 0;
  /// `dropped`: some threads stay where they stand.
  virtual void end_block(bool dropped) = 0;

  /// From here on it is `thread` that runs, on this stack.
  virtual void enter(unsigned thread, Span stack) = 0;
  virtual void exit(unsigned thread, bool last_of_warp) = 0;
  /// A barrier of the block is complete; or all of the block came to one of the grid, `completes`: as the last.
  virtual void barrier(Where at) = 0;
  virtual void grid_barrier(bool completes) = 0;
  /// These lanes of a warp met, of those that live `all`.
  virtual void meet(unsigned warp, unsigned lanes, bool all, Where at) = 0;

  // By the running thread:
  /// It changes `bytes` bytes at `p` atomically, and then goes on at `code`.
  virtual void change(const volatile void* p, unsigned bytes, AtomicHow how, const void* code) = 0;
  /// Its next load or store is of `p`, and atomic.
  virtual void next_is_atomic(const volatile void* p, AtomicHow how) = 0;
  virtual void fence(Scope scope) = 0;
  /// It begins to look whether it may go on, or has looked.
  virtual void look(bool begins) = 0;

  /// " at kernel.cu:12", if the observer has ended the running thread there.
  virtual std::string where_ended() const = 0;
};

/// What is told of the device as a whole, by the host. This one, which does nothing, is there where nobody
/// observes.
class Observer {
 public:
  // What comes after what. There are the host, streams (null: the default one) and events.
  static inline const char kHost = 0;
  /// What is done at `after` from here on comes after all that was done at `before` until now.
  virtual void order([[maybe_unused]] const void* after, [[maybe_unused]] const void* before) {}
  virtual void order_host_after_all() {}
  /// A stream or an event ends. Whether another one may get its address.
  virtual bool forget(const void*) { return true; }
  /// What was done to this memory is of no interest any more: it is given out, or given back.
  virtual void forget_memory(Span) {}

  /// Work on the stream begins: a copy from there and to there, where that is not null, or a launch.
  virtual void begin_work([[maybe_unused]] const void* stream) {}
  virtual void copy([[maybe_unused]] const void* to, [[maybe_unused]] const void* from,
                    [[maybe_unused]] std::size_t bytes) {}
  /// May throw Error, and then the launch does not take place.
  virtual void begin_launch(const Grid&) {}
  virtual void end_launch() {}
  /// What the work is a fault for; empty: nothing.
  virtual std::string end_work() { return ""; }

  /// Whether of the OS threads that run blocks only one may run at a time.
  virtual bool one_at_a_time() const { return false; }
  /// For an OS thread that now runs blocks of the launch; null: nobody is told of them.
  virtual BlockObserver* of_blocks(BlockRunner&) { return nullptr; }
  /// Has that OS thread, which hangs in a kernel, end it. Whether it can.
  virtual bool interrupt([[maybe_unused]] std::thread& hanging) { return false; }
};

/// Throws Error where STAGES_RACES asks for what is not there.
Observer& observer();
/// From here on; null: nobody. It lives as long as the process.
void set_observer(Observer* observer);
/// The one that STAGES_RACES=1 asks for, or null. An observer defines this, in programs whose kernels are
/// compiled for it.
[[gnu::weak]] Observer* observer_of_races();

}  // namespace stages::simt
