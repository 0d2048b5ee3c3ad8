#include "common/simt/lens/races.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <tuple>

#include "common/matrix/error.hpp"
#include "common/simt/lens/code.hpp"
#include "common/simt/lens/counting.hpp"
#include "common/simt/lens/crash.hpp"
#include "common/simt/numbers.hpp"

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

constexpr const char* kBetweenStreams =
    "an event or a synchronisation between the two streams, or one stream for both";
constexpr const char* kAtomic = "an atomic operation, or another place for one of them";
constexpr const char* kOfWarp = "a __syncwarp() of both lanes";
constexpr const char* kOfBlock = "a __syncthreads()";

/// Puts the place of an address into the race, if it is in one of the arrays.
template <class Arrays>
bool find_in(Race& race, std::uint64_t address, const Arrays& arrays) {
  race.offset = address;
  for (const Span& array : arrays) {
    if (!array.holds(address)) continue;
    race.offset = address - array.begin;
    race.bytes = array.bytes;
    return true;
  }
  return false;
}

uint3 coordinates(std::uint64_t number, dim3 of) {
  return {static_cast<unsigned>(number % of.x), static_cast<unsigned>(number / of.x % of.y),
          static_cast<unsigned>(number / of.x / of.y)};
}

}  // namespace

// ---- knowledge --------------------------------------------------------------------------------------------

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

// ---- launches and blocks ----------------------------------------------------------------------------------

std::size_t RaceDetector::most_cells() { return numbers().races_memory / sizeof(Cell); }

void RaceDetector::begin_launch(const Grid& grid, const void* stream, const StreamClock& before) {
  grid_ = &grid;
  stream_ = stream;
  before_ = before;
  next_phase(stream);
  first_phase_ = phase_;
  open_.clear();
  for (const Copied& c : copied_)
    if (!before_launch(c.second.phase)) open_.push_back(c);
  // Where the room gets short: what came before all that is to come is of no use any more.
  if (cells_ < most_cells() / 2) return;
  for (std::uint32_t phase = 1; phase < phase_; ++phase)
    if (!before_launch(phase)) return;
  pages_.clear();
  cells_ = 0;
  recent_.fill({});
}

void RaceDetector::next_phase(const void* stream) {
  settle();
  ++phase_;
  stream_of_.resize(phase_ + 1);
  stream_of_[phase_] = stream;
  carried_.clear();
}

void RaceDetector::copy(Span memory, Access access, const void* stream, const StreamClock& before) {
  stream_ = stream;
  before_ = before;
  next_phase(stream);
  first_phase_ = phase_;
  const auto look = [&](const Epoch& e, std::uint64_t address) {
    if (e.phase == 0 || before_launch(e.phase) || (access == Access::load && e.access == Access::load))
      return;
    Race race;
    race.first = {e.code, e.access, {e.block, 0, 0}, {e.thread, 0, 0}};
    race.second.access = access;
    race.missing = kBetweenStreams;
    race.apart = 2;
    race.times = 1;
    find_in(race, address, global_memory());
    report(std::move(race));
  };
  for (std::uint64_t number = memory.begin / kPageBytes; number * kPageBytes < memory.begin + memory.bytes;
       ++number) {
    const auto found = pages_.find(number);
    if (found == pages_.end() || !found->second->used) continue;
    for (std::uint64_t i = 0; i < found->second->cells.size(); ++i) {
      const std::uint64_t address = number * kPageBytes + i * found->second->unit;
      if (!memory.holds(address)) continue;
      const Cell& cell = found->second->cells[i];
      look(cell.store, address);
      for (const Epoch& e : cell.atomic) look(e, address);
      for (const Epoch& e : cell.load) look(e, address);
    }
  }
  for (const auto& [other, epoch] : copied_)
    if (const std::uint64_t both = std::max(other.begin, memory.begin);
        other.holds(both) && memory.holds(both))
      look(epoch, both);
  // The same once more stands for the one before it.
  std::erase_if(copied_, [&](const Copied& c) {
    return c.first.begin == memory.begin && c.first.bytes <= memory.bytes && c.second.access == access &&
           before_launch(c.second.phase);
  });
  Epoch now;
  now.phase = phase_;
  now.access = access;
  copied_.emplace_back(memory, now);
}

void RaceDetector::forget(std::uint64_t begin, std::uint64_t bytes) {
  settle();
  for (std::uint64_t number = begin / kPageBytes; number * kPageBytes < begin + bytes; ++number) {
    const auto found = pages_.find(number);
    if (found == pages_.end() || !found->second->used) continue;
    Page& page = *found->second;
    const std::uint64_t first = number * kPageBytes;
    page.used = first < begin || first + kPageBytes > begin + bytes;
    const std::uint64_t from = std::max(begin, first) - first;
    const std::uint64_t to = std::min(begin + bytes, first + kPageBytes) - first;
    std::fill(page.cells.begin() + static_cast<std::ptrdiff_t>(from / page.unit),
              page.cells.begin() + static_cast<std::ptrdiff_t>((to + page.unit - 1) / page.unit), Cell{});
  }
}

void RaceDetector::give_back(std::uint64_t begin, std::uint64_t bytes) {
  forget(begin, bytes);
  recent_.fill({});
  std::erase_if(copied_, [&](const Copied& c) { return c.first.begin - begin < bytes; });
  for (std::uint64_t number = begin / kPageBytes; number * kPageBytes < begin + bytes; ++number) {
    const auto found = pages_.find(number);
    if (found == pages_.end() || found->second->used) continue;
    cells_ -= found->second->cells.size();
    pages_.erase(found);
  }
}

void RaceDetector::begin_block(Block& block, std::uint64_t number, unsigned threads) {
  block.number = number;
  block.threads = threads;
  block.floor = 1;
  block.clock.assign(threads, 1);
  block.warp_floor.assign((threads + kLanes - 1) / kLanes, 1);
  block.in_parts.assign(block.warp_floor.size(), 0);
  block.of_lane.resize(threads);
  block.fenced_at.assign(threads, 0);
  block.near.assign(threads, {});
  block.far.assign(threads, {});
  block.any_far = false;
  for (const auto& [begin, bytes] : block.shared)
    if (bytes > 0) forget(begin, bytes);
}

// ---- what orders threads ----------------------------------------------------------------------------------

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

bool RaceDetector::before_launch(std::uint32_t phase) const {
  const void* const stream = stream_of_[phase];
  if (stream == stream_) return true;
  const auto known = before_.find(stream);
  return known != before_.end() && known->second >= phase;
}

bool RaceDetector::ordered(const Epoch& before, const Block& block, unsigned thread) const {
  if (before.phase != phase_) return before.phase >= first_phase_ || before_launch(before.phase);
  if (before.block == block.number) {
    if (before.thread == thread) return true;
    // A barrier says nothing of what a thread stored that ended before it.
    const std::uint32_t left_at = block.near[before.thread].left_at;
    if (left_at != 0 && before.clock >= left_at && before.access != Access::load) return false;
    if (before.clock < block.floor) return true;
    const unsigned warp = thread / kLanes;
    if (before.thread / kLanes == warp) {
      if (before.clock < block.warp_floor[warp]) return true;
      if (block.in_parts[warp] != 0 && before.clock < block.of_lane[thread][before.thread % kLanes])
        return true;
    }
  }
  const Known& known = block.far[thread].known;
  if (!known) return false;
  return before.clock < known->of(clock_of(before.block, before.thread)) ||
         before.clock < known->of(clock_of(before.block, kFloor)) ||
         before.clock < known->of(clock_of(before.block, kWarps + before.thread / kLanes));
}

// ---- accesses ---------------------------------------------------------------------------------------------

RaceDetector::Page* RaceDetector::page_of(std::uint64_t address, std::uint64_t code) {
  const std::uint64_t number = address / kPageBytes;
  RecentPage& recent = recent_[number % recent_.size()];
  if (number == recent.number) return recent.page;
  std::unique_ptr<Page>& page = pages_[number];
  if (!page) {
    if (cells_ + kPageBytes / 4 > most_cells()) {
      pages_.erase(number);
      if (shortage_.empty()) {
        shortage_ = fmt::format(
            "{}: the room for what threads did to memory is used up here, so races may be missed from here "
            "on: take a smaller matrix, or set STAGES_RACES_MEMORY (MiB)",
            line_of(code));
      }
      return nullptr;
    }
    cells_ += kPageBytes / 4;
    page = std::make_unique<Page>();
  }
  recent = {number, page.get()};
  return recent.page;
}

void RaceDetector::access(Block& block, unsigned thread, std::uint64_t address, unsigned bytes, Access access,
                          const AtomicHow* how, std::uint64_t code) {
  if (block.own.holds(address)) return;
  if (!pending_.empty() && (access != Access::store || pending_.back().race.second.code != code ||
                            pending_.back().by != std::pair<const Block*, unsigned>(&block, thread)))
    settle();
  Epoch now;
  now.phase = phase_;
  now.block = static_cast<std::uint32_t>(block.number);
  now.clock = block.clock[thread];
  now.code = static_cast<std::uint32_t>(code);
  now.thread = thread & 0x7fffu;
  now.access = access;
  Block::Near& near = block.near[thread];
  if (how != nullptr && how->read_only) {
    now.size = kReadOnly;
    how = nullptr;
  }
  if (how != nullptr) {
    now.atomic = static_cast<std::uint8_t>(1 + static_cast<int>(how->scope)) & 0xfu;
    now.size = how->vector ? kAnySize : static_cast<std::uint8_t>(std::countr_zero(bytes)) & 7u;
    const bool shared = block.shared[0].holds(address) || block.shared[1].holds(address);
    now.bare = how->is_volatile && shared && !(access == Access::load ? near.looks : near.fenced);
  }
  if (access == Access::store) {
    near.fenced = near.fenced && how != nullptr;
    near.published = near.fenced;
  } else if (near.published) {
    near.fenced = near.published = false;
  }
  for (const auto& [memory, epoch] : open_)
    if (memory.holds(address) && (access != Access::load || epoch.access != Access::load))
      check(epoch, block, thread, now, address, bytes);
  for (std::uint64_t at = address, end = address + bytes; at < end;) {
    Page* const page = page_of(at, code);
    const std::uint64_t page_end = std::min(end, (at / kPageBytes + 1) * kPageBytes);
    if (page == nullptr) return;
    page->used = true;
    if (page->unit == 4 && (at % 4 != 0 || page_end % 4 != 0)) {  // from here on byte by byte
      std::vector<Cell> cells(kPageBytes);
      for (std::size_t i = 0; i < kPageBytes; ++i) cells[i] = page->cells[i / 4];
      cells_ += kPageBytes - kPageBytes / 4;
      page->cells = std::move(cells);
      page->unit = 1;
    }
    for (; at < page_end; at += page->unit)
      visit(page->cells[at % kPageBytes / page->unit], block, thread, now, address, bytes);
  }
  if (how != nullptr) note_atomic(block, thread, address, access, *how);
}

/// Whether two atomic operations see each other as such.
static bool reach(std::uint8_t a, std::uint8_t b, bool same_block) {
  const auto least = static_cast<Scope>(std::min(a, b) - 1);
  return least == Scope::device || (same_block && least == Scope::block);
}

/// Two atomic operations that touch a word in part only are none to each other.
template <class Epoch>
static bool same_size(const Epoch& a, const Epoch& b, unsigned any) {
  return a.size == b.size || a.size == any || b.size == any;
}

bool RaceDetector::check(const Epoch& before, const Block& block, unsigned thread, const Epoch& now,
                         std::uint64_t address, unsigned bytes) {
  if (before.phase == 0) return true;
  const bool stale = now.size == kReadOnly && before.phase >= first_phase_;
  if (!stale && ordered(before, block, thread)) return true;
  const bool same_block = before.phase == phase_ && before.block == now.block;
  if (before.atomic != 0 && now.atomic != 0 && reach(before.atomic, now.atomic, same_block) &&
      same_size(before, now, kAnySize) && !(before.bare && now.bare))
    return true;
  Race race;
  const auto side = [&](const Epoch& e) -> RaceAccess {
    if (e.phase < first_phase_) return {e.code, e.access, {e.block, 0, 0}, {e.thread, 0, 0}};
    return {e.code, e.access, coordinates(e.block, grid_->grid), coordinates(e.thread, grid_->block)};
  };
  race.first = side(before);
  race.second = side(now);
  race.launched = grid_->where;
  race.times = 1;
  race.shared = find_in(race, address, block.shared);
  race.apart = !same_block ? 2 : before.thread / kLanes != now.thread / kLanes ? 1 : 0;
  const auto key = std::tuple(race.first.code, race.second.code, race.shared);
  if (const auto known = races_.find(key); known != races_.end() && known->second.apart >= race.apart) {
    ++known->second.times;
    return false;
  }
  if (!race.shared) find_in(race, address, global_memory());
  race.missing = missing(before, block, thread, now, race.apart);
  // Two stores of the same value are harmless: whether this one is, shows once it is done.
  if (before.access == Access::store && now.access == Access::store &&
      bytes <= sizeof(PendingStore::before)) {
    pending_.push_back({std::move(race), {}, address, bytes, {&block, thread}});
    std::memcpy(pending_.back().before.data(), reinterpret_cast<const void*>(address), bytes);
  } else {
    report(std::move(race));
  }
  return false;
}

void RaceDetector::settle() {
  for (PendingStore& p : pending_)
    if (std::memcmp(p.before.data(), reinterpret_cast<const void*>(p.address), p.bytes) != 0)
      report(std::move(p.race));
  pending_.clear();
}

void RaceDetector::report(Race race) {
  constexpr std::size_t kMost = 100;
  const auto key = std::tuple(race.first.code, race.second.code, race.shared);
  const auto known = races_.find(key);
  if (known != races_.end()) {  // two that are farther apart tell more
    race.times += known->second.times;
    if (race.apart > known->second.apart) known->second = std::move(race);
    known->second.times = race.times;
  } else if (races_.size() < kMost) {
    races_.emplace(key, std::move(race));
  }
}

void RaceDetector::visit(Cell& cell, const Block& block, unsigned thread, const Epoch& now,
                         std::uint64_t address, unsigned bytes) {
  const auto mine = [&](const Epoch& e) {
    return e.thread == now.thread && e.block == now.block && e.phase == now.phase;
  };
  const auto fine = [&](const Epoch& e) {
    return e.phase == 0 || (mine(e) && now.size != kReadOnly) || check(e, block, thread, now, address, bytes);
  };
  bool good = fine(cell.store) && fine(cell.atomic[0]);
  // An atomic operation that reads what another one wrote comes after it, and so does what follows a fence
  // after it (PTX: observation, then causality). Without a fence it might be luck that this one was the last.
  const Epoch &last = cell.atomic[0], &before = cell.atomic[1];
  const bool observed = last.access == Access::atomic && before.phase != 0 && last.phase == before.phase &&
                        last.phase == now.phase && last.block == now.block &&
                        last.clock <= std::max(block.fenced_at[last.thread], block.fenced_at[thread]) &&
                        reach(last.atomic, before.atomic, last.block == before.block) &&
                        (mine(last) || ordered(last, block, thread));
  good = good && (observed || fine(before));
  if (now.access == Access::load) {
    // The loads of a thread replace each other; else those that this one comes after; else one of a thread
    // near it, so that what is kept tells of threads far from each other.
    Epoch* place = nullptr;
    const auto look_for = [&](auto fits) {
      for (std::size_t i = cell.load.size(); place == nullptr && i-- > 0;)
        if (fits(cell.load[i])) place = &cell.load[i];
    };
    look_for([&](const Epoch& e) {
      return e.phase != 0 && mine(e) && (e.atomic != 0 || now.atomic == 0) && e.bare <= now.bare;
    });
    look_for([&](const Epoch& e) {
      return e.phase == 0 || (e.atomic >= now.atomic && ordered(e, block, thread));
    });
    look_for(
        [&](const Epoch& e) { return e.block == now.block && e.thread / kLanes == now.thread / kLanes; });
    look_for([&](const Epoch& e) { return e.block == now.block; });
    *(place != nullptr ? place : &cell.load[now.code % cell.load.size()]) = now;
    return;
  }
  for (const Epoch& e : cell.load) good = good && fine(e);
  if (now.atomic == 0) {
    Epoch change = now;
    for (const Epoch& e : cell.load) {
      if (e.atomic != 0 || !mine(e)) continue;
      change.changes = 1;
      const Epoch& other = cell.store;  // one of these, by another thread?
      if (other.changes != 0 && other.code == now.code && other.phase == now.phase && !mine(other) &&
          !ordered(other, block, thread))
        changes_.emplace(now.code, e.code);
    }
    cell.store = change;
    cell.atomic = {};
    cell.load = {};
    return;
  }
  if (cell.atomic[0].phase != 0 && !mine(cell.atomic[0])) cell.atomic[1] = cell.atomic[0];
  cell.atomic[0] = now;
}

std::string RaceDetector::missing(const Epoch& before, const Block& block, unsigned thread, const Epoch& now,
                                  unsigned apart) const {
  if (before.phase < first_phase_) return kBetweenStreams;
  if (now.size == kReadOnly)
    return "a plain load: __ldg may give what stood there before this kernel, whatever lies between them";
  const bool same_block = apart < 2;
  if (before.atomic != 0 && now.atomic != 0 && !(before.bare && now.bare)) {
    return same_size(before, now, kAnySize) ? "a scope of both atomics that reaches the other block"
                                            : "atomics of one size: these touch a part of a word";
  }
  if ((before.atomic != 0) != (now.atomic != 0))
    return same_block ? "an atomic access on both sides, or a barrier (__syncthreads) between them"
                      : "an atomic access on both sides, or a fence and a flag between them";
  if (!same_block) {
    if (block.far[thread].heard_from == before.block)
      return "a __threadfence() before the flag is written and one after it is read, or release and acquire, "
             "of device scope";
    return before.access == Access::load || now.access == Access::load
               ? "a grid barrier, a flag with fences, or a kernel of its own for the later access"
               : kAtomic;
  }
  return apart == 0 ? kOfWarp : kOfBlock;
}

std::vector<Race> RaceDetector::take() {
  settle();
  std::vector<Race> all;
  std::vector<std::uint64_t> codes;
  for (auto& [key, race] : races_) {
    // Of a sum without an atomic the first race is a load, and only the store behind it tells.
    for (const auto& [store, load] : changes_) {
      const auto of_change = [&](const RaceAccess& a) { return a.code == store || a.code == load; };
      if (of_change(race.first) && of_change(race.second) && race.missing != kBetweenStreams)
        race.missing = kAtomic;
    }
    codes.insert(codes.end(), {race.first.code, race.second.code});
    all.push_back(std::move(race));
  }
  // All pairs of two lines need what those need that are the farthest apart.
  const std::vector<std::string> lines = all.size() > 1 ? lines_of_own(codes) : std::vector<std::string>{};
  for (std::size_t i = 0; i < lines.size() / 2; ++i) {
    for (std::size_t k = 0; k < lines.size() / 2; ++k) {
      const bool same =
          std::minmax(lines[2 * i], lines[2 * i + 1]) == std::minmax(lines[2 * k], lines[2 * k + 1]);
      if (same && all[k].apart > all[i].apart && (all[i].missing == kOfWarp || all[i].missing == kOfBlock) &&
          all[k].missing != kBetweenStreams)
        all[i].missing = all[k].missing;
    }
  }
  races_.clear();
  changes_.clear();
  return all;
}

std::string kind_of(const Race& race) {
  const auto name = [](Access access) {
    return access == Access::load ? "read" : access == Access::store ? "write" : "atomic";
  };
  return fmt::format("{}-after-{}", name(race.second.access), name(race.first.access));
}

// ---- streams ----------------------------------------------------------------------------------------------

namespace {

struct Looking {
  std::unique_ptr<RaceDetector> detector;
  bool collected = false;
  std::vector<Race> races;
  std::string shortage;
  StreamClock host;
  std::map<const void*, StreamClock> stream, event;
  const void* working = nullptr;
};

/// STAGES_RACES=1: every launch of this process is looked at, and a race is a fault.
Looking& looking() {
  // Never destroyed: a program may hold streams in statics that end after this one would.
  static Looking* const instance = new Looking([] {
    Looking l;
    const char* const text = std::getenv("STAGES_RACES");
    if (text == nullptr || *text == '\0' || std::string_view(text) == "0") return l;
    if (std::string_view(text) != "1") fail("STAGES_RACES is '{}'; it must be 1 or 0", text);
    if (!has_hooks())
      fail("STAGES_RACES is set, and this build has no lens: it needs g++, and no sanitizers");
    l.detector = std::make_unique<RaceDetector>();
    return l;
  }());
  return *instance;
}

void join(StreamClock& into, const StreamClock& other) {
  for (const auto& [stream, phase] : other) {
    std::uint32_t& known = into[stream];
    known = std::max(known, phase);
  }
}

}  // namespace

RaceDetector* races() { return looking().detector.get(); }

void order_stream_after_host(const void* stream) {
  if (races()) join(looking().stream[stream], looking().host);
}
void order_stream_after_stream(const void* stream, const void* other) {
  if (races()) join(looking().stream[stream], looking().stream[other]);
}
void order_host_after_stream(const void* stream) {
  if (races()) join(looking().host, looking().stream[stream]);
}
void order_host_after_all() {
  if (!races()) return;
  for (const auto& [stream, clock] : looking().stream) join(looking().host, clock);
}
void order_event_after_stream(const void* event, const void* stream) {
  if (races()) looking().event[event] = looking().stream[stream];
}
void order_stream_after_event(const void* stream, const void* event) {
  if (races()) join(looking().stream[stream], looking().event[event]);
}
void order_host_after_event(const void* event) {
  if (races()) join(looking().host, looking().event[event]);
}
bool forget_stream(const void* stream) {
  if (!races()) return true;
  // Another stream may get the same handle. That comes after this one's work only if the host does.
  const auto clock = looking().stream.find(stream);
  if (clock == looking().stream.end()) return true;
  if (const auto last = clock->second.find(stream);
      last != clock->second.end() && looking().host[stream] < last->second)
    return false;
  looking().stream.erase(clock);
  return true;
}
void forget_event(const void* event) {
  if (races()) looking().event.erase(event);
}
void forget_memory(const void* begin, std::size_t bytes) {
  if (races()) races()->give_back(reinterpret_cast<std::uintptr_t>(begin), bytes);
}
void begin_work(const void* stream) { looking().working = stream; }
const void* stream_of_work() { return looking().working; }

// ---- the whole --------------------------------------------------------------------------------------------

void begin_races(bool collected) {
  Looking& l = looking();
  l = Looking{};
  l.detector = std::make_unique<RaceDetector>();
  l.collected = collected;
  catch_crashes(collected);
}

RaceFindings end_races() {
  Looking& l = looking();
  catch_crashes(false);
  RaceFindings found;
  if (!l.detector) return found;
  found.races = l.detector->take();
  found.shortage = l.detector->shortage();
  for (const auto& [stream, clock] : l.stream) {
    const auto last = clock.find(stream);
    const auto heard = std::as_const(l.host).find(stream);
    if (last != clock.end() && (heard == l.host.end() || heard->second < last->second)) found.awaited = false;
  }
  l = Looking{};
  return found;
}

std::string races_of_launch() {
  Looking& l = looking();
  if (!l.detector) return "";
  l.detector->settle();
  l.stream[l.working][l.working] = l.detector->phase();
  if (l.collected) return "";
  if (!l.detector->shortage().empty()) return l.detector->shortage();
  const std::vector<Race> found = l.detector->take();
  if (found.empty()) return "";
  return text_of(found.front()) +
         (found.size() > 1 ? fmt::format(" ({} more pairs of lines)", found.size() - 1) : "");
}

void note_copy(const void* to, const void* from, std::size_t bytes) {
  Looking& l = looking();
  if (!l.detector) return;
  for (const auto& [side, access] : {std::pair{from, Access::load}, std::pair{to, Access::store}})
    if (side != nullptr)
      l.detector->copy({reinterpret_cast<std::uintptr_t>(side), bytes}, access, l.working,
                       l.stream[l.working]);
}

void begin_launch_races(const Grid& grid) {
  Looking& l = looking();
  l.detector->begin_launch(grid, l.working, l.stream[l.working]);
}

const char* verb_of(Access access) {
  return access == Access::load ? "reads" : access == Access::store ? "writes" : "changes atomically";
}

std::string place_of(const Race& race) {
  return fmt::format("byte {} of {}", race.offset,
                     race.shared      ? std::string("shared memory")
                     : race.bytes > 0 ? fmt::format("a global array of {} bytes", race.bytes)
                                      : std::string("global memory"));
}

std::string text_of(const Race& race) {
  const auto side = [](const RaceAccess& a) {
    if (a.code == 0) return fmt::format("a copy or cudaMemset on a stream {}", verb_of(a.access));
    return fmt::format("block ({},{},{}) thread ({},{},{}) {} at {}", a.block.x, a.block.y, a.block.z,
                       a.thread.x, a.thread.y, a.thread.z, verb_of(a.access), line_of(a.code));
  };
  return fmt::format("a race: {} hazard at {}: {}, and {}; missing: {}", kind_of(race), place_of(race),
                     side(race.first), side(race.second), race.missing);
}

}  // namespace stages::simt
