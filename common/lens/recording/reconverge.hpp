#pragma once
// How the lanes of a warp come together in requests: by thread frontiers (docs/lens.md). The executor runs
// lanes one after another, so what each did between two meetings is a list, and the lists are merged here. A
// lane that goes back to the head of a loop stands, until it does, at the loop's last address (the latch),
// where the others that are in the loop come to.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/lens/recording/request.hpp"

namespace stages::simt {

/// The loops of a kernel's code: [head, latch] of each, where the latch is the jump back to the head.
class Loops {
 public:
  struct Loop {
    std::uint64_t head = 0, latch = 0;
  };
  Loops() = default;
  explicit Loops(std::vector<Loop> loops);

  /// The latch that a lane passes on its way from `from` back to `to`: that of the smallest loop with both.
  /// Nothing where it comes from elsewhere, such as another function.
  std::optional<std::uint64_t> latch(std::uint64_t from, std::uint64_t to) const;

 private:
  std::vector<Loop> loops_;  ///< the smallest first
};

/// What a lane did: an access, or that it met others of its warp.
struct Event {
  std::uint64_t address = 0;
  std::uint32_t code = 0;  ///< the instruction, from the program's beginning
  std::uint8_t bytes = 0;
  Access access = Access::load;

  /// Meetings have numbers in the order in which they took place.
  static Event meeting(std::uint32_t number, unsigned lanes, std::uint32_t code) {
    return {std::uint64_t{number} << kLanes | lanes, code, 0, Access::meeting};
  }
  std::uint32_t number() const { return static_cast<std::uint32_t>(address >> kLanes); }
  unsigned met() const { return static_cast<unsigned>(address); }
};

/// The events of a lane that are not in a request yet.
struct LaneEvents {
  const Event* next = nullptr;
  const Event* end = nullptr;
  std::uint64_t code = 0;  ///< of the last one before `next`
  bool open = false;       ///< more may follow
};

class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual void take(const Request& request) = 0;
};

/// Puts the events of a warp's lanes together, until one of them that is open has none left, or all.
void reconverge(std::array<LaneEvents, kLanes>& lanes, const Loops& loops, RequestSink& sink);

}  // namespace stages::simt
