#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/lens/source.hpp"

namespace stages {
namespace {

using nlohmann::json;

/// File and line are null where they cannot be found.
json side_json(const simt::RaceAccess& access) {
  const std::optional<simt::CodeLine> line = simt::own_line(access.code);
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
  view.races = std::move(found.races);
  return view;
}

std::string races_text(const RaceView& view) {
  std::string text;
  for (const simt::Race& race : view.races)
    text += fmt::format("{}: {} ({} times)\n", view.entry, text_of(race), counted(race.times));
  if (view.races.empty() && view.problem.empty()) text += fmt::format("{}: no race\n", view.entry);
  return text;
}

json races_json(const RaceView& view) {
  json races = json::array();
  for (const simt::Race& race : view.races) {
    races.push_back({{"kind", kind_of(race)},
                     {"space", race.shared ? "shared" : "global"},
                     {"offset", race.offset},
                     {"array_bytes", race.bytes > 0 ? json(race.bytes) : json()},
                     {"first", side_json(race.first)},
                     {"second", side_json(race.second)},
                     {"missing", race.missing},
                     {"times", race.times}});
  }
  return {{"entry", view.entry},
          {"races", races},
          {"problem", view.problem.empty() ? json() : json(view.problem)}};
}

}  // namespace stages
