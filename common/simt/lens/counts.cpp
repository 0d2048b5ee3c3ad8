#include "common/simt/lens/counts.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

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

/// The element for which `is_it` holds; where there is none, `otherwise`, put behind the others.
template <class T, class Test>
T& found_or_added(std::vector<T>& all, Test is_it, T otherwise) {
  const auto found = std::find_if(all.begin(), all.end(), is_it);
  return found != all.end() ? *found : all.emplace_back(std::move(otherwise));
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
    const auto same = [&](const SiteCounts& s) {
      return s.code == site.code && s.space == site.space && s.access == site.access;
    };
    found_or_added(out, same, {}).add(site);
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

bool is_counting() { return counting().on; }

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
  KernelCounts& kernel =
      found_or_added(counting().kernels, [&](const KernelCounts& k) { return k.kernel == grid.kernel; },
                     {.kernel = grid.kernel, .launched = grid.where});
  ++kernel.launches;
  const std::uint64_t blocks = std::uint64_t{grid.grid.x} * grid.grid.y * grid.grid.z;
  kernel.blocks += blocks;
  const std::uint64_t threads = std::uint64_t{grid.block.x} * grid.block.y * grid.block.z;
  kernel.threads += blocks * threads;
  const double of_block = static_cast<double>(launch.requests.all) / static_cast<double>(blocks);
  kernel.block.add({static_cast<double>(launch.requests.of_block), of_block});
  kernel.warp.add({static_cast<double>(launch.requests.of_warp),
                   of_block / static_cast<double>((threads + kLanes - 1) / kLanes)});
  for (const auto& bits : launch.read)
    for (const std::uint64_t word : bits) kernel.read_sectors += static_cast<unsigned>(std::popcount(word));
  for (const auto& [key, site] : launch.sites) {
    const auto same = [&, &site = site](const SiteCounts& s) {
      return s.code == site.code && s.space == site.space && s.access == site.access && s.array == site.array;
    };
    found_or_added(kernel.sites, same, {}).add(site);
  }
  for (const auto& [key, barrier] : launch.barriers) {
    const auto same = [&where = barrier.where](const BarrierCounts& b) {
      return b.where.line() == where.line() && b.where.file_name() == where.file_name() &&
             b.where.column() == where.column();
    };
    found_or_added(kernel.barriers, same, {.where = barrier.where}).times += barrier.times;
  }
}

}  // namespace stages::simt
