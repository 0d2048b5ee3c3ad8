// Where the threads of a block wait for each other: its barriers, and the meetings of a warp.

#include <algorithm>
#include <bit>

#include "common/simt/block_runner.hpp"

namespace stages::simt {

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

}  // namespace stages::simt
