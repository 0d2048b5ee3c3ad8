#pragma once
// A request: one memory instruction of a warp, and what it costs by the rules of NVIDIA's memory system. The
// rules, their sources and how they were checked against ncu are told in docs/lens.md.

#include <array>
#include <cstdint>
#include <functional>

#include "common/simt/launch.hpp"

namespace stages::simt {

/// What is counted has the first three; compare_swap and swap_loop are atomics that shared memory treats in its
/// own way, in the order of AtomicWay. (A lane's event that is no access: meeting.)
enum class Access : std::uint8_t { load, store, atomic, compare_swap, swap_loop, meeting };

inline constexpr std::uint64_t kSectorBytes = 32;
inline constexpr std::uint64_t kBankBytes = 4;

struct Request {
  std::uint64_t code = 0;  ///< the address of the instruction in the program
  Access access = Access::load;
  unsigned bytes = 0;                           ///< that each lane touches: 1, 2, 4, 8 or 16
  unsigned lanes = 0;                           ///< a bit for each that takes part
  std::array<std::uint64_t, kLanes> address{};  ///< of those lanes
};

struct SharedCost {
  std::uint64_t wavefronts = 0;  ///< that the request takes
  std::uint64_t least = 0;       ///< that it would take without conflicts
};
SharedCost shared_cost(const Request& request);

/// The rounds of a swap_loop in shared memory (docs/lens.md): calls visit(request, again) for each with a load,
/// and with a swap_loop, which stands for its compare-and-swap then; `again`: it is not the first round. (Who
/// changes nothing, such as an OR of bits that are there, lets others through; here it does not.)
void swap_rounds(Request request, const std::function<void(const Request&, bool)>& visit);

/// The lanes that meet others at an address: those that take part, less the different addresses among them.
unsigned lanes_that_meet(const Request& request);

/// Small numbers that are distinct: at most 64 of them.
class DistinctSet {
 public:
  /// Whether it is new.
  bool insert(std::uint64_t value) {
    unsigned at = static_cast<unsigned>((value * 0x9e3779b97f4a7c15u) >> 57);
    while (used_[at]) {
      if (value_[at] == value) return false;
      at = (at + 1) % kSlots;
    }
    used_[at] = true;
    value_[at] = value;
    ++size_;
    return true;
  }
  unsigned size() const { return size_; }

 private:
  static constexpr unsigned kSlots = 128;
  std::array<bool, kSlots> used_{};
  std::array<std::uint64_t, kSlots> value_;
  unsigned size_ = 0;
};

/// The distinct sectors of a request; a sector is an address divided by kSectorBytes.
class Sectors {
 public:
  explicit Sectors(const Request& request);
  const std::uint64_t* begin() const { return sector_.data(); }
  const std::uint64_t* end() const { return sector_.data() + size_; }
  unsigned size() const { return size_; }
  /// Whether each lane has one that no other lane touches.
  bool one_each() const { return one_each_; }

 private:
  std::array<std::uint64_t, 2 * kLanes> sector_;  // 16 bytes lie in two sectors at most
  unsigned size_ = 0;
  bool one_each_ = true;
};

}  // namespace stages::simt
