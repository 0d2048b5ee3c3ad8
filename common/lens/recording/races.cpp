#include "common/lens/recording/races.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "common/lens/recording/code.hpp"
#include "common/matrix/error.hpp"
#include "common/simt/numbers.hpp"
#include "common/simt/runtime.hpp"

namespace stages::simt {
namespace {

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

}  // namespace

// ---- launches and blocks ----------------------------------------------------------------------------------

std::size_t RaceDetector::most_cells() { return numbers().races_memory / sizeof(Cell); }

void RaceDetector::begin_launch(const Grid& grid, const void* stream, const StreamClock& before) {
  grid_ = &grid;
  begin(stream, before);
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

void RaceDetector::begin(const void* stream, const StreamClock& before) {
  stream_ = stream;
  before_ = before;
  next_phase();
  first_phase_ = phase_;
}

void RaceDetector::next_phase() {
  settle();
  ++phase_;
  stream_of_.resize(phase_ + 1);
  stream_of_[phase_] = stream_;
  carried_.clear();
}

void RaceDetector::copy(Span memory, Access access, const void* stream, const StreamClock& before) {
  begin(stream, before);
  const auto look = [&](const Epoch& e, std::uint64_t address) {
    if (e.phase == 0 || before_launch(e.phase) || (access == Access::load && e.access == Access::load))
      return;
    Race race{.first = {e.code, e.access, {e.block, 0, 0}, {e.thread, 0, 0}},
              .second = {.access = access},
              .missing = kBetweenStreams,
              .apart = 2,
              .times = 1};
    find_in(race, address, global_memory());
    report(std::move(race));
  };
  each_page(memory, [&](std::uint64_t number, const Page& page) {
    for (std::uint64_t i = 0; page.used && i < page.cells.size(); ++i) {
      const std::uint64_t address = number * kPageBytes + i * page.unit;
      if (!memory.holds(address)) continue;
      const Cell& cell = page.cells[i];
      look(cell.store, address);
      for (const Epoch& e : cell.atomic) look(e, address);
      for (const Epoch& e : cell.load) look(e, address);
    }
  });
  for (const auto& [other, epoch] : copied_)
    if (const std::uint64_t both = std::max(other.begin, memory.begin);
        other.holds(both) && memory.holds(both))
      look(epoch, both);
  // The same once more stands for the one before it.
  std::erase_if(copied_, [&](const Copied& c) {
    return c.first.begin == memory.begin && c.first.bytes <= memory.bytes && c.second.access == access &&
           before_launch(c.second.phase);
  });
  copied_.emplace_back(memory, Epoch{.phase = phase_, .access = access});
}

template <class Visit>
void RaceDetector::each_page(Span memory, Visit visit) {
  for (std::uint64_t n = memory.begin / kPageBytes; n * kPageBytes < memory.begin + memory.bytes; ++n)
    if (const auto found = pages_.find(n); found != pages_.end()) visit(n, *found->second);
}

void RaceDetector::forget(Span memory) {
  settle();
  const std::uint64_t end = memory.begin + memory.bytes;
  each_page(memory, [&](std::uint64_t number, Page& page) {
    if (!page.used) return;
    const std::uint64_t first = number * kPageBytes;
    page.used = first < memory.begin || first + kPageBytes > end;
    const std::uint64_t from = std::max(memory.begin, first) - first;
    const std::uint64_t to = std::min(end, first + kPageBytes) - first;
    std::fill(page.cells.begin() + static_cast<std::ptrdiff_t>(from / page.unit),
              page.cells.begin() + static_cast<std::ptrdiff_t>((to + page.unit - 1) / page.unit), Cell{});
  });
}

void RaceDetector::give_back(Span memory) {
  forget(memory);
  recent_.fill({});
  std::erase_if(copied_, [&](const Copied& c) { return memory.holds(c.first.begin); });
  each_page(memory, [&](std::uint64_t number, const Page& page) {
    if (page.used) return;
    cells_ -= page.cells.size();
    pages_.erase(number);
  });
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
  for (const Span& shared : block.shared)
    if (shared.bytes > 0) forget(shared);
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
  if (!pending_.empty() && (access != Access::store || pending_.back().race.second.code != code ||
                            pending_.back().by != std::pair<const Block*, unsigned>(&block, thread)))
    settle();
  Epoch now{.phase = phase_,
            .block = static_cast<std::uint32_t>(block.number),
            .clock = block.clock[thread],
            .code = static_cast<std::uint32_t>(code),
            .access = access};
  now.thread = thread & 0x7fffu;
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
  return known != nullptr && knows(*known, before);
}

bool RaceDetector::check(const Epoch& before, const Block& block, unsigned thread, const Epoch& now,
                         std::uint64_t address, unsigned bytes) {
  if (before.phase == 0) return true;
  const bool stale = now.size == kReadOnly && before.phase >= first_phase_;
  if (!stale && ordered(before, block, thread)) return true;
  const bool same_block = before.phase == phase_ && before.block == now.block;
  if (before.atomic != 0 && now.atomic != 0 && reach(before.atomic, now.atomic, same_block) &&
      same_size(before, now) && !(before.bare && now.bare))
    return true;
  const auto side = [&](const Epoch& e) -> RaceAccess {
    if (e.phase < first_phase_) return {e.code, e.access, {e.block, 0, 0}, {e.thread, 0, 0}};
    return {e.code, e.access, place_in(grid_->grid, e.block), place_in(grid_->block, e.thread)};
  };
  Race race{.first = side(before), .second = side(now), .times = 1};
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

}  // namespace stages::simt
