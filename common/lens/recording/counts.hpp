#pragma once
// What was counted of kernels that ran on the executor: per kernel, and per instruction that touches memory.
//
//   begin_counting();
//   ...                       kernels run, several times slower than without
//   end_counting()            what they did
//
// Counted are only programs whose kernels were compiled for it (has_hooks()).

#include <cstdint>
#include <vector>

#include "common/lens/recording/request.hpp"
#include "common/simt/launch.hpp"

namespace stages::simt {

enum class Space : std::uint8_t { global, shared };

/// What the requests of one instruction came to, or of several of one access and space.
struct SiteCounts {
  std::uint64_t code = 0;        ///< where the instruction returns to, from the beginning of the program
  Access access = Access::load;  ///< load, store or atomic
  Space space = Space::global;
  std::uint64_t array = 0;          ///< global: where the array begins that its lanes touch, the first lane's
  unsigned bytes = 0;               ///< of a lane
  std::uint64_t requests = 0;       ///< of warps
  std::uint64_t lanes = 0;          ///< that took part, over all requests
  std::uint64_t cost = 0;           ///< sectors of 32 bytes of global, wavefronts of shared memory
  std::uint64_t least = 0;          ///< that the same bytes would have cost
  std::uint64_t wanted_bytes = 0;   ///< global: distinct ones, request by request
  std::uint64_t meeting_lanes = 0;  ///< atomics: lanes that found others of their request at their address
  std::uint64_t worst_cost = 0;     ///< that of ...
  Request worst;                    ///< ... the request that took the most

  void add(const SiteCounts& other);
  /// A sum over all requests in the mean.
  double of_requests(std::uint64_t sum) const {
    return static_cast<double>(sum) / static_cast<double>(requests);
  }
  /// The bytes that lanes asked for, of those in the sectors.
  double wanted_share() const {
    return static_cast<double>(wanted_bytes) / static_cast<double>(cost * kSectorBytes);
  }
};

/// A place where threads wait for each other.
struct BarrierCounts {
  Where where;
  std::uint64_t times = 0;  ///< by blocks, or by warps

  void add(const BarrierCounts& other) { times += other.times; }
};

/// Requests of the busiest warp, or block, of a launch and of the mean one; of launches, added up.
struct Load {
  double busiest = 0, mean = 0;

  void add(const Load& other) {
    busiest += other.busiest;
    mean += other.mean;
  }
  /// 1: all have the same.
  double over_mean() const { return mean > 0 ? busiest / mean : 0; }
};

struct KernelCounts {
  const void* kernel = nullptr;
  Load warp, block;
  std::uint64_t launches = 0, blocks = 0, threads = 0;
  std::uint64_t read_sectors = 0;  ///< distinct ones that loads of global memory touched, launch by launch
  /// In the order of the code; several of an instruction that touches several arrays.
  std::vector<SiteCounts> sites;
  std::vector<BarrierCounts> barriers;
};

/// Whether the kernels of this program were compiled so that they can be counted.
bool has_hooks();

void begin_counting();
/// What ran since begin_counting(), in the order of first launches, and no more is counted.
std::vector<KernelCounts> end_counting();

}  // namespace stages::simt
