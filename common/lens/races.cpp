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

}  // namespace stages
