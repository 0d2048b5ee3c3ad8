#include "common/judge/counted_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "common/harness/results.hpp"
#include "common/judge/text.hpp"

namespace stages::judge {
namespace {

constexpr std::size_t kMostShown = 200;  ///< rows, of a program that may tell anything
constexpr std::size_t kMostOfLine = 120;

std::string number(std::uint64_t count) { return grouped(static_cast<std::int64_t>(count)); }

std::string row(const CountedSite& site) {
  constexpr const char* kAccess[] = {"load", "store", "atomic"};
  const auto each = [&](std::uint64_t sum) {
    return static_cast<double>(sum) / static_cast<double>(site.requests);
  };
  const bool shared = site.space == CountedSpace::shared;
  return fmt::format(
      "    {:<13} {:>2} B {:>10} {:>5.1f} {:>6.2f} {:>6.2f}",
      fmt::format("{} {}", shared ? "shared" : "global", kAccess[static_cast<int>(site.access)]), site.bytes,
      number(site.requests), each(site.lanes), each(site.cost), each(site.least));
}

}  // namespace

CountedLine line_of(const CountedSite& site, const std::string& file) {
  const auto own =
      std::find_if(site.lines.begin(), site.lines.end(), [&](const auto& line) { return line.file == file; });
  return own != site.lines.end() ? *own : site.lines.empty() ? CountedLine{} : site.lines.front();
}

std::string counted_text(const Counts& counts, const std::string& file, std::string_view source) {
  // An instruction that touches several arrays is one row.
  std::map<std::tuple<bool, std::string, std::uint32_t>, std::vector<CountedSite>> lines;
  for (const CountedSite& site : counts.sites) {
    const CountedLine line = line_of(site, file);
    std::vector<CountedSite>& there = lines[{line.file != file, one_line(line.file, 100), line.line}];
    const auto same = std::find_if(there.begin(), there.end(), [&](const CountedSite& s) {
      return s.space == site.space && s.access == site.access && s.bytes == site.bytes;
    });
    if (same == there.end()) {
      there.push_back(site);
      continue;
    }
    same->requests += site.requests;
    same->lanes += site.lanes;
    same->cost += site.cost;
    same->least += site.least;
  }
  const std::vector<std::string_view> text = lines_of(source);
  std::string out = fmt::format("    {:<16} {:>12} {:>5} {:>6} {:>6}  {}\n", "access", "requests", "lanes",
                                "takes", "least", file);
  std::size_t shown = 0;
  for (const auto& [place, sites] : lines) {
    const auto& [elsewhere, name, line] = place;
    std::string code =
        elsewhere ? fmt::format("{}:{}", name.empty() ? "an unknown line" : name, line)
                  : fmt::format("{:>4} | {}", line,
                                line >= 1 && line <= text.size() ? one_line(text[line - 1], kMostOfLine)
                                                                 : std::string());
    for (const CountedSite& site : sites) {
      if (++shown > kMostShown) return out + "    ...\n";
      out += fmt::format("{}  {}\n", row(site), code);
      code = "     |";
    }
  }
  return out;
}

}  // namespace stages::judge
