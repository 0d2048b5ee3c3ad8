#include "common/lens/recording/counts.hpp"

#include <algorithm>

namespace stages::simt {

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

std::vector<SiteCounts> without_arrays(const std::vector<SiteCounts>& sites) {
  std::vector<SiteCounts> out;
  for (const SiteCounts& site : sites) {
    const auto found = std::find_if(out.begin(), out.end(), [&](const SiteCounts& s) {
      return s.code == site.code && s.space == site.space && s.access == site.access;
    });
    (found != out.end() ? *found : out.emplace_back()).add(site);
  }
  return out;
}

}  // namespace stages::simt
