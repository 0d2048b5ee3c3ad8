#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/lens/lens.hpp"

namespace stages {
namespace {

using nlohmann::json;
using simt::Access;
using simt::Space;

const char* suffix(Access access) {
  return access == Access::load ? "ld" : access == Access::store ? "st" : "atom";
}

/// The counters of these sums. What Nsight Compute has no name for has none of NVIDIA's.
json counters(std::span<const simt::SiteCounts> sums) {
  json values = json::object();
  for (const simt::SiteCounts& sum : sums) {
    const bool global = sum.space == Space::global;
    const char* const op = suffix(sum.access);
    const auto own = [&](const char* name) {
      return fmt::format("{}_{}_{}", global ? "global" : "shared", op, name);
    };
    if (global) {
      values[fmt::format("l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum", op)] = sum.requests;
      values[fmt::format("l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum", op)] = sum.cost;
      values[own("least_sectors")] = sum.least;
      values[own("wanted_bytes")] = sum.wanted_bytes;
    } else {
      values[own("requests")] = sum.requests;
      values[fmt::format("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum", op)] = sum.cost;
      values[own("least_wavefronts")] = sum.least;
    }
    values[own("lanes")] = sum.lanes;
    if (sum.access == Access::atomic) values[own("meeting_lanes")] = sum.meeting_lanes;
  }
  return values;
}

}  // namespace

json lens_json(const LensView& view) {
  json kernels = json::array();
  for (const LensKernel& kernel : view.kernels) {
    json lines = json::array();
    for (const LensSite& site : kernel.sites) {
      json calls = json::array();
      for (std::size_t i = 1; i < site.lines.size(); ++i)
        calls.push_back({{"file", site.lines[i].file}, {"line", site.lines[i].line}});
      lines.push_back({{"file", site.lines[0].file},
                       {"line", site.lines[0].line},
                       {"called_from", calls},
                       {"bytes_of_a_lane", site.counts.bytes},
                       {"counters", counters({&site.counts, 1})}});
    }
    json waits = json::array();
    for (const auto& [line, times] : kernel.waits)
      waits.push_back({{"file", line.file}, {"line", line.line}, {"times", times}});
    kernels.push_back(
        {{"name", kernel.name},
         {"launches", kernel.counts.launches},
         {"blocks", kernel.counts.blocks},
         {"threads", kernel.counts.threads},
         {"busiest_warp", {{"requests", kernel.counts.warp.busiest}, {"mean", kernel.counts.warp.mean}}},
         {"busiest_block", {{"requests", kernel.counts.block.busiest}, {"mean", kernel.counts.block.mean}}},
         {"distinct_sectors_read", kernel.counts.read_sectors},
         {"counters", counters(sums_of({&kernel, 1}))},
         {"lines", lines},
         {"waits", waits}});
  }
  json limits = json::object();
  for (const Bound::Limit& limit : view.bound.limits) limits[limit.name] = limit.seconds;
  const nlohmann::json at_least = {{"gpu", recorded_rates().gpu},
                                   {"seconds", view.bound.seconds},
                                   {"limit", view.bound.limit},
                                   {"limits", limits}};
  json figures = json::object();
  for (const Metric& metric : view.counted) figures[metric.name] = metric.value;
  return {{"entry", view.entry},
          {"at_least", at_least},
          {"counted", figures},
          {"counters", counters(sums_of(view.kernels))},
          {"kernels", kernels}};
}

}  // namespace stages
