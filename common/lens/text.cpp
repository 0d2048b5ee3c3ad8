#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

#include "common/lens/show.hpp"

namespace stages {
namespace {

using simt::Access;
using simt::Space;

std::string grouped(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t k = digits.size(); k > 3;) digits.insert(k -= 3, 1, ',');
  return digits;
}

const char* name_of(Space space) {
  return space == Space::global ? "global" : "shared";
}
const char* name_of(Access access) {
  return access == Access::load ? "load" : access == Access::store ? "store" : "atomic";
}
const char* unit_of(Space space) {
  return space == Space::global ? "sectors" : "wavefronts";
}

std::string text_of(const LensSum& sum) {
  std::string text = fmt::format(
      "  {} {:<8} {:>12} requests of {:4.1f} lanes: {:6.2f} {} each where {:.2f} would do",
      name_of(sum.space), fmt::format("{}s", name_of(sum.access)), grouped(sum.requests),
      sum.of_requests(sum.lanes), sum.of_requests(sum.cost), unit_of(sum.space), sum.of_requests(sum.least));
  if (sum.space == Space::global)
    text += fmt::format("; {:.0f} % of the bytes were wanted", 100 * sum.wanted_share());
  if (sum.meeting_lanes > 0) {
    text +=
        fmt::format("; {:.1f} lanes each find another at their address", sum.of_requests(sum.meeting_lanes));
  }
  return text + "\n";
}

/// The lines of a file; none where it is not there.
std::vector<std::string> read_lines(const std::string& file) {
  std::vector<std::string> lines;
  std::ifstream in(file.starts_with("/") ? file : STAGES_ROOT "/" + file);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

std::string callers(const LensSite& site) {
  std::string text;
  for (std::size_t i = 1; i < site.lines.size(); ++i) {
    const std::string& file = site.lines[i].file;
    text += fmt::format(" < {}:{}", file == site.lines[0].file ? "" : file.substr(file.rfind('/') + 1),
                        site.lines[i].line);
  }
  return text;
}

std::string site_text(const LensSite& site) {
  LensSum sum{.space = site.counts.space, .access = site.counts.access};
  sum.add(site.counts);
  return fmt::format("{:<13} {:>2} B {:>12} {:>5.1f} {:>7.2f} {:>6.2f} {:>6}",
                     fmt::format("{} {}", name_of(sum.space), name_of(sum.access)), site.counts.bytes,
                     grouped(sum.requests), sum.of_requests(sum.lanes), sum.of_requests(sum.cost),
                     sum.of_requests(sum.least),
                     sum.space == Space::global ? fmt::format("{:.0f} %", 100 * sum.wanted_share()) : "");
}

constexpr int kWidth = 59;  // of site_text and of the head of its columns

/// The source of a file's lines with what their instructions did. Those of one line stand below each other,
/// each with the calls by which it came into the kernel.
std::string file_text(const std::string& file, const std::multimap<unsigned, const LensSite*>& sites,
                      const std::map<unsigned, std::uint64_t>& barriers, bool all_lines) {
  const std::vector<std::string> source = read_lines(file);
  std::string text = fmt::format("\n  {:<16} {:>13} {:>5} {:>7} {:>6} {:>6}  {}\n", "access", "requests",
                                 "lanes", "takes", "least", "wanted", file);
  std::set<unsigned> shown;
  for (const auto& [line, site] : sites) shown.insert(line);
  for (const auto& [line, times] : barriers) shown.insert(line);
  if (all_lines) {
    for (unsigned line = *shown.begin(); line < *shown.rbegin(); ++line) shown.insert(line);
  }
  for (const unsigned line : shown) {
    std::string code = fmt::format("{:>4} | {}", line, line <= source.size() ? source[line - 1] : "");
    const auto [begin, end] = sites.equal_range(line);
    for (auto at = begin; at != end; ++at) {
      text += fmt::format("  {}  {}\n", site_text(*at->second),
                          at == begin && at->second->lines.size() == 1 ? code : code + callers(*at->second));
      code = "     |";
    }
    if (const auto barrier = barriers.find(line); barrier != barriers.end()) {
      text +=
          fmt::format("  {:<16} {:>13}{:{}}{}\n", "wait", grouped(barrier->second), "", kWidth - 28, code);
    } else if (begin == end) {
      text += fmt::format("  {:{}}{}\n", "", kWidth + 2, code);
    }
  }
  return text;
}

/// The lines where most is fetched or waited for that need not be, the worst first.
std::string worst_lines(const LensKernel& kernel) {
  std::map<std::tuple<std::string, unsigned, Space>, LensSum> lines;
  for (const LensSite& site : kernel.sites) {
    const Space space = site.counts.space;
    lines
        .try_emplace({site.lines[0].file, site.lines[0].line, space},
                     LensSum{.space = space, .access = Access::load})
        .first->second.add(site.counts);
  }
  const auto loss = [](const auto& line) { return line.second.cost - line.second.least; };
  std::vector<std::pair<std::tuple<std::string, unsigned, Space>, LensSum>> worst(lines.begin(), lines.end());
  std::stable_sort(worst.begin(), worst.end(),
                   [&](const auto& a, const auto& b) { return loss(a) > loss(b); });
  std::string text;
  constexpr std::size_t kShown = 3;
  for (std::size_t i = 0; i < std::min(kShown, worst.size()); ++i) {
    const auto& [file, line, space] = worst[i].first;
    if (loss(worst[i]) * 20 < worst[i].second.cost) break;  // less than 5 %
    text +=
        fmt::format("  {} {}:{}: {} of {} {} need not be\n", i == 0 ? "most is lost in" : "           then",
                    file, line, grouped(loss(worst[i])), grouped(worst[i].second.cost), unit_of(space));
  }
  return text;
}

std::string kernel_text(const LensKernel& kernel, bool all_lines) {
  std::string text = fmt::format("\n{}: {} launch{} of {} blocks, {} threads in all\n", kernel.name,
                                 kernel.counts.launches, kernel.counts.launches == 1 ? "" : "es",
                                 grouped(kernel.counts.blocks), grouped(kernel.counts.threads));
  for (const LensSum& sum : sums_of({&kernel, 1})) text += text_of(sum);
  text += worst_lines(kernel);
  std::map<std::string, std::multimap<unsigned, const LensSite*>> files;
  for (const LensSite& site : kernel.sites) files[site.lines[0].file].emplace(site.lines[0].line, &site);
  std::map<std::string, std::map<unsigned, std::uint64_t>> barriers;
  for (const auto& [line, times] : kernel.waits) barriers[line.file][line.line] += times;
  std::set<std::string> names;
  for (const auto& [file, sites] : files) names.insert(file);
  for (const auto& [file, lines] : barriers) names.insert(file);
  for (const std::string& file : names) text += file_text(file, files[file], barriers[file], all_lines);
  return text;
}

}  // namespace

std::string lens_text(const LensView& view, bool all_lines) {
  std::string text = fmt::format("{}\n", view.entry);
  for (const LensKernel& kernel : view.kernels) text += kernel_text(kernel, all_lines);
  return text;
}

std::string lens_comparison(std::span<const LensView> views) {
  std::map<std::pair<Space, Access>, std::vector<const LensSum*>> rows;
  std::vector<std::vector<LensSum>> sums;
  for (const LensView& view : views) sums.push_back(sums_of(view.kernels));
  for (std::size_t i = 0; i < views.size(); ++i) {
    for (const LensSum& sum : sums[i]) {
      auto& row = rows[{sum.space, sum.access}];
      row.resize(views.size());
      row[i] = &sum;
    }
  }
  std::size_t width = 12;
  for (const LensView& view : views) width = std::max(width, view.entry.size());
  std::string text = fmt::format("\n{:<24}", "");
  for (const LensView& view : views) text += fmt::format("  {:>{}}", view.entry, width);
  const auto line = [&](const std::string& name, const std::vector<const LensSum*>& row, auto value) {
    text += fmt::format("\n{:<24}", name);
    for (const LensSum* sum : row) text += fmt::format("  {:>{}}", sum == nullptr ? "-" : value(*sum), width);
  };
  for (const auto& [kind, row] : rows) {
    const std::string name = fmt::format("{} {}s", name_of(kind.first), name_of(kind.second));
    line(name, row, [](const LensSum& s) { return grouped(s.requests); });
    line("  lanes", row, [](const LensSum& s) { return fmt::format("{:.1f}", s.of_requests(s.lanes)); });
    line(fmt::format("  {} each", unit_of(kind.first)), row,
         [](const LensSum& s) { return fmt::format("{:.2f}", s.of_requests(s.cost)); });
    line(fmt::format("  {}", unit_of(kind.first)), row, [](const LensSum& s) { return grouped(s.cost); });
  }
  return text + "\n";
}

}  // namespace stages
