#include "common/simt/block_runner.hpp"

#include <chrono>
#include <cstring>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "common/matrix/error.hpp"
#include "common/simt/lens/code.hpp"

namespace stages::simt {
namespace {

bool same_place(Where a, Where b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string file_line(Where at) { return fmt::format("{}:{}", at.file_name(), at.line()); }

std::string coordinates(uint3 v) { return fmt::format("({},{},{})", v.x, v.y, v.z); }

/// Threads as text: consecutive numbers become ranges.
std::string text_of(const std::vector<unsigned>& threads) {
  std::string text = threads.size() == 1 ? "thread" : "threads";
  const char* separator = " ";
  for (std::size_t first = 0, last = 0; first < threads.size(); first = ++last) {
    while (last + 1 < threads.size() && threads[last + 1] == threads[last] + 1) ++last;
    text += fmt::format("{}{}", separator, threads[first]);
    if (last > first) text += fmt::format("-{}", threads[last]);
    separator = ", ";
  }
  return text;
}

constexpr const char* kStateNames[] = {
    "not started",        "able to run",         "running",           "at a block barrier (__syncthreads)",
    "in a warp function", "at the grid barrier", "waiting in a loop", "exited"};
const char* name(State state) { return kStateNames[static_cast<std::size_t>(state)]; }

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

// ---- what the blocks share --------------------------------------------------------------------------------

std::uint64_t GridRun::block_at(std::uint64_t turn) const {
  if (schedule.kind == Schedule::Kind::forward) return turn;
  if (schedule.kind == Schedule::Kind::reverse) return blocks - 1 - turn;
  // An affine map with a factor that has no common divisor with the count is a permutation.
  std::uint64_t factor = mix(schedule.seed) % blocks | 1;
  while (std::gcd(factor, blocks) != 1) factor += 2;
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(factor) * turn + mix(schedule.seed + 1) % blocks) %
                                    blocks);
}

bool GridRun::all_idle(std::uint64_t at) const {
  for (const Idle& runner : runners)
    if (runner.active.load() && runner.idle_at.load() != at) return false;
  return progress.load() == at;
}

void GridRun::stop_with(Fault fault, const std::string& text) {
  t_local.tracing = false;  // what follows may share functions with the kernels, which note what they do
  const std::lock_guard lock(report_mutex);
  Fault expected = Fault::none;
  if (stop.compare_exchange_strong(expected, fault)) report.insert(0, text);
}

// ---- running blocks ---------------------------------------------------------------------------------------

void BlockRunner::run(GridRun& run, std::size_t self) {
  run_ = &run;
  self_ = self;
  gridDim = run.grid.grid;
  blockDim = run.grid.block;
  prepare_threads();
  t_local.runner = this;
  GridRun::Idle& mine = run.runners[self];
  static_shared_.begin_launch(run.grid.kernel);
  races_ = run.races;
  if (races_) run.baton.take(baton_);
  tracing_ = run.counts != nullptr;
  if (tracing_) {
    if (!tracer_) tracer_ = std::make_unique<Tracer>();
    tracer_->begin_launch(*run.counts, threads_in_block_);
  }
  t_local.tracing = tracing_ || races_ != nullptr;
  if (catching_crashes()) prepare_for_crashes(signal_stack_);
  for (;;) {
    const std::uint64_t turn = run.next_block.fetch_add(1);
    if (turn >= run.blocks || run.stop.load() != Fault::none) break;
    run_block(run.block_at(turn));
  }
  if (std::exchange(tracing_, false)) {
    const std::lock_guard lock(run.counts_mutex);
    tracer_->end_launch(*run.counts);
  }
  t_local.tracing = false;
  if (races_) run.baton.pass();
  t_local.runner = nullptr;
  mine.active.store(false);
  run.progress.fetch_add(1);
}

void BlockRunner::prepare_threads() {
  const dim3 block = run_->grid.block;
  threads_in_block_ = block.x * block.y * block.z;
  if (shape_.x == block.x && shape_.y == block.y && shape_.z == block.z) return;
  shape_ = block;
  thread_.resize(threads_in_block_);
  order_.resize(threads_in_block_);
  unsigned i = 0;
  for (unsigned z = 0; z < block.z; ++z) {
    for (unsigned y = 0; y < block.y; ++y)
      for (unsigned x = 0; x < block.x; ++x) thread_[i++].index = {x, y, z};
  }
}

void BlockRunner::run_block(std::uint64_t block) {
  const Grid& grid = run_->grid;
  blockIdx = {static_cast<unsigned>(block % grid.grid.x),
              static_cast<unsigned>(block / grid.grid.x % grid.grid.y),
              static_cast<unsigned>(block / grid.grid.x / grid.grid.y)};
  for (unsigned i = 0; i < threads_in_block_; ++i) {
    thread_[i].state = State::fresh;
    thread_[i].fiber = nullptr;
    order_[i] = static_cast<std::uint16_t>(
        run_->schedule.kind == Schedule::Kind::reverse ? threads_in_block_ - 1 - i : i);
  }
  random_state_ = mix(run_->schedule.seed + 1) ^ block;
  if (run_->schedule.kind == Schedule::Kind::random) shuffle_order();
  live_ = threads_in_block_;
  left_at_ = 0;
  last_code_ = nullptr;
  for (unsigned w = 0; w * 32 < threads_in_block_; ++w) {
    const unsigned lanes = std::min(32u, threads_in_block_ - w * 32);
    warp_[w].live = lanes == 32 ? ~0u : (1u << lanes) - 1;
    warp_[w].meetings = 0;
  }
  next_fresh_ = ready_size_ = grid_waiting_ = 0;
  barrier_ = {};
  spinners_.clear();
  dynamic_shared_.refill(grid.shared_bytes);
  static_shared_.before_block();
  if (tracing_) tracer_->begin_block(static_shared_.others(), dynamic_shared_.span(), static_shared_.span());
  if (races_) {
    clocks_.shared = {static_shared_.span(), dynamic_shared_.span()};
    clocks_.own = static_shared_.others();
    races_->begin_block(clocks_, block, threads_in_block_);
  }
  if (grid.cluster > 1) run_->cluster_shared[block].store(dynamic_shared_.data());

  while (live_ > 0 && run_->stop.load(std::memory_order_relaxed) == Fault::none) {
    const int next = take_next();
    if (next >= 0) {
      hand_over(main_, next);
    } else if (live_ > 0 && run_->stop.load() == Fault::none) {
      if (races_) run_->baton.pass();
      idle();
      if (races_) run_->baton.take(baton_);
    }
  }
  if (live_ > 0) abandon();
  if (races_) races_->settle();
  if (grid.cluster > 1) run_->cluster_shared[block].store(nullptr);
  static_shared_.after_block();
  const std::size_t left = grid.shared_limit - std::min(grid.shared_limit, grid.shared_bytes);
  if (const std::size_t used = static_shared_.used_bytes(left); used > left) {
    run_->stop_with(
        Fault::device,
        fmt::format(
            "{}: a block uses {} bytes or more of static shared memory beside {} of dynamic; together "
            "they may be {} on this device; take smaller tables or tiles",
            file_line(grid.where), used, grid.shared_bytes, grid.shared_limit));
  }
  if (dynamic_shared_.canary_broken()) {
    run_->stop_with(
        Fault::device,
        fmt::format("{}: block {} wrote beyond its {} bytes of dynamic shared memory; launch with more, "
                    "or build with ASan to see the line",
                    file_line(grid.where), coordinates(blockIdx), grid.shared_bytes));
  }
}

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
    run_->grid.invoke(run_->grid.args);
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
  if (races_) clocks_.near[current_].left_at = clocks_.clock[current_];
  dirty_ = true;
  --live_;
  Warp& warp = warp_[current_ / 32];
  warp.live &= ~(1u << (current_ % 32));
  // A thread that is gone leaves whatever the others wait for it at.
  for (unsigned i = 0; i < warp.meetings;) {
    const Meeting& m = warp.meeting[i];
    if (m.arrived == (m.mask & warp.live)) {
      release_meeting(warp, i);
    } else {
      ++i;
    }
  }
  if (tracing_ && warp.live == 0) put_together(current_ / 32);
  if (barrier_.arrived > 0 && barrier_.arrived == live_) release_barrier();
  if (grid_waiting_ > 0 && grid_waiting_ == live_) grid_arrive();
  note_progress();
}

void BlockRunner::note_progress() {
  dirty_ = true;
  auto& beats = run_->runners[self_].beats;
  beats.store(beats.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
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
  if (t_local.tracing) [[unlikely]] {
    stack_ = {reinterpret_cast<std::uintptr_t>(t.fiber->stack), t.fiber->size};
    if (tracing_) tracer_->enter(thread, stack_);
  }
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

void BlockRunner::push_ready(unsigned thread) {
  ready_[(ready_head_ + ready_size_++) % ready_.size()] = static_cast<std::uint16_t>(thread);
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

std::uint64_t BlockRunner::random() { return mix(random_state_ += 0x9e3779b97f4a7c15u); }

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
  std::string what = fmt::format(
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
  if (races_) races_->barrier(clocks_);
  if (tracing_) {
    tracer_->barrier(barrier_.at);
    put_all_together();
  }
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

// The operands of a lane lie on its stack while it waits.
std::uint64_t to_value(const TileOperands& mine) { return reinterpret_cast<std::uintptr_t>(&mine); }
const TileOperands& to_operands(std::uint64_t value) {
  return *reinterpret_cast<const TileOperands*>(static_cast<std::uintptr_t>(value));
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
  for (unsigned lane = 0; lane < 32; ++lane) operands[lane] = to_operands(lanes[lane].in);
  multiply(operands);
}

void BlockRunner::release_meeting(Warp& warp, unsigned slot) {
  const Meeting m = warp.meeting[slot];
  warp.meeting[slot] = warp.meeting[--warp.meetings];
  const auto number = static_cast<unsigned>(&warp - warp_.data());
  Thread* const lanes = &thread_[number * 32];
  if (races_) races_->meet(clocks_, number, m.arrived, m.arrived == warp.live);
  if (tracing_) {
    tracer_->barrier(m.at);
    if (m.arrived == warp.live && !tracer_->others_left(number, m.arrived)) {
      put_together(number);
    } else {
      tracer_->meet(number, m.arrived, code_address(lanes[first_lane(m.arrived)].code));
    }
  }
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

// ---- waiting beyond the block -----------------------------------------------------------------------------

void BlockRunner::grid_barrier(Where at, const void* code) {
  if (!run_->grid.resident())
    fault("grid_sync in a launch that is not cooperative; set LaunchConfig::cooperative", at);
  thread_[current_].state = State::grid;
  thread_[current_].at = at;
  thread_[current_].code = code;
  if (++grid_waiting_ == live_) grid_arrive();
  wait();
}

void BlockRunner::grid_arrive() {
  if (tracing_) put_all_together();
  note_progress();
  grid_generation_ = run_->generation.load();
  if (run_->arrived_blocks.fetch_add(1) + 1 == run_->blocks) {
    if (races_) races_->next_phase(stream_of_work());
    run_->arrived_blocks.store(0);
    run_->generation.fetch_add(1);
  }
}

void* BlockRunner::cluster_shared_memory(void* own, unsigned rank, Where at) {
  const auto offset = static_cast<std::byte*>(own) - static_cast<std::byte*>(dynamic_shared_.data());
  if (offset < 0 || static_cast<std::size_t>(offset) >= run_->grid.shared_bytes)
    fault("the address to find in another block is not in this block's dynamic shared memory", at);
  if (rank >= run_->cluster_shared.size())
    fault(fmt::format("block {} of a cluster of {}", rank, run_->cluster_shared.size()), at);
  void* const there = run_->cluster_shared[rank].load();
  if (!there)
    fault(fmt::format("block {} of the cluster has not begun or has ended; a cluster_sync must keep it there",
                      rank),
          at);
  return static_cast<std::byte*>(there) + offset;
}

void BlockRunner::spin_turn(Where at) {
  spinners_.push_back(static_cast<std::uint16_t>(current_));
  wait_as(State::spin, at);
}

void BlockRunner::pause_turn(Where at) {
  dirty_ = true;
  spin_turn(at);
}

// Nobody in this block can run: all wait, or spin. Another block may wake them; if all blocks are like this
// one and nothing has changed since everybody looked, it is a deadlock.
void BlockRunner::idle() {
  GridRun::Idle& mine = run_->runners[self_];
  if (grid_waiting_ > 0 && grid_waiting_ == live_ && run_->generation.load() != grid_generation_) {
    grid_waiting_ = 0;
    release_all(State::grid);
    return;
  }
  if (spinners_.empty() && grid_waiting_ != live_) {
    run_->stop_with(Fault::deadlock, "");
    return;
  }
  if (dirty_) {
    run_->progress.fetch_add(1);
    futile_rounds_ = 0;
  } else if (run_->progress.load() == round_began_) {
    mine.idle_at.store(round_began_);
    if (run_->all_idle(round_began_)) {
      run_->stop_with(Fault::deadlock, "");
      return;
    }
    ++futile_rounds_;
  }
  if (futile_rounds_ > 64) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  } else if (futile_rounds_ > 0) {
    std::this_thread::yield();
  }
  dirty_ = false;
  round_began_ = run_->progress.load();
  for (const unsigned thread : spinners_) push_ready(thread);
  spinners_.clear();
}

// ---- the lens ---------------------------------------------------------------------------------------------

void BlockRunner::note(const volatile void* p, unsigned bytes, Event::Kind kind, const void* code) {
  last_code_ = code;
  if (run_->stop.load(std::memory_order_relaxed) != Fault::none) [[unlikely]]
    leave(code_address(code));
  const bool atomic = next_atomic_.first == p;
  next_atomic_.first = nullptr;
  if (races_) {
    look_for_race(p, bytes, kind == Event::Kind::load ? Access::load : Access::store,
                  atomic ? &next_atomic_.second : nullptr, code);
  }
  count(p, bytes, kind, code);
}

void BlockRunner::note_change(const volatile void* p, unsigned bytes, AtomicHow how, const void* code) {
  last_code_ = code;
  if (races_) look_for_race(p, bytes, Access::atomic, &how, code);
  const Event::Kind kind = how.way == AtomicWay::one            ? Event::Kind::atomic
                           : how.way == AtomicWay::compare_swap ? Event::Kind::compare_swap
                                                                : Event::Kind::swap_loop;
  count(p, bytes, kind, code);
}

void BlockRunner::note_fence(Scope scope) {
  if (races_) races_->fence(clocks_, current_, scope);
}

void BlockRunner::look_for_race(const volatile void* p, unsigned bytes, Access access, const AtomicHow* how,
                                const void* code) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  if (!stack_.holds(address))
    races_->access(clocks_, current_, address, bytes, access, how, code_address(code));
}

void BlockRunner::count(const volatile void* p, unsigned bytes, Event::Kind kind, const void* code) {
  if (!tracing_) return;
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  while (!tracer_->note(address, code, bytes, kind)) make_room();
}

// The running thread has done so much since its warp met that there is no room to note more. The others of
// the warp are let come as far; what they have in common is then put together.
void BlockRunner::make_room() {
  const unsigned warp = current_ / 32, first = warp * 32, last = std::min(first + 32, threads_in_block_);
  unsigned open = 0;
  bool others = false;
  for (unsigned t = first; t < last; ++t) {
    const State state = thread_[t].state;
    if (state != State::fresh && state != State::ready && state != State::running) continue;
    open |= 1u << (t - first);
    others |= !tracer_->full(t);
  }
  if (!others) {
    tracer_->put_together(warp, open);
    return;
  }
  const unsigned self = current_;
  thread_[self].state = State::ready;
  push_ready(self);
  // Those that have not started come first here: elsewhere they come after all that can go on.
  const int next = next_fresh_ < threads_in_block_ ? order_[next_fresh_++] : take_next();
  hand_over(*thread_[self].fiber, next);
}

// All lanes of the warp wait, or are gone; they go on from where they wait.
void BlockRunner::put_together(unsigned warp) {
  tracer_->put_together(warp, 0);
  for (unsigned t = warp * 32; t < std::min(warp * 32 + 32, threads_in_block_); ++t)
    tracer_->goes_on(t, code_address(thread_[t].code));
}

void BlockRunner::put_all_together() {
  for (unsigned w = 0; w * 32 < threads_in_block_; ++w) put_together(w);
}

void trace_atomic(const volatile void* p, unsigned bytes, AtomicHow how) {
  t_local.runner->note_change(p, bytes, how, __builtin_return_address(0));
  t_local.in_atomic = true;
}
void trace_next(const volatile void* p, AtomicHow how) { t_local.runner->next_is_atomic(p, how); }
void trace_fence(Scope scope) { t_local.runner->note_fence(scope); }
void trace_look(bool begins) { t_local.runner->note_look(begins); }

// ---- faults -----------------------------------------------------------------------------------------------

std::string BlockRunner::place(const std::string& line) const {
  return fmt::format("{}: block {} thread {} of the kernel launched at {}: ", line, coordinates(blockIdx),
                     coordinates(thread_[current_].index), file_line(run_->grid.where));
}
std::string BlockRunner::place(Where at) const { return place(file_line(at)); }

// The frames above are never left, so the message must be the caller's only string, and is freed here.
void BlockRunner::fault(std::string what, Where at) {
  run_->stop_with(Fault::device, place(at) + what);
  std::string().swap(what);
  hand_over(*fiber_, -1);
  std::terminate();  // a stopped thread is never continued
}

// The launch is stopped, and this thread would go on for ever.
void BlockRunner::leave(std::uint64_t code) {
  left_at_ = code;
  hand_over(*fiber_, -1);
  std::terminate();
}

void land_after_crash() { t_local.runner->end_after_crash(); }

void BlockRunner::end_after_crash() {
  t_local.tracing = false;  // as in stop_with
  // The fault is told at once: to find the line may take longer than the watchdog waits.
  Fault none = Fault::none;
  const bool first = !is_interrupt(crash_) && run_->stop.compare_exchange_strong(none, Fault::device);
  const std::uint64_t here = code_address(reinterpret_cast<const void*>(crash_.code)) + 1;
  // A function of the system has no line; then it is that of the last access, if there was one.
  const bool known = own_line(here).has_value() || last_code_ == nullptr;
  const std::uint64_t code = known ? here : code_address(last_code_);
  if (is_interrupt(crash_)) leave(code);
  const std::uint64_t guard = reinterpret_cast<std::uintptr_t>(fiber_->stack);
  std::string what = fmt::format("a crash: it touches address {:#x}, where it has no memory", crash_.address);
  if (crash_.signal == SIGFPE) what = "a crash: an integer is divided by zero";
  if (crash_.signal == SIGILL) what = "a crash: an instruction that this processor does not have";
  if (crash_.signal != SIGFPE && guard - crash_.address < 64 * 1024)
    what = "a crash: its stack is used up, as by a recursion without end";
  if (first) {
    const std::lock_guard lock(run_->report_mutex);
    run_->report.insert(0, place(line_of(code)) + what);
  }
  std::string().swap(what);
  leave(0);
}

std::string BlockRunner::waiters(State state, unsigned first, unsigned last) const {
  std::vector<unsigned> waiting;
  for (unsigned i = first; i < last; ++i)
    if (thread_[i].state == state) waiting.push_back(i);
  return fmt::format("{} {}", text_of(waiting), waiting.size() == 1 ? "waits" : "wait");
}

// One row for each group of threads that wait for the same at the same place.
void BlockRunner::append_table(std::string& text) const {
  std::vector<bool> told(threads_in_block_);
  for (unsigned i = 0; i < threads_in_block_; ++i) {
    if (told[i]) continue;
    const Thread& t = thread_[i];
    const bool placed = t.state != State::fresh && t.state != State::done && t.state != State::running;
    std::vector<unsigned> group;
    for (unsigned j = i; j < threads_in_block_; ++j) {
      const Thread& other = thread_[j];
      const bool same = other.state == t.state && (!placed || same_place(other.at, t.at)) &&
                        (t.state != State::warp || (other.mask == t.mask));
      if (!same) continue;
      group.push_back(j);
      told[j] = true;
    }
    text += fmt::format("\n  block {}: {}: {}", coordinates(blockIdx), text_of(group), name(t.state));
    if (t.state == State::warp) text += fmt::format(" with mask {:#010x}", t.mask);
    if (placed) text += " at " + file_line(t.at);
    if (t.state == State::running && left_at_ != 0) text += " at " + line_of(left_at_);
  }
}

// Drops all threads of the block where they stand, after telling where that is if it matters.
void BlockRunner::abandon() {
  if (tracing_) put_all_together();
  if (const Fault fault = run_->stop.load(); fault != Fault::device && fault != Fault::late) {
    const std::lock_guard lock(run_->report_mutex);
    append_table(run_->report);
  }
  for (Thread& t : thread_) {
    if (t.state != State::done && t.fiber) fibers_.drop(t.fiber);
    t.fiber = nullptr;
  }
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
      .meet(WarpOp::tiles, ~0u, to_value(mine), 0, at, __builtin_return_address(0));
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

void misaligned_access(const void* p, std::size_t alignment, Where at) {
  device_fault(fmt::format("a misaligned access: {} is no multiple of {} bytes", p, alignment), at);
}

}  // namespace stages::simt
