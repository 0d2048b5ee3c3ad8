#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "common/harness/results.hpp"
#include "common/lens/source.hpp"

namespace stages {
namespace {

using simt::Access;
using simt::SiteCounts;
using simt::Space;

const char* unit_of(Space space) { return space == Space::global ? "sectors" : "wavefronts"; }

std::string text_of(const SiteCounts& sum) {
  std::string text = fmt::format(
      "  {} {:<8} {:>12} requests of {:4.1f} lanes: {:6.2f} {} each where {:.2f} would do",
      name_of(sum.space), fmt::format("{}s", name_of(sum.access)), counted(sum.requests),
      sum.of_requests(sum.lanes), sum.of_requests(sum.cost), unit_of(sum.space), sum.of_requests(sum.least));
  if (sum.space == Space::global)
    text += fmt::format("; {:.0f} % of the bytes were wanted", 100 * sum.wanted_share());
  if (sum.meeting_lanes > 0) {
    text +=
        fmt::format("; {:.1f} lanes each find another at their address", sum.of_requests(sum.meeting_lanes));
  }
  return text + "\n";
}

std::string site_text(const LensSite& site) {
  const SiteCounts& sum = site.counts;
  return fmt::format("{:<13} {:>2} B {:>12} {:>5.1f} {:>7.2f} {:>6.2f} {:>6}",
                     fmt::format("{} {}", name_of(sum.space), name_of(sum.access)), sum.bytes,
                     counted(sum.requests), sum.of_requests(sum.lanes), sum.of_requests(sum.cost),
                     sum.of_requests(sum.least),
                     sum.space == Space::global ? fmt::format("{:.0f} %", 100 * sum.wanted_share()) : "");
}

constexpr int kWidth = 60;  // of site_text, and what stands between it and the source

/// The source of a file's lines with what their instructions did. Those of one line stand below each other,
/// each with the calls by which it came into the kernel.
std::string file_text(const SourceFile& file) {
  std::string text = fmt::format("\n  {:<16} {:>13} {:>5} {:>7} {:>6} {:>6}  {}\n", "access", "requests",
                                 "lanes", "takes", "least", "wanted", file.name);
  for (const SourceLine& line : file.lines) {
    std::string code = fmt::format("{:>4} | {}", line.number, line.text);
    const auto row = [&](const std::string& counted, const std::string& after) {
      std::string whole = fmt::format("  {:{}}{}{}", counted, kWidth, code, after);
      whole.erase(whole.find_last_not_of(' ') + 1);
      text += whole + "\n";
      code = "     |";
    };
    if (line.waits > 0) row(fmt::format("{:<16} {:>13}", "wait", counted(line.waits)), "");
    for (const LensSite* site : line.sites) row(site_text(*site), callers(*site));
    if (line.waits == 0 && line.sites.empty()) row("", "");
  }
  return text;
}

/// The lines where most is asked for that need not be, the worst first.
std::string worst_lines(const LensKernel& kernel) {
  std::map<std::tuple<std::string, unsigned, Space>, SiteCounts> lines;
  for (const LensSite& site : kernel.sites) {
    const Space space = site.counts.space;
    lines.try_emplace({site.lines[0].file, site.lines[0].line, space}, SiteCounts{.space = space})
        .first->second.add(site.counts);
  }
  const auto loss = [](const auto& line) { return line.second.cost - line.second.least; };
  std::vector<std::pair<std::tuple<std::string, unsigned, Space>, SiteCounts>> worst(lines.begin(),
                                                                                     lines.end());
  std::stable_sort(worst.begin(), worst.end(),
                   [&](const auto& a, const auto& b) { return loss(a) > loss(b); });
  std::string text;
  constexpr std::size_t kShown = 3;
  for (std::size_t i = 0; i < std::min(kShown, worst.size()); ++i) {
    const auto& [file, line, space] = worst[i].first;
    if (loss(worst[i]) * 20 < worst[i].second.cost) break;  // less than 5 %
    text +=
        fmt::format("  {} {}:{}: {} of {} {} need not be\n", i == 0 ? "most is lost in" : "           then",
                    file, line, counted(loss(worst[i])), counted(worst[i].second.cost), unit_of(space));
  }
  return text;
}

std::string kernel_text(const LensKernel& kernel, bool all_lines) {
  std::string text = fmt::format("\n{}: {} launch{} of {} blocks, {} threads in all\n", kernel.name,
                                 kernel.counts.launches, kernel.counts.launches == 1 ? "" : "es",
                                 counted(kernel.counts.blocks), counted(kernel.counts.threads));
  for (const auto& [of, load] :
       {std::pair{"warp", kernel.counts.warp}, std::pair{"block", kernel.counts.block}})
    text += fmt::format("  busiest {:<7} {:>11.0f} requests, {:.1f} times the mean\n", of, load.busiest,
                        load.over_mean());
  for (const SiteCounts& sum : sums_of({&kernel, 1})) text += text_of(sum);
  text += worst_lines(kernel);
  for (const SourceFile& file : source_of(kernel, all_lines)) text += file_text(file);
  return text;
}

}  // namespace

std::string bound_text(const Bound& bound) {
  return fmt::format("at least {} on an {}: {}", format_seconds(bound.seconds), recorded_rates().gpu,
                     bound.limit);
}

std::string lens_text(const LensView& view, bool all_lines) {
  std::string text = fmt::format("{}\n", view.entry);
  for (const LensKernel& kernel : view.kernels) text += kernel_text(kernel, all_lines);
  if (!view.kernels.empty() && view.problem.empty()) text += "\n" + bound_text(view.bound) + "\n";
  return text;
}

std::string lens_comparison(std::span<const LensView> views) {
  std::map<std::pair<Space, Access>, std::vector<const SiteCounts*>> rows;
  std::vector<std::vector<SiteCounts>> sums;
  for (const LensView& view : views) sums.push_back(sums_of(view.kernels));
  for (std::size_t i = 0; i < views.size(); ++i) {
    for (const SiteCounts& sum : sums[i]) {
      auto& row = rows[{sum.space, sum.access}];
      row.resize(views.size());
      row[i] = &sum;
    }
  }
  std::size_t width = 12;
  for (const LensView& view : views) width = std::max(width, view.entry.size());
  std::string text = fmt::format("\n{:<24}", "");
  for (const LensView& view : views) text += fmt::format("  {:>{}}", view.entry, width);
  const auto line = [&](const std::string& name, const std::vector<const SiteCounts*>& row, auto value) {
    text += fmt::format("\n{:<24}", name);
    for (const SiteCounts* sum : row)
      text += fmt::format("  {:>{}}", sum == nullptr ? "-" : value(*sum), width);
  };
  for (const auto& [kind, row] : rows) {
    const std::string name = fmt::format("{} {}s", name_of(kind.first), name_of(kind.second));
    line(name, row, [](const SiteCounts& s) { return counted(s.requests); });
    line("  lanes", row, [](const SiteCounts& s) { return fmt::format("{:.1f}", s.of_requests(s.lanes)); });
    line(fmt::format("  {} each", unit_of(kind.first)), row,
         [](const SiteCounts& s) { return fmt::format("{:.2f}", s.of_requests(s.cost)); });
    line(fmt::format("  {}", unit_of(kind.first)), row, [](const SiteCounts& s) { return counted(s.cost); });
  }
  for (const char* const name : kCounted) {
    std::string cells;
    for (const LensView& view : views)
      cells += fmt::format("  {:>{}}", metric_text(view.counted, name), width);
    if (cells.find_first_not_of(' ') != std::string::npos)
      text += fmt::format("\n{:<24}", spaced(name)) + cells;
  }
  return text + "\n";
}

}  // namespace stages
