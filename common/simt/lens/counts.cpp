#include "common/simt/lens/counts.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "common/simt/lens/code.hpp"
#include "common/simt/lens/counting.hpp"
#include "common/simt/lens/crash.hpp"

namespace stages::simt {
namespace {

struct Counting {
  bool on = false;
  std::vector<KernelCounts> kernels;
  std::unordered_map<const void*, Loops> loops;
};

Counting& counting() {
  static Counting instance;  // launches take turns
  return instance;
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
  sectors += other.sectors;
  least_sectors += other.least_sectors;
  wanted_bytes += other.wanted_bytes;
  wavefronts += other.wavefronts;
  least_wavefronts += other.least_wavefronts;
  meeting_lanes += other.meeting_lanes;
  if (other.worst_cost > worst_cost) {
    worst_cost = other.worst_cost;
    worst = other.worst;
  }
}

std::vector<SiteCounts> without_arrays(const std::vector<SiteCounts>& sites) {
  std::vector<SiteCounts> out;
  for (const SiteCounts& site : sites) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const SiteCounts& s) {
      return s.code == site.code && s.space == site.space && s.access == site.access;
    });
    if (same == out.end()) {
      out.push_back(site);
    } else {
      same->add(site);
    }
  }
  return out;
}

void begin_counting() {
  counting().on = true;
  catch_crashes(true);
  counting().kernels.clear();
}

std::vector<KernelCounts> end_counting() {
  counting().on = false;
  catch_crashes(false);
  return std::exchange(counting().kernels, {});
}

bool is_counting() {
  return counting().on;
}

LaunchCounts begin_launch_counts(const Grid& grid) {
  auto& known = counting().loops;
  auto loops = known.find(grid.kernel);
  if (loops == known.end()) loops = known.emplace(grid.kernel, loops_of(grid.kernel)).first;
  LaunchCounts launch;
  launch.loops = loops->second;
  launch.arrays = global_memory();
  launch.read.resize(launch.arrays.size());
  return launch;
}

void end_launch_counts(const Grid& grid, const LaunchCounts& launch) {
  auto& kernels = counting().kernels;
  auto found = std::find_if(kernels.begin(), kernels.end(),
                            [&](const KernelCounts& k) { return k.kernel == grid.kernel; });
  if (found == kernels.end()) {
    kernels.push_back({.kernel = grid.kernel, .launched = grid.where});
    found = std::prev(kernels.end());
  }
  ++found->launches;
  const std::uint64_t blocks = std::uint64_t{grid.grid.x} * grid.grid.y * grid.grid.z;
  found->blocks += blocks;
  found->threads += blocks * grid.block.x * grid.block.y * grid.block.z;
  for (const auto& bits : launch.read) {
    for (const std::uint64_t word : bits) found->read_sectors += static_cast<unsigned>(std::popcount(word));
  }
  for (const auto& [key, site] : launch.sites) {
    const auto same = std::find_if(found->sites.begin(), found->sites.end(), [&](const SiteCounts& s) {
      return s.code == site.code && s.space == site.space && s.access == site.access && s.array == site.array;
    });
    if (same == found->sites.end()) {
      found->sites.push_back(site);
    } else {
      same->add(site);
    }
  }
  for (const auto& [key, barrier] : launch.barriers) {
    const auto same =
        std::find_if(found->barriers.begin(), found->barriers.end(), [&](const BarrierCounts& b) {
          return b.where.line() == barrier.where.line() && b.where.file_name() == barrier.where.file_name() &&
                 b.where.column() == barrier.where.column();
        });
    if (same == found->barriers.end()) {
      found->barriers.push_back(barrier);
    } else {
      same->times += barrier.times;
    }
  }
}

}  // namespace stages::simt
