// What orders threads: what each knows of others, by barriers, meetings, fences and atomic operations.

#include <algorithm>

#include "common/lens/recording/races.hpp"

namespace stages::simt {
namespace {

// Whom a clock is of: a thread, a warp's floor or a block's.
constexpr std::uint64_t kOfABlock = 2048, kWarps = 1024, kFloor = 2047;
std::uint64_t clock_of(std::uint64_t block, std::uint64_t whom) { return block * kOfABlock + whom; }

/// Both, where one of them may be all that there is.
Known joined(const Known& a, const Known& b) {
  if (!a || a == b) return b;
  if (!b || a->holds(*b)) return a;
  if (b->holds(*a)) return b;
  auto both = std::make_shared<Knowledge>(*a);
  both->join(*b);
  return both;
}

}  // namespace

std::uint32_t Knowledge::of(std::uint64_t whom) const {
  const auto at = std::lower_bound(known_.begin(), known_.end(), std::pair{whom, std::uint32_t{0}});
  return at != known_.end() && at->first == whom ? at->second : 0;
}

void Knowledge::raise(std::uint64_t whom, std::uint32_t clock) {
  const auto at = std::lower_bound(known_.begin(), known_.end(), std::pair{whom, std::uint32_t{0}});
  if (at != known_.end() && at->first == whom) {
    at->second = std::max(at->second, clock);
  } else {
    known_.insert(at, {whom, clock});
  }
}

void Knowledge::join(const Knowledge& other) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> both;
  both.reserve(known_.size() + other.known_.size());
  std::merge(known_.begin(), known_.end(), other.known_.begin(), other.known_.end(),
             std::back_inserter(both));
  known_.clear();
  for (const auto& one : both) {  // of two clocks of one thread the larger comes last
    if (!known_.empty() && known_.back().first == one.first) known_.pop_back();
    known_.push_back(one);
  }
}

bool Knowledge::holds(const Knowledge& other) const {
  auto at = known_.begin();
  for (const auto& [whom, clock] : other.known_) {
    while (at != known_.end() && at->first < whom) ++at;
    if (at == known_.end() || at->first != whom || at->second < clock) return false;
  }
  return true;
}

void RaceDetector::join(Block::Far& into, const Block::Far& far) {
  into.known = joined(into.known, far.known);
  for (std::size_t s = 0; s < 2; ++s) {
    into.fenced[s] = joined(into.fenced[s], far.fenced[s]);
    into.heard[s] = joined(into.heard[s], far.heard[s]);
  }
  if (far.heard_from != ~std::uint64_t{0}) into.heard_from = far.heard_from;
}

void RaceDetector::barrier(Block& block) {
  settle();
  const std::uint32_t floor = *std::max_element(block.clock.begin(), block.clock.end()) + 1;
  block.floor = floor;
  std::fill(block.clock.begin(), block.clock.end(), floor);
  std::fill(block.warp_floor.begin(), block.warp_floor.end(), floor);
  std::fill(block.in_parts.begin(), block.in_parts.end(), std::uint8_t{0});
  if (!block.any_far) return;
  Block::Far all;
  for (const Block::Far& far : block.far) join(all, far);
  std::fill(block.far.begin(), block.far.end(), all);
}

void RaceDetector::meet(Block& block, unsigned warp, unsigned lanes, bool all) {
  settle();
  const unsigned first = warp * kLanes, end = std::min(first + kLanes, block.threads);
  if (all) {
    std::uint32_t floor = 0;
    for (unsigned t = first; t < end; ++t) floor = std::max(floor, block.clock[t] + 1);
    for (unsigned t = first; t < end; ++t) block.clock[t] = floor;
    block.warp_floor[warp] = floor;
    block.in_parts[warp] = 0;
  } else {
    if (block.in_parts[warp] == 0) {
      for (unsigned t = first; t < end; ++t) block.of_lane[t].fill(block.warp_floor[warp]);
      block.in_parts[warp] = 1;
    }
    std::array<std::uint32_t, kLanes> met{};
    each_lane(lanes, [&](unsigned lane) {
      const auto& own = block.of_lane[first + lane];
      for (unsigned i = 0; i < kLanes; ++i) met[i] = std::max(met[i], own[i]);
    });
    each_lane(lanes, [&](unsigned lane) { met[lane] = std::max(met[lane], ++block.clock[first + lane]); });
    each_lane(lanes, [&](unsigned lane) { block.of_lane[first + lane] = met; });
  }
  if (!block.any_far) return;
  Block::Far sum;
  each_lane(lanes, [&](unsigned lane) { join(sum, block.far[first + lane]); });
  each_lane(lanes, [&](unsigned lane) { block.far[first + lane] = sum; });
}

/// All that the thread knows, itself included, for others to learn.
std::shared_ptr<Knowledge> RaceDetector::own(const Block& block, unsigned thread) const {
  const Known& known = block.far[thread].known;
  auto all = known ? std::make_shared<Knowledge>(*known) : std::make_shared<Knowledge>();
  const unsigned warp = thread / kLanes;
  all->raise(clock_of(block.number, kFloor), block.floor);
  all->raise(clock_of(block.number, kWarps + warp), block.warp_floor[warp]);
  all->raise(clock_of(block.number, thread), block.clock[thread] + 1);
  if (block.in_parts[warp] != 0) {
    for (unsigned i = 0; i < kLanes && warp * kLanes + i < block.threads; ++i)
      all->raise(clock_of(block.number, warp * kLanes + i), block.of_lane[thread][i]);
  }
  return all;
}

void RaceDetector::fence(Block& block, unsigned thread, Scope scope) {
  settle();
  if (scope == Scope::thread) return;
  block.fenced_at[thread] = block.clock[thread];
  block.near[thread].fenced = true;
  block.near[thread].published = false;
  Block::Far& far = block.far[thread];
  block.any_far = true;
  far.known = joined(far.known, far.heard[0]);
  if (scope == Scope::device) far.known = joined(far.known, far.heard[1]);
  far.fenced[0] = own(block, thread);
  if (scope == Scope::device) far.fenced[1] = far.fenced[0];
  ++block.clock[thread];
}

void RaceDetector::note_atomic(Block& block, unsigned thread, std::uint64_t address, Access access,
                               AtomicHow how) {
  Block::Far& far = block.far[thread];
  const auto found = carried_.find(address);
  Carried* carried = found == carried_.end() ? nullptr : &found->second;
  const bool reaches_device = how.scope == Scope::device;
  if (how.acquires) block.fenced_at[thread] = block.clock[thread];
  if (access != Access::store && carried != nullptr) {  // reads
    block.any_far = true;
    if (carried->writer != block.number) far.heard_from = carried->writer;
    const auto hear = [&](std::size_t s) {
      Known& into = how.acquires ? far.known : far.heard[s];
      into = joined(into, carried->by[s]);
    };
    if (carried->block == block.number && how.scope != Scope::thread) hear(0);
    if (reaches_device) hear(1);
  }
  if (access == Access::load) return;
  if (how.releases && how.scope != Scope::thread) {
    block.any_far = true;
    far.fenced[0] = own(block, thread);
    if (reaches_device) far.fenced[1] = far.fenced[0];
    ++block.clock[thread];
  }
  if (carried == nullptr) carried = &carried_[address];
  carried->writer = block.number;
  if (access == Access::store) carried->by = {};
  if (carried->block != block.number) carried->by[0] = nullptr;
  carried->block = block.number;
  if (how.scope != Scope::thread) carried->by[0] = joined(carried->by[0], far.fenced[0]);
  if (reaches_device) {
    carried->by[1] = joined(carried->by[1], far.fenced[1]);
    carried->by[0] = joined(carried->by[0], carried->by[1]);
  }
}

bool RaceDetector::knows(const Knowledge& known, const Epoch& before) {
  return before.clock < known.of(clock_of(before.block, before.thread)) ||
         before.clock < known.of(clock_of(before.block, kFloor)) ||
         before.clock < known.of(clock_of(before.block, kWarps + before.thread / kLanes));
}

}  // namespace stages::simt
