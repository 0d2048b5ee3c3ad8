#include "common/judge/exercise.hpp"

#include <algorithm>
#include <cstdlib>

#include "common/judge/text.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"

namespace stages::judge {
namespace {

namespace fs = std::filesystem;

/// What follows "// NAME: " at the beginning of a line; empty: there is no such line.
std::string field(const std::string& text, const std::string& name) {
  const std::string head = "// " + name + ": ";
  for (const std::string_view line : lines_of(text)) {
    if (line.starts_with(head)) return std::string(line.substr(head.size()));
  }
  return {};
}

Exercise exercise_of(const fs::path& master) {
  const std::string text = read_text(master);
  const std::string ranks = field(text, "Ranks");
  Exercise exercise{.master = master,
                    .task = field(text, "Task"),
                    .reference = field(text, "Reference"),
                    .ranks = ranks.empty() ? 1 : std::atoi(ranks.c_str()),
                    .speed = field(text, "Speed")};
  try {
    for (const std::string_view line : lines_of(text)) {
      if (auto demand = demand_of(line)) exercise.demands.push_back(std::move(*demand));
    }
    exercise.counted_on = counted_on(field(text, "Counted on"));
  } catch (const Error& error) {
    fail("{}: {}", master.string(), error.what());
  }
  return exercise;
}

}  // namespace

std::vector<fs::path> sources_in(const fs::path& directory) {
  std::vector<fs::path> out;
  std::error_code none;
  for (const auto& file : fs::directory_iterator(directory, none)) {
    const std::string kind = file.path().extension();
    if (file.is_regular_file(none) && (kind == ".cu" || kind == ".cpp")) out.push_back(file.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

Exercise exercise_for(const fs::path& stage, const fs::path& file) {
  const std::vector<fs::path> masters = sources_in(stage / "exercises");
  std::vector<std::string> names;
  for (const fs::path& master : masters) {
    if (master.filename() == file.filename()) return exercise_of(master);
    names.push_back(master.filename().string());
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  fail("{}: {} has no exercise of that name; {}; a file keeps the name of its exercise", file.string(),
       stage.filename().string(), nearest_names(file.filename().string(), known));
}

std::vector<std::string> hints_of(const std::filesystem::path& master) {
  constexpr std::string_view kBegin = "// Hint: ", kMore = "//   ";
  std::vector<std::string> hints;
  bool in_hint = false;
  const std::string text = read_text(master);
  for (const std::string_view line : lines_of(text)) {
    if (line.starts_with(kBegin)) {
      hints.emplace_back(line.substr(kBegin.size()));
      in_hint = true;
    } else if (in_hint && line.starts_with(kMore)) {
      hints.back().append(" ").append(line.substr(kMore.size()));
    } else {
      in_hint = false;
    }
  }
  return hints;
}

}  // namespace stages::judge
