// How the lanes of a warp come together in requests: by thread frontiers (docs/lens.md). The executor runs
// lanes one after another, so what each did between two meetings is a list, and the lists are merged here. A
// lane that goes back to the head of a loop stands, until it does, at the loop's last address (the latch),
// where the others that are in the loop come to.

#include <algorithm>

#include "common/lens/recording/tracer.hpp"

namespace stages::simt {
namespace {

// Where a lane stands, as a number: who has the lowest goes first. A code address, and behind it the latches
// there, of which that with the highest head belongs to the innermost loop. Then meetings.
constexpr std::uint64_t kMeeting = std::uint64_t{1} << 63;
constexpr std::uint64_t kLatch = std::uint64_t{1} << 32;
constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

std::uint64_t place_of(const LaneEvents& lane, const Loops& loops) {
  const Event& event = *lane.next;
  if (event.access == Access::meeting) return kMeeting | event.number();
  if (event.code <= lane.code) {
    if (const auto latch = loops.latch(lane.code, event.code))
      return *latch << 33 | kLatch | (~event.code & 0xffffffffu);
  }
  return std::uint64_t{event.code} << 33;
}

/// The lanes at the lowest place, and the lowest place of the others.
struct Front {
  std::uint64_t place = kNowhere, behind = kNowhere;
  unsigned lanes = 0;

  void add(unsigned lane, std::uint64_t at) {
    if (at < place) {
      behind = place;
      place = at;
      lanes = 0;
    }
    if (at == place) {
      lanes |= 1u << lane;
    } else {
      behind = std::min(behind, at);
    }
  }
};

}  // namespace

void Tracer::reconverge(std::array<LaneEvents, kLanes>& lanes) {
  const Loops& loops = launch_->loops;
  std::array<std::uint64_t, kLanes> place;
  bool waiting = false;  // for more of a lane that is open
  // Lanes that go on together mostly do so to the same place: that from this code to that.
  std::uint64_t from = kNowhere, to = kNowhere, there = kNowhere;
  const auto look = [&](unsigned i) {
    const LaneEvents& lane = lanes[i];
    if (lane.next == lane.end) {
      place[i] = kNowhere;
      waiting |= lane.open;
    } else if (lane.next->access == Access::meeting) {
      place[i] = place_of(lane, loops);
    } else {
      if (lane.code != from || lane.next->code != to) {
        from = lane.code;
        to = lane.next->code;
        there = place_of(lane, loops);
      }
      place[i] = there;
    }
  };
  const auto front_of_all = [&] {
    Front front;
    for (unsigned i = 0; i < kLanes; ++i) front.add(i, place[i]);
    return front;
  };
  for (unsigned i = 0; i < kLanes; ++i) look(i);
  Front front = front_of_all();
  Request request;
  while (!waiting && front.place != kNowhere) {
    Front next;
    if ((front.place & kMeeting) != 0) {
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
    } else if ((front.place & kLatch) != 0) {
      each_lane(front.lanes, [&](unsigned i) {
        lanes[i].code = 0;
        place[i] = std::uint64_t{lanes[i].next->code} << 33;
        next.add(i, place[i]);
      });
    } else {
      const Event& event = *lanes[first_lane(front.lanes)].next;
      request.code = event.code;
      request.access = event.access;
      request.bytes = event.bytes;
      request.lanes = front.lanes;
      each_lane(front.lanes, [&](unsigned i) {
        request.address[i] = lanes[i].next->address;
        lanes[i].code = lanes[i].next->code;
        ++lanes[i].next;
        look(i);
        next.add(i, place[i]);
      });
      take(request);
    }
    if (next.place < front.behind) {  // the others still stand behind
      next.behind = std::min(next.behind, front.behind);
      front = next;
    } else {
      front = front_of_all();
    }
  }
}

}  // namespace stages::simt
