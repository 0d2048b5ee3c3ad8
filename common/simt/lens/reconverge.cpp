#include "common/simt/lens/reconverge.hpp"

#include <algorithm>

namespace stages::simt {
namespace {

// Where a lane stands, as a number: who has the lowest goes first. A code address, and behind it the latches
// there, of which that with the highest head belongs to the innermost loop. Then meetings.
constexpr std::uint64_t kMeeting = std::uint64_t{1} << 63;
constexpr std::uint64_t kLatch = std::uint64_t{1} << 32;
constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

std::uint64_t place_of(const LaneEvents& lane, const Loops& loops) {
  const Event& event = *lane.next;
  if (event.kind == Event::Kind::meeting) return kMeeting | event.number();
  if (event.code <= lane.code) {
    if (const auto latch = loops.latch(lane.code, event.code)) {
      return *latch << 33 | kLatch | (~event.code & 0xffffffffu);
    }
  }
  return std::uint64_t{event.code} << 33;
}

}  // namespace

Loops::Loops(std::vector<Loop> loops) : loops_(std::move(loops)) {
  std::sort(loops_.begin(), loops_.end(),
            [](const Loop& a, const Loop& b) { return a.latch - a.head < b.latch - b.head; });
}

std::optional<std::uint64_t> Loops::latch(std::uint64_t from, std::uint64_t to) const {
  for (const Loop& loop : loops_) {
    if (loop.head <= to && from <= loop.latch) return loop.latch;
  }
  return std::nullopt;
}

void reconverge(std::array<LaneEvents, kLanes>& lanes, const Loops& loops, RequestSink& sink) {
  std::array<std::uint64_t, kLanes> place;
  bool waiting = false;  // for more of a lane that is open
  const auto look = [&](unsigned i) {
    place[i] = lanes[i].next == lanes[i].end ? kNowhere : place_of(lanes[i], loops);
    waiting |= place[i] == kNowhere && lanes[i].open;
  };
  for (unsigned i = 0; i < kLanes; ++i) look(i);
  Request request;
  while (!waiting) {
    std::uint64_t first = kNowhere;
    for (const std::uint64_t there : place) first = std::min(first, there);
    if (first == kNowhere) return;
    unsigned here = 0;
    for (unsigned i = 0; i < kLanes; ++i) here |= static_cast<unsigned>(place[i] == first) << i;
    if ((first & kMeeting) != 0) {
      // Nobody can go on without it, so all go on that can: parts of the warp that meet apart stay together.
      unsigned met = 0;
      for (unsigned i = 0; i < kLanes; ++i) {
        if (place[i] == kNowhere) continue;
        bool all = true;
        each_lane(lanes[i].next->met(), [&](unsigned other) { all &= place[other] == place[i]; });
        met |= static_cast<unsigned>(all) << i;
      }
      each_lane(met, [&](unsigned i) {
        lanes[i].code = lanes[i].next->code;
        ++lanes[i].next;
        look(i);
      });
    } else if ((first & kLatch) != 0) {
      each_lane(here, [&](unsigned i) {
        lanes[i].code = 0;
        place[i] = std::uint64_t{lanes[i].next->code} << 33;
      });
    } else {
      const Event& event = *lanes[first_lane(here)].next;
      request.code = event.code;
      request.access = static_cast<Access>(event.kind);
      request.bytes = event.bytes;
      request.lanes = here;
      each_lane(here, [&](unsigned i) {
        request.address[i] = lanes[i].next->address;
        lanes[i].code = lanes[i].next->code;
        ++lanes[i].next;
        look(i);
      });
      sink.take(request);
    }
  }
}

}  // namespace stages::simt
