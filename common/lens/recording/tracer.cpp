#include "common/lens/recording/tracer.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <tuple>
#include <utility>

namespace stages::simt {
namespace {

Access as_counted(Access access) { return access <= Access::atomic ? access : Access::atomic; }

/// In which order sites and barriers stand, and what tells them apart.
auto key_of(const SiteCounts& s) { return std::tuple(s.code, s.space, s.access, s.array); }
auto key_of(const BarrierCounts& b) {
  return std::tuple(b.where.file_name(), b.where.line(), b.where.column());
}

/// Adds the counts to those of the same key.
template <class Counts>
void add(std::vector<Counts>& sorted, const Counts& counts) {
  const auto key = [](const Counts& c) { return key_of(c); };
  const auto at = std::ranges::lower_bound(sorted, key(counts), {}, key);
  if (at != sorted.end() && key(*at) == key(counts)) {
    at->add(counts);
  } else {
    sorted.insert(at, counts);
  }
}

}  // namespace

void SiteCounts::add(const SiteCounts& other) {
  code = other.code;
  access = other.access;
  space = other.space;
  array = other.array;
  bytes = std::max(bytes, other.bytes);
  requests += other.requests;
  lanes += other.lanes;
  cost += other.cost;
  least += other.least;
  wanted_bytes += other.wanted_bytes;
  meeting_lanes += other.meeting_lanes;
  if (other.worst_cost > worst_cost) {
    worst_cost = other.worst_cost;
    worst = other.worst;
  }
}

void Tracer::begin_launch(LaunchCounts& launch, unsigned threads) {
  launch_ = &launch;
  program_begin_ = program_begin();
  const std::size_t warps = (threads + kLanes - 1) / kLanes;
  if (warps > warps_) {
    events_ = std::make_unique_for_overwrite<Event[]>(warps * kLanes * kStride);
    warps_ = warps;
  }
  room_.assign(warps, nullptr);
  count_.assign(threads, 0);
  code_.assign(threads, 0);
  read_.resize(launch.arrays.size());
  last_array_ = 0;
  of_block_.assign(warps, 0);
  requests_ = {};
}

void Tracer::end_block() {
  std::uint64_t sum = 0;
  for (std::uint64_t& of_warp : of_block_) {
    requests_.of_warp = std::max(requests_.of_warp, of_warp);
    sum += std::exchange(of_warp, 0);
  }
  requests_.all += sum;
  requests_.of_block = std::max(requests_.of_block, sum);
}

void Tracer::begin_block(Span dynamic, Span fixed) {
  end_block();
  dynamic_ = dynamic;
  fixed_ = fixed;
  std::fill(count_.begin(), count_.end(), 0);
  std::fill(room_.begin(), room_.end(), nullptr);
  free_.clear();
  for (std::size_t warp = 0; warp < room_.size(); ++warp) free_.push_back(&events_[warp * kLanes * kStride]);
  std::fill(code_.begin(), code_.end(), 0);
  meetings_ = 0;
}

void Tracer::enter(unsigned thread) {
  current_ = thread;
  events_of_current_ = nullptr;
}

bool Tracer::others_left(unsigned warp, unsigned lanes) const {
  for (unsigned t = warp * kLanes; t < std::min<std::size_t>(warp * kLanes + kLanes, count_.size()); ++t)
    if ((lanes >> (t % kLanes) & 1) == 0 && count_[t] > 0) return true;
  return false;
}

void Tracer::meet(unsigned warp, unsigned lanes, std::uint64_t code) {
  const unsigned first = warp * kLanes;
  bool room = true;
  each_lane(lanes, [&](unsigned lane) { room &= !full(first + lane); });
  if (!room) return;  // they then come together where their code does
  ++meetings_;
  each_lane(lanes, [&](unsigned lane) {
    const unsigned thread = first + lane;
    event(thread, count_[thread]++) = Event::meeting(meetings_, lanes, static_cast<std::uint32_t>(code));
  });
}

void Tracer::barrier(Where where) { add(barriers_, BarrierCounts{where, 1}); }

void Tracer::put_together(unsigned warp, unsigned open) {
  std::array<LaneEvents, kLanes> lanes;
  const unsigned first = warp * kLanes;
  const unsigned end = std::min(first + kLanes, static_cast<unsigned>(count_.size()));
  warp_ = warp;
  for (unsigned t = first; t < end; ++t)
    lanes[t - first] = {&event(t, 0), &event(t, 0) + count_[t], code_[t], (open >> (t - first) & 1) != 0};
  reconverge(lanes);
  bool left = false;
  for (unsigned t = first; t < end; ++t) {
    const LaneEvents& lane = lanes[t - first];
    std::copy(lane.next, lane.end, &event(t, 0));
    count_[t] = static_cast<std::uint32_t>(lane.end - lane.next);
    left |= count_[t] > 0;
    code_[t] = lane.code;
  }
  events_of_current_ = nullptr;
  if (!left) free_.push_back(std::exchange(room_[warp], nullptr));
}

std::size_t Tracer::find_array(std::uint64_t address) {
  const std::vector<Span>& arrays = launch_->arrays;
  const auto after = std::upper_bound(arrays.begin(), arrays.end(), address,
                                      [](std::uint64_t a, const Span& span) { return a < span.begin; });
  if (after == arrays.begin() || !std::prev(after)->holds(address)) return arrays.size();
  return last_array_ = static_cast<std::size_t>(std::prev(after) - arrays.begin());
}

void Tracer::take(const Request& request) {
  std::uint64_t lowest = ~std::uint64_t{0}, highest = 0;
  each_lane(request.lanes, [&](unsigned lane) {
    lowest = std::min(lowest, request.address[lane]);
    highest = std::max(highest, request.address[lane]);
  });
  const auto all_in = [&](const Span& span) { return span.holds(lowest) && span.holds(highest); };
  if (all_in(dynamic_) || all_in(fixed_)) {
    count(request, Space::shared, 0);
    return;
  }
  const std::size_t array = array_of(lowest);
  if (array < launch_->arrays.size() && all_in(launch_->arrays[array])) {
    count(request, Space::global, array);
    return;
  }
  // Lanes of one instruction may be in different memories; what is in neither is the host's: arguments,
  // constants.
  std::array<unsigned, 2> lanes{};  // by space
  each_lane(request.lanes, [&](unsigned lane) {
    const std::uint64_t address = request.address[lane];
    if (dynamic_.holds(address) || fixed_.holds(address)) {
      lanes[static_cast<std::size_t>(Space::shared)] |= 1u << lane;
    } else if (array_of(address) < launch_->arrays.size()) {
      lanes[static_cast<std::size_t>(Space::global)] |= 1u << lane;
    }
  });
  for (const Space space : {Space::global, Space::shared}) {
    const unsigned there = lanes[static_cast<std::size_t>(space)];
    if (there == 0) continue;
    Request part = request;
    part.lanes = there;
    count(part, space, space == Space::global ? array_of(part.address[first_lane(there)]) : 0);
  }
}

// An addition of floats in shared memory comes as the rounds that it takes there.
void Tracer::count(const Request& request, Space space, std::size_t array) {
  if (space == Space::shared && request.access == Access::swap_loop) {
    swap_rounds(request, [&](const Request& round, bool again) { count_one(round, space, array, again); });
  } else {
    count_one(request, space, array);
  }
}

SiteCounts& Tracer::site_of(const Request& request, Space space, std::size_t array) {
  const auto of = static_cast<std::size_t>(space);
  const auto access = static_cast<std::uint64_t>(as_counted(request.access));
  const std::uint64_t key = (std::uint64_t{array} << 2 | access) << 32 | request.code;
  Found& found = found_[of][request.code % found_[of].size()];
  if (found.site == nullptr || found.key != key) found = {key, &sites_[of][key]};
  return *found.site;
}

void Tracer::count_one(const Request& request, Space space, std::size_t array, bool again) {
  SiteCounts& site = site_of(request, space, array);
  site.code = request.code;
  site.array = space == Space::global ? launch_->arrays[array].begin : 0;
  site.access = as_counted(request.access);
  site.space = space;
  site.bytes = std::max(site.bytes, request.bytes);
  ++site.requests;
  ++of_block_[warp_];
  const auto lanes = static_cast<unsigned>(std::popcount(request.lanes));
  site.lanes += lanes;
  if (site.access == Access::atomic && !again) site.meeting_lanes += lanes_that_meet(request);
  std::uint64_t cost = 0;
  if (space == Space::shared) {
    const SharedCost shared = shared_cost(request);
    cost = shared.wavefronts;
    if (!again) site.least += shared.least;
  } else {
    const Sectors sectors(request);
    cost = sectors.size();
    const unsigned meeting = sectors.one_each() ? 0 : lanes_that_meet(request);
    const std::uint64_t wanted = std::uint64_t{lanes - meeting} * request.bytes;  // distinct bytes
    site.least += (wanted + kSectorBytes - 1) / kSectorBytes;
    site.wanted_bytes += wanted;
    if (request.access == Access::load) note_reads(sectors);
  }
  site.cost += cost;
  if (cost > site.worst_cost) {
    site.worst_cost = cost;
    site.worst = request;
  }
}

void Tracer::note_reads(const Sectors& sectors) {
  Span span;
  std::uint64_t* bits = nullptr;  // of that array
  for (const std::uint64_t sector : sectors) {
    const std::uint64_t address = sector * kSectorBytes;  // arrays begin at multiples of it
    if (!span.holds(address)) {
      const std::size_t array = array_of(address);
      if (array == launch_->arrays.size()) continue;
      span = launch_->arrays[array];
      if (read_[array].empty()) read_[array].resize(span.bytes / kSectorBytes / 64 + 1);
      bits = read_[array].data();
    }
    const std::uint64_t i = (address - span.begin) / kSectorBytes;
    bits[i / 64] |= std::uint64_t{1} << (i % 64);
  }
}

void Tracer::end_launch() {
  end_block();
  static std::mutex adding;  // the tracers of the launch do this in turn
  const std::lock_guard lock(adding);
  LaunchCounts& launch = *launch_;
  launch.requests.all += requests_.all;
  launch.requests.of_warp = std::max(launch.requests.of_warp, requests_.of_warp);
  launch.requests.of_block = std::max(launch.requests.of_block, requests_.of_block);
  for (auto& sites : sites_) {
    for (const auto& [key, counts] : sites) add(launch.kernel->sites, counts);
    sites.clear();
  }
  found_ = {};
  for (const BarrierCounts& counts : barriers_) add(launch.kernel->barriers, counts);
  barriers_.clear();
  for (std::size_t array = 0; array < read_.size(); ++array) {
    std::vector<std::uint64_t>& all = launch.read[array];
    if (all.size() < read_[array].size()) all.resize(read_[array].size());
    for (std::size_t i = 0; i < read_[array].size(); ++i) all[i] |= read_[array][i];
  }
  read_.clear();
}

}  // namespace stages::simt
