#pragma once
// What a launch is, and the words for what its threads do: what all of the executor is told in. How it works,
// what it finds and how faults are reported is told in docs/executor.md.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>

#include "common/simt/vector_types.hpp"

namespace stages::simt {

/// Where in the source a thread waits; every waiting device function takes one as its defaulted last
/// argument.
using Where = std::source_location;

/// A piece of memory.
struct Span {
  std::uint64_t begin = 0, bytes = 0;
  bool holds(std::uint64_t address) const { return address - begin < bytes; }
};

/// The place of a block in its grid, or of a thread in its block.
inline uint3 place_in(dim3 of, std::uint64_t number) {
  return {static_cast<unsigned>(number % of.x), static_cast<unsigned>(number / of.x % of.y),
          static_cast<unsigned>(number / of.x / of.y)};
}

inline constexpr unsigned kLanes = 32;

/// The lowest lane of a mask.
inline unsigned first_lane(unsigned lanes) { return static_cast<unsigned>(std::countr_zero(lanes)); }

/// Calls visit(lane) for each lane of a mask, the lowest first.
template <class Visit>
void each_lane(unsigned lanes, Visit visit) {
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) visit(first_lane(rest));
}

/// How far an atomic operation or a fence reaches. A block is all there is where `thread` would do.
enum class Scope : std::uint8_t { thread, block, device };

/// What shared memory has to do for an atomic operation (sm_90): one instruction, a compare-and-swap, or a loop
/// around one, as it changes words of 32 bits only and cannot add floating-point numbers.
enum class AtomicWay : std::uint8_t { one, compare_swap, swap_loop };

/// What an atomic operation promises; CUDA's own, such as atomicAdd, promise nothing but to be atomic.
struct AtomicHow {
  Scope scope = Scope::device;
  bool acquires = false, releases = false;
  AtomicWay way = AtomicWay::one;
  // What is no atomic operation, but more than a plain load or store to the search for races.
  bool is_volatile = false;
  bool vector = false;     ///< each of its elements is a word of its own
  bool read_only = false;  ///< a plain load through the cache for what no thread of the launch writes
};

/// One launch.
struct Grid {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  bool cooperative = false;
  unsigned cluster = 1;  ///< blocks per cluster; more than 1 only as a grid that is one cluster
  Where where = Where::current();
  const void* kernel = nullptr;
  std::function<void()> invoke = {};  ///< calls it for the current thread, with its own copy of the arguments
  std::size_t shared_limit = ~std::size_t{0};  ///< of a block, static and dynamic together

  std::uint64_t blocks() const { return std::uint64_t{grid.x} * grid.y * grid.z; }
  std::uint64_t threads_of_block() const { return std::uint64_t{block.x} * block.y * block.z; }
  /// Whether all blocks run at once and may wait for each other.
  bool resident() const { return cooperative || cluster > 1; }
};

enum class Fault : std::uint8_t { none, device, deadlock, timeout, late };

}  // namespace stages::simt
