#include "common/simt/block_runner.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include "common/simt/numbers.hpp"

namespace stages::simt {

// ---- a thread from its begin to its end -------------------------------------------------------------------

// The life of a fiber: it runs a thread to its end, then goes on with the next thread that has not started,
// as long as nobody else can run. When it ends here as a thread that had to wait, others have run meanwhile
// on other fibers; the fiber does not care.
void BlockRunner::fiber_body(Fiber& self) {
  for (;;) {
    BlockRunner& runner = *t_local.runner;
    runner.run_current_thread();
    const int next = runner.take_next();
    if (next >= 0 && runner.thread_[static_cast<unsigned>(next)].state == State::fresh) {
      runner.thread_[static_cast<unsigned>(next)].fiber = &self;
      runner.enter(static_cast<unsigned>(next));
    } else {
      runner.fibers_.put(&self);
      runner.hand_over(self, next);
    }
  }
}

void BlockRunner::run_current_thread() {
  std::string thrown;
  try {
    run_->grid.invoke();
  } catch (const std::exception& e) {
    thrown = e.what();
  } catch (...) {
    thrown = "an exception of unknown type";
  }
  if (!thrown.empty())
    run_->stop_with(Fault::device, place(run_->grid.where) + "the kernel threw: " + thrown);
  exit_current_thread();
}

void BlockRunner::exit_current_thread() {
  thread_[current_].state = State::done;
  thread_[current_].fiber = nullptr;
  dirty_ = true;
  --live_;
  Warp& warp = warp_[current_ / 32];
  warp.live &= ~(1u << (current_ % 32));
  if (observer_ != nullptr) observer_->exit(current_, warp.live == 0);
  // A thread that is gone leaves whatever the others wait for it at.
  for (unsigned i = 0; i < warp.meetings;) {
    const Meeting& m = warp.meeting[i];
    if (m.arrived == (m.mask & warp.live)) {
      release_meeting(warp, i);
    } else {
      ++i;
    }
  }
  if (barrier_.arrived > 0 && barrier_.arrived == live_) release_barrier();
  if (grid_waiting_ > 0 && grid_waiting_ == live_) grid_arrive();
  note_progress();
}

// ---- handing over -----------------------------------------------------------------------------------------

int BlockRunner::take_next() {
  if (run_->stop.load(std::memory_order_relaxed) != Fault::none) return -1;
  if (ready_size_ > 0) {
    if (run_->schedule.kind == Schedule::Kind::random) {
      const auto pick = static_cast<unsigned>(random() % ready_size_);
      std::swap(ready_[ready_head_], ready_[(ready_head_ + pick) % ready_.size()]);
    }
    const unsigned next = ready_[ready_head_];
    ready_head_ = (ready_head_ + 1) % static_cast<unsigned>(ready_.size());
    --ready_size_;
    return static_cast<int>(next);
  }
  if (next_fresh_ < threads_in_block_) return order_[next_fresh_++];
  return -1;
}

void BlockRunner::enter(unsigned thread) {
  current_ = thread;
  Thread& t = thread_[thread];
  if (t.state == State::fresh) dirty_ = true;
  t.state = State::running;
  threadIdx = t.index;
  t_local.atomics_since_switch = 0;
  if (t_local.observer != nullptr) [[unlikely]]
    t_local.observer->enter(thread, stack_of(*t.fiber));
}

void BlockRunner::hand_over(Fiber& from, int next) {
  Fiber* to = &main_;
  if (next >= 0) {
    Thread& t = thread_[static_cast<unsigned>(next)];
    if (!t.fiber) t.fiber = fibers_.take();
    enter(static_cast<unsigned>(next));
    to = t.fiber;
  }
  if (to == &from) return;
  fiber_ = to;
  switch_fiber(from, *to);
}

// The current thread's state says by now what it waits for (or that it may go on, in its turn).
void BlockRunner::wait() {
  const unsigned thread = current_;
  hand_over(*thread_[thread].fiber, take_next());
}

void BlockRunner::wait_as(State state, Where at) {
  thread_[current_].state = state;
  thread_[current_].at = at;
  wait();
}

void BlockRunner::release_all(State state) {
  if (run_->schedule.kind == Schedule::Kind::random && next_fresh_ == threads_in_block_) shuffle_order();
  for (const unsigned thread : order_) {
    if (thread_[thread].state != state) continue;
    thread_[thread].state = State::ready;
    push_ready(thread);
  }
  note_progress();
}

std::uint64_t BlockRunner::random() { return random::mix(random_state_ += 0x9e3779b97f4a7c15u); }

void BlockRunner::shuffle_order() {
  for (std::size_t i = threads_in_block_; i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
}

// ---- block barriers ---------------------------------------------------------------------------------------

int BlockRunner::block_barrier(Vote vote, int predicate, Where at, const void* code) {
  if (barrier_.arrived == 0) {
    barrier_ = {0, 0, vote, at};
  } else if (!same_place(barrier_.at, at)) [[unlikely]] {
    refuse_barrier(at);
  }
  ++barrier_.arrived;
  barrier_.count += predicate != 0;
  thread_[current_].state = State::barrier;
  thread_[current_].at = at;
  thread_[current_].code = code;
  const unsigned self = current_;
  if (barrier_.arrived == live_) release_barrier();
  wait();
  return static_cast<int>(thread_[self].out);
}

void BlockRunner::refuse_barrier(Where at) {
  std::string what = fmt::format(  // in fault() its two arguments would never be freed
      "a divergent barrier: this thread arrives here while {} at the barrier at {}; all threads of the "
      "block must reach the same __syncthreads",
      waiters(State::barrier, 0, threads_in_block_), file_line(barrier_.at));
  fault(std::move(what), at);
}

void BlockRunner::release_barrier() {
  unsigned result = 0;
  if (barrier_.vote == Vote::count) result = barrier_.count;
  if (barrier_.vote == Vote::all) result = barrier_.count == barrier_.arrived;
  if (barrier_.vote == Vote::any) result = barrier_.count > 0;
  for (Thread& t : thread_)
    if (t.state == State::barrier) t.out = result;
  barrier_.arrived = 0;
  if (observer_ != nullptr) observer_->barrier(barrier_.at);
  release_all(State::barrier);
}

// ---- meetings of a warp -----------------------------------------------------------------------------------

std::uint64_t BlockRunner::meet(WarpOp op, unsigned mask, std::uint64_t value, unsigned source, Where at,
                                const void* code) {
  Warp& warp = warp_[current_ / 32];
  const unsigned bit = 1u << (current_ % 32);
  if (!(mask & bit)) [[unlikely]]
    refuse_mask(mask, at);
  unsigned slot = 0;
  while (slot < warp.meetings && warp.meeting[slot].mask != mask) ++slot;
  check_meeting(warp, op, mask, at);
  if (slot == warp.meetings) warp.meeting[warp.meetings++] = {op, mask, 0, at};
  warp.meeting[slot].arrived |= bit;

  const unsigned self = current_;
  Thread& t = thread_[self];
  t.in = value;
  t.source = source;
  t.mask = mask;
  t.state = State::warp;
  t.at = at;
  t.code = code;
  if (warp.meeting[slot].arrived == (mask & warp.live)) release_meeting(warp, slot);
  wait();
  return thread_[self].out;
}

// Refuses what can only end badly: lanes of one mask in different calls, or lanes that wait for each other
// with different masks.
void BlockRunner::check_meeting(const Warp& warp, WarpOp op, unsigned mask, Where at) {
  const unsigned lane = current_ % 32;
  for (unsigned i = 0; i < warp.meetings; ++i) {
    const Meeting& other = warp.meeting[i];
    const bool one_call = other.mask == mask && other.op == op && same_place(other.at, at);
    const bool wait_for_each_other = (other.mask >> lane & 1) != 0 && (other.arrived & mask) != 0;
    if (!one_call && wait_for_each_other) [[unlikely]]
      refuse_meeting(other, mask, at);
  }
}

void BlockRunner::refuse_mask(unsigned mask, Where at) {
  fault(
      fmt::format("a wrong mask: lane {} calls a warp function with mask {:#010x}, which does not contain it",
                  current_ % 32, mask),
      at);
}

void BlockRunner::refuse_meeting(const Meeting& other, unsigned mask, Where at) {
  const unsigned lane = current_ % 32, first = current_ - lane;
  std::string what = fmt::format(
      "a wrong mask or a diverged warp: lane {} calls here with mask {:#010x}, while {} in the call "
      "at {} with mask {:#010x}; all lanes of a mask must make the same call with the same mask",
      lane, mask, waiters(State::warp, first, std::min(first + 32, threads_in_block_)), file_line(other.at),
      other.mask);
  fault(std::move(what), at);
}

namespace {

std::uint64_t combine(WarpOp op, std::uint64_t a, std::uint64_t b) {
  const auto ua = static_cast<std::uint32_t>(a), ub = static_cast<std::uint32_t>(b);
  const auto sa = static_cast<std::int32_t>(ua), sb = static_cast<std::int32_t>(ub);
  if (op == WarpOp::add_u32) return ua + ub;
  if (op == WarpOp::min_u32) return std::min(ua, ub);
  if (op == WarpOp::max_u32) return std::max(ua, ub);
  if (op == WarpOp::min_s32) return static_cast<std::uint32_t>(std::min(sa, sb));
  if (op == WarpOp::max_s32) return static_cast<std::uint32_t>(std::max(sa, sb));
  if (op == WarpOp::and_u32) return ua & ub;
  if (op == WarpOp::or_u32) return ua | ub;
  return op == WarpOp::xor_u32 ? ua ^ ub : 0;
}

constexpr std::uint64_t kJunk64 = std::uint64_t{kJunk} << 32 | kJunk;

}  // namespace

void BlockRunner::multiply_tiles_of(const Thread* lanes, const Meeting& m) {
  if (m.arrived != ~0u) {
    run_->stop_with(
        Fault::device,
        fmt::format("{}a product of tiles by a part of a warp: lanes {:#010x} came, and the others "
                    "have exited; all 32 lanes must call it",
                    place(m.at), m.arrived));
    return;
  }
  std::array<TileOperands, 32> operands;
  for (unsigned lane = 0; lane < 32; ++lane)  // they lie on its stack while it waits
    operands[lane] = *reinterpret_cast<const TileOperands*>(static_cast<std::uintptr_t>(lanes[lane].in));
  multiply(operands);
}

void BlockRunner::release_meeting(Warp& warp, unsigned slot) {
  const Meeting m = warp.meeting[slot];
  warp.meeting[slot] = warp.meeting[--warp.meetings];
  const auto number = static_cast<unsigned>(&warp - warp_.data());
  Thread* const lanes = &thread_[number * 32];
  if (observer_ != nullptr) observer_->meet(number, m.arrived, m.arrived == warp.live, m.at);
  const auto each = [&](auto visit) { each_lane(m.arrived, visit); };

  std::uint64_t same_for_all = 0;
  const unsigned first = first_lane(m.arrived);
  if (m.op == WarpOp::ballot) {
    each([&](unsigned lane) { same_for_all |= lanes[lane].in << lane; });
  } else if (m.op == WarpOp::tiles) {
    multiply_tiles_of(lanes, m);
  } else if (m.op >= WarpOp::add_u32) {
    same_for_all = lanes[first].in;
    each([&](unsigned l) {
      same_for_all = l == first ? same_for_all : combine(m.op, same_for_all, lanes[l].in);
    });
  }
  each([&](unsigned lane) {
    Thread& t = lanes[lane];
    t.state = State::ready;
    t.out = same_for_all;
    if (m.op == WarpOp::shuffle) {
      t.out = t.source < 32 && (m.arrived >> t.source & 1) != 0 ? lanes[t.source].in : kJunk64;
    } else if (m.op == WarpOp::match_any) {
      each([&](unsigned other) { t.out |= std::uint64_t{lanes[other].in == t.in} << other; });
    }
  });

  const auto base = static_cast<unsigned>(lanes - thread_.data());
  if (run_->schedule.kind == Schedule::Kind::reverse) {
    for (unsigned rest = m.arrived; rest != 0;) {
      const auto lane = 31u - static_cast<unsigned>(std::countl_zero(rest));
      push_ready(base + lane);
      rest &= ~(1u << lane);
    }
  } else {
    each([&](unsigned lane) { push_ready(base + lane); });
  }
  note_progress();
}

// ---- the device functions' entry points -------------------------------------------------------------------

namespace {

[[noreturn, gnu::noinline, gnu::cold]] void refuse_host(const char* function, Where at) {
  fail("{}: {} outside a kernel; it exists in device code only", file_line(at), function);
}

BlockRunner& runner_or_throw(const char* function, Where at) {
  if (!t_local.runner) [[unlikely]]
    refuse_host(function, at);
  return *t_local.runner;
}

}  // namespace

int block_barrier(Vote vote, int predicate, Where at) {
  return runner_or_throw("__syncthreads", at).block_barrier(vote, predicate, at, __builtin_return_address(0));
}
std::uint64_t meet(WarpOp op, unsigned mask, std::uint64_t value, unsigned lane, Where at) {
  return runner_or_throw("a warp function", at).meet(op, mask, value, lane, at, __builtin_return_address(0));
}
void multiply_tiles(TileOperands mine, Where at) {
  runner_or_throw("multiply_tiles", at)
      .meet(WarpOp::tiles, ~0u, reinterpret_cast<std::uintptr_t>(&mine), 0, at, __builtin_return_address(0));
}
void spin_turn(Where at) { runner_or_throw("a waiting loop", at).spin_turn(at); }
void spin_end() { runner_or_throw("a waiting loop", Where::current()).spin_end(); }
void pause_turn(Where at) { runner_or_throw("a waiting loop", at).pause_turn(at); }
void grid_barrier(Where at) {
  runner_or_throw("grid_sync", at).grid_barrier(at, __builtin_return_address(0));
}
void* cluster_shared_memory(void* own, unsigned rank, Where at) {
  return runner_or_throw("cluster_shared", at).cluster_shared_memory(own, rank, at);
}
void* dynamic_shared_memory() {
  return runner_or_throw("dynamic_shared", Where::current()).dynamic_shared_memory();
}
unsigned lane_of_thread() { return runner_or_throw("a warp function", Where::current()).lane(); }
void device_fault(std::string what, Where at) {
  if (!t_local.runner) throw Error(fmt::format("{}: {}", file_line(at), what));
  t_local.runner->fault(std::move(what), at);
}

int compute_capability() { return device().major * 10 + device().minor; }

void require_capability(int needed, const char* what, Where at) {
  if (compute_capability() >= needed) return;
  device_fault(fmt::format("{} needs compute capability {}.{}; this device has {}.{}", what, needed / 10,
                           needed % 10, device().major, device().minor),
               at);
}

void misaligned_access(const void* p, std::size_t alignment, Where at) {
  device_fault(fmt::format("a misaligned access: {} is no multiple of {} bytes", p, alignment), at);
}

void trace_atomic(const volatile void* p, unsigned bytes, AtomicHow how) {
  t_local.observer->change(p, bytes, how, __builtin_return_address(0));
  t_local.in_atomic = true;
}
void trace_next(const volatile void* p, AtomicHow how) { t_local.observer->next_is_atomic(p, how); }
void trace_fence(Scope scope) { t_local.observer->fence(scope); }
void trace_look(bool begins) { t_local.observer->look(begins); }

}  // namespace stages::simt
