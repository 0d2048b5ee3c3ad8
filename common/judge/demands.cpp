#include "common/judge/demands.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

#include "common/cli/machines/child.hpp"
#include "common/harness/results.hpp"
#include "common/judge/counted_text.hpp"
#include "common/judge/text.hpp"
#include "common/matrix/error.hpp"

namespace stages::judge {
namespace {

using What = Demand::What;

constexpr double kSectorBytes = 32, kMostOfLane = 16;
constexpr std::uint64_t kMostCount = std::uint64_t{1} << 48;

/// A number, with commas between its thousands or without.
double number_of(const std::string& word, std::string_view line) {
  std::string digits = word;
  std::erase(digits, ',');
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || !(value >= 0))
    fail("'{}': '{}' is no number", line, word);
  return value;
}

const std::vector<std::pair<std::string, What>> kCounts = {
    {"sectors", What::cost},     {"wavefronts", What::cost},   {"requests", What::requests},
    {"lanes", What::lanes},      {"launches", What::launches}, {"threads", What::threads},
    {"barriers", What::barriers}};
const std::vector<std::pair<std::string, std::optional<CountedAccess>>> kAccesses = {
    {"loads", CountedAccess::load},
    {"stores", CountedAccess::store},
    {"atomics", CountedAccess::atomic},
    {"accesses", std::nullopt}};
const std::vector<std::string> kArrays = {"x", "y", "b", "c", "values", "columns", "rows"};

template <class T>
const T& choice(const std::vector<std::pair<std::string, T>>& choices, const std::string& word,
                std::string_view line) {
  std::string names;
  for (const auto& [name, value] : choices) {
    if (name == word) return value;
    names += (names.empty() ? "" : ", ") + name;
  }
  fail("'{}': '{}' is none of {}", line, word, names);
}

bool is_of_launches(What what) {
  return what == What::launches || what == What::threads || what == What::barriers;
}

bool selects(const Demand& demand, const CountedSite& site) {
  return site.space == demand.space && (!demand.access || site.access == *demand.access) &&
         (demand.array.empty() || site.array == demand.array);
}

std::uint64_t amount(What what, const CountedSite& site) {
  return what == What::cost ? site.cost : what == What::lanes ? site.lanes : site.requests;
}

std::string place(const CountedSite& site, const std::string& file) {
  const CountedLine line = line_of(site, file);
  return line.file.empty() ? "an unknown line" : fmt::format("{}:{}", one_line(line.file, 100), line.line);
}

/// "4.5" and "12,000".
std::string number_text(double value) {
  if (value == static_cast<double>(static_cast<std::int64_t>(value)))
    return grouped(static_cast<std::int64_t>(value));
  return fmt::format("{:.3g}", value);
}

/// The sites of one line together.
struct Line {
  double sum = 0, requests = 0;
};

std::string broken_by_sites(const Demand& demand, const Counts& counts, const std::string& file) {
  std::map<std::string, Line> lines;
  Line all;
  for (const CountedSite& site : counts.sites) {
    if (!selects(demand, site)) continue;
    Line& line = lines[place(site, file)];
    for (Line* const to : {&line, &all}) {
      to->sum += static_cast<double>(amount(demand.what, site));
      to->requests += static_cast<double>(site.requests);
    }
  }
  if (all.requests == 0 && (demand.each || !demand.array.empty()))
    return "no such access was counted, in all that its kernels do";
  const auto value = [&](const Line& line) { return demand.each ? line.sum / line.requests : line.sum; };
  if (demand.at_least ? value(all) >= demand.limit : value(all) <= demand.limit) return {};
  // The line that is furthest from it.
  const auto excess = [&](const Line& line) {
    const double beyond = line.sum - (demand.each ? demand.limit * line.requests : 0);
    return demand.at_least ? -beyond : beyond;
  };
  const auto worst = std::max_element(lines.begin(), lines.end(), [&](const auto& a, const auto& b) {
    return excess(a.second) < excess(b.second);
  });
  const std::string together = number_text(value(all));
  if (worst == lines.end()) return "it is " + together;
  const std::string here =
      demand.each ? fmt::format("{} a request, in {} requests", number_text(value(worst->second)),
                                number_text(worst->second.requests))
                  : number_text(value(worst->second));
  return lines.size() == 1 ? fmt::format("{}: {}", worst->first, here)
                           : fmt::format("{}: {}; all lines together: {}", worst->first, here, together);
}

std::string broken_by_conflicts(const Counts& counts, const std::string& file) {
  const CountedSite* worst = nullptr;
  for (const CountedSite& site : counts.sites) {
    if (site.space != CountedSpace::shared || site.cost <= site.least) continue;
    if (worst == nullptr || site.cost - site.least > worst->cost - worst->least) worst = &site;
  }
  if (worst == nullptr) return {};
  return fmt::format("{}: {} wavefronts, and {} without conflicts", place(*worst, file),
                     number_text(static_cast<double>(worst->cost)),
                     number_text(static_cast<double>(worst->least)));
}

}  // namespace

std::optional<Demand> demand_of(std::string_view line) {
  if (!line.starts_with("// ")) return std::nullopt;
  const std::string_view text = line.substr(3);
  Demand demand{.text = std::string(text)};
  if (text == "No race") return demand;
  if (text == "No bank conflict") {
    demand.what = What::no_conflict;
    return demand;
  }
  demand.at_least = text.starts_with("At least: ");
  if (!demand.at_least && !text.starts_with("At most: ")) return std::nullopt;
  const std::vector<std::string> rest = words_in(text.substr(text.find(':') + 1));
  auto next = rest.begin();
  const auto take = [&] { return next == rest.end() ? std::string() : *next++; };
  const auto skip = [&](const char* word) {
    if (next == rest.end() || *next != word) return false;
    ++next;
    return true;
  };
  demand.limit = number_of(take(), text);
  const std::string what = take();
  demand.what = choice(kCounts, what, text);
  if (what == "wavefronts") demand.space = CountedSpace::shared;
  if (skip("a")) {
    if (!skip("request") || demand.what == What::requests || is_of_launches(demand.what))
      fail("'{}': only sectors, wavefronts and lanes are counted 'a request'", text);
    demand.each = true;
  }
  if (!is_of_launches(demand.what) && skip("in")) {
    if (what != "wavefronts" && what != "sectors" && skip("shared")) demand.space = CountedSpace::shared;
    if (demand.space == CountedSpace::shared) {
      skip("shared");
    } else {
      skip("global");
    }
    demand.access = choice(kAccesses, take(), text);
    if (demand.space == CountedSpace::global && skip("of")) {
      demand.array = take();
      if (std::find(kArrays.begin(), kArrays.end(), demand.array) == kArrays.end())
        fail("'{}': '{}' is none of {}", text, demand.array, fmt::join(kArrays, ", "));
    }
  }
  if (next != rest.end())
    fail("'{}': '{}' is too much; docs/exercises.md has what can be demanded", text, *next);
  return demand;
}

CountedOn counted_on(std::string_view text) {
  CountedOn on;
  if (text.empty()) return on;
  const std::size_t end = std::min(text.find(';'), text.size());
  on.matrix = text.substr(0, end);
  std::istringstream words{std::string(text.substr(std::min(end + 1, text.size())))};
  int number = 0;
  std::string what;
  if (end < text.size()) {
    if (!(words >> number >> what) || number < 1 || (what != "vectors" && what != "columns"))
      fail("'Counted on: {}': behind the matrix stands a number of vectors or columns", text);
    (what == "vectors" ? on.vectors : on.columns) = number;
  }
  return on;
}

std::string broken_by(const Demand& demand, const Counts& counts, const RaceCounts& races,
                      const std::string& file) {
  const auto launched = [&](std::uint64_t count, const char* what) {
    const auto value = static_cast<double>(count);
    const bool met = demand.at_least ? value >= demand.limit : value <= demand.limit;
    return met ? std::string() : fmt::format("there are {} {}", number_text(value), what);
  };
  switch (demand.what) {
    case What::launches: return launched(counts.launches, "launches");
    case What::threads: return launched(counts.threads, "threads");
    case What::barriers: return launched(counts.barriers, "barriers that a block or a warp comes to");
    case What::no_conflict: return broken_by_conflicts(counts, file);
    case What::no_race:
      return without_directories(one_line(races.races > 0 ? races.first : races.shortage, 1000));
    default: return broken_by_sites(demand, counts, file);
  }
}

std::string implausible(const Counts& counts, const LeastBytes& least) {
  constexpr const char* kNone = "its counts are none";
  double loaded = 0, loaded_by_lanes = 0, stored = 0;
  if (std::max({counts.launches, counts.threads, counts.barriers, counts.read_bytes}) > kMostCount)
    return kNone;
  for (const CountedSite& site : counts.sites) {
    const bool shared = site.space == CountedSpace::shared;
    if (std::max({site.requests, site.lanes, site.cost, site.least}) > kMostCount || site.requests == 0 ||
        site.lanes < site.requests || site.lanes > 32 * site.requests || site.cost < site.requests ||
        site.cost < site.least || site.cost > 64 * site.requests || site.bytes > kMostOfLane ||
        site.bytes == 0)
      return kNone;
    if (shared) continue;
    const double bytes = static_cast<double>(site.cost) * kSectorBytes;
    (site.access == CountedAccess::load ? loaded : stored) += bytes;
    if (site.access == CountedAccess::load) loaded_by_lanes += static_cast<double>(site.lanes) * site.bytes;
  }
  const double read = std::min({loaded, loaded_by_lanes, static_cast<double>(counts.read_bytes)});
  if (read < least.read)
    return fmt::format("its kernels read {} bytes in run(), and such a product needs {} at least",
                       number_text(read), number_text(least.read));
  if (stored < least.written)
    return fmt::format("its kernels write {} bytes in run(), and such a product needs {} at least",
                       number_text(stored), number_text(least.written));
  return {};
}

}  // namespace stages::judge
