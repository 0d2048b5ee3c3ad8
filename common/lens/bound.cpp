#include "common/lens/bound.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "common/matrix/embedded_table.hpp"

namespace stages {

extern const std::string_view gpu_rates_text;  // data/rates.tsv, embedded by CMake

namespace {

constexpr const char* kFile = "data/rates.tsv";

double number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value > 0))
    fail("{}: '{}' is no rate; tools/tables.py writes this file", kFile, text);
  return value;
}

}  // namespace

const GpuRates& recorded_rates() {
  static const GpuRates rates = [] {
    const auto rows = table_rows<5>(gpu_rates_text, kFile);
    if (rows.empty()) fail("{}: no GPU's rates", kFile);
    const auto& [gpu, l2_bytes, sms, wavefronts, shortest] = rows.front();
    return GpuRates{std::string(gpu), number(l2_bytes), number(sms), number(wavefronts), number(shortest)};
  }();
  return rates;
}

Bound bound_of(const std::vector<simt::KernelCounts>& kernels, const GpuRates& rates) {
  constexpr double kSectorsOfWavefront = 4;  // a line of 128 bytes
  double all_wavefronts = 0, busiest = 0, read = 0, written = 0, sectors = 0;
  simt::Load warp, block;
  for (const simt::KernelCounts& kernel : kernels) {
    double wavefronts = 0;
    warp.add(kernel.warp);
    block.add(kernel.block);
    read += static_cast<double>(kernel.read_sectors);
    for (const simt::SiteCounts& site : kernel.sites) {
      if (site.space == simt::Space::shared) {
        wavefronts += static_cast<double>(site.cost);
        continue;
      }
      const auto touched = static_cast<double>(site.cost);
      sectors += touched;
      if (site.access == simt::Access::load) {
        wavefronts += std::max(static_cast<double>(site.requests), touched / kSectorsOfWavefront);
      } else {
        written += touched;
      }
    }
    all_wavefronts += wavefronts;
    // Launches of one kernel may overlap, too.
    const double used = std::clamp(static_cast<double>(kernel.blocks), 1.0, rates.sms);
    busiest = std::max(busiest, wavefronts / used);
  }
  busiest = std::max(busiest, all_wavefronts / rates.sms);
  Bound bound{.limits = {{"launch", rates.shortest},
                         {"L1 and shared memory", busiest / rates.wavefronts},
                         {"reads of L2", read * simt::kSectorBytes / rates.l2_bytes},
                         {"writes to L2", written * simt::kSectorBytes / rates.l2_bytes}},
              .sectors = sectors,
              .warp = warp,
              .block = block};
  const auto longest = std::ranges::max_element(bound.limits, {}, &Bound::Limit::seconds);
  bound.seconds = longest->seconds;
  bound.limit = longest->name;
  return bound;
}

std::vector<Metric> counted_metrics(const Bound& bound, const ProblemFacts& problem) {
  if (bound.sectors == 0) return {};
  const bool products = problem.op == Op::spgemm;
  const auto work = static_cast<double>(products ? problem.multiplications : problem.nnz * problem.n_vectors);
  return {{products ? "sectors_a_product" : "sectors_a_nonzero", bound.sectors / work, ""},
          {"asked_of_L1", bound.sectors * simt::kSectorBytes, "B"},
          {"busiest_warp", bound.warp.busiest, ""},
          {"warp_over_mean", bound.warp.over_mean(), ""},
          {"block_over_mean", bound.block.over_mean(), ""},
          {"at_least_seconds", bound.seconds, "s"}};
}

Bound count_bound(const std::function<void()>& run) {
  simt::begin_counting();
  try {
    run();
  } catch (...) {
    simt::end_counting();
    throw;
  }
  return bound_of(simt::end_counting(), recorded_rates());
}

}  // namespace stages
