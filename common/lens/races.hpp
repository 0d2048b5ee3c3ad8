#pragma once
// The races that one product of an entry has, for people and for programs.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/lens/recording/code.hpp"
#include "common/lens/recording/races.hpp"

namespace stages {

/// A race with the lines of both accesses; nothing where a line cannot be found.
struct FoundRace {
  simt::Race race;
  std::optional<simt::CodeLine> first, second;
};

struct RaceView {
  std::string entry;
  std::vector<FoundRace> races;
  std::string problem;  ///< why not all of it was looked at; empty: it was
};

/// Looks for races in the kernels that `run` launches.
RaceView look_for_races(const std::string& entry, const std::function<void()>& run);

/// A line for each race, or one that says that there is none; none of either where there is a problem.
std::string races_text(const RaceView& view);

nlohmann::json races_json(const RaceView& view);

}  // namespace stages
