#include "common/lens/races.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/lens/source.hpp"

namespace stages {
namespace {

using nlohmann::json;

json side_json(const simt::RaceAccess& access, const std::optional<simt::CodeLine>& line) {
  return {{"does", verb_of(access.access)},
          {"block", {access.block.x, access.block.y, access.block.z}},
          {"thread", {access.thread.x, access.thread.y, access.thread.z}},
          {"file", line ? json(line->file) : json()},
          {"line", line ? json(line->line) : json()}};
}

/// The line, and some of those around it.
std::string excerpt(const simt::CodeLine& line) {
  constexpr unsigned kAround = 3;
  const std::vector<std::string> source = lines_of_file(line.file);
  std::string text;
  const unsigned first = line.line > kAround ? line.line - kAround : 1;
  for (unsigned n = first; n <= line.line + kAround && n <= source.size(); ++n) {
    text += fmt::format("<tr{}><td class=code><span class=number>{:>4}</span> {}</tr>\n",
                        n == line.line ? " class=hot style=\"--share: 0.4\"" : "", n,
                        html_escaped(source[n - 1]));
  }
  return text;
}

std::string side_html(const simt::RaceAccess& access, const std::optional<simt::CodeLine>& line) {
  std::string text =
      fmt::format("<p>Block ({},{},{}) thread ({},{},{}) {}", access.block.x, access.block.y, access.block.z,
                  access.thread.x, access.thread.y, access.thread.z, verb_of(access.access));
  if (!line) return text + ".</p>\n";
  return text + fmt::format(" at {}:{}:</p>\n<div class=scroll><table>\n{}</table></div>\n",
                            html_escaped(line->file), line->line, excerpt(*line));
}

}  // namespace

RaceView look_for_races(const std::string& entry, const std::function<void()>& run) {
  RaceView view{.entry = entry, .races = {}, .problem = {}};
  simt::begin_races(true);
  try {
    run();
  } catch (const std::exception& error) {
    view.problem = error.what();
  }
  simt::RaceFindings found = simt::end_races();
  if (view.problem.empty()) view.problem = found.shortage;
  for (simt::Race& race : found.races) {
    const auto first = simt::own_line(race.first.code), second = simt::own_line(race.second.code);
    view.races.push_back({std::move(race), first, second});
  }
  return view;
}

std::string races_text(const RaceView& view) {
  std::string text;
  for (const FoundRace& found : view.races)
    text += fmt::format("{}: {} ({} times)\n", view.entry, text_of(found.race), counted(found.race.times));
  if (view.races.empty() && view.problem.empty()) text += fmt::format("{}: no race\n", view.entry);
  return text;
}

json races_json(const RaceView& view) {
  json races = json::array();
  for (const auto& [race, first, second] : view.races) {
    races.push_back({{"kind", kind_of(race)},
                     {"space", race.shared ? "shared" : "global"},
                     {"offset", race.offset},
                     {"array_bytes", race.bytes > 0 ? json(race.bytes) : json()},
                     {"first", side_json(race.first, first)},
                     {"second", side_json(race.second, second)},
                     {"missing", race.missing},
                     {"times", race.times}});
  }
  return {{"entry", view.entry},
          {"races", races},
          {"problem", view.problem.empty() ? json() : json(view.problem)}};
}

std::string races_html(const std::string& title, std::span<const RaceView> views) {
  std::string text =
      "<p>Two accesses of different threads to the same bytes, at least one of them a write, that nothing "
      "orders. Found on the executor in one product, by what orders threads and not by what happened to go "
      "wrong.</p>\n";
  for (const RaceView& view : views) {
    text += fmt::format("<h2>{}</h2>\n", html_escaped(view.entry));
    if (!view.problem.empty())
      text += fmt::format("<p>Only a part was looked at: {}</p>\n", html_escaped(view.problem));
    if (view.races.empty() && view.problem.empty()) text += "<p>No race.</p>\n";
    for (const auto& [race, first, second] : view.races) {
      text += fmt::format("<h3>{}, {}, {} times</h3>\n", kind_of(race), place_of(race), counted(race.times)) +
              side_html(race.first, first) + side_html(race.second, second) +
              fmt::format("<p>Missing: {}.</p>\n", html_escaped(race.missing));
    }
  }
  return html_page(title, text);
}

}  // namespace stages
