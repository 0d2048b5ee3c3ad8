#include "common/judge/formats.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "common/harness/results.hpp"

namespace stages::judge {
namespace {

using nlohmann::json;

json to_json(const Grade& g) {
  json classes = json::array();
  for (const ClassGrade& c : g.classes) {
    classes.push_back({{"class", c.name},
                       {"cases", c.cases},
                       {"passed", c.passed},
                       {"left_out", c.left_out},
                       {"counts", c.counts()},
                       {"good", c.good()},
                       {"reason", c.reason}});
  }
  json efficiency = json::array();
  for (const DemandGrade& d : g.efficiency)
    efficiency.push_back({{"demand", d.text}, {"met", d.reason.empty()}, {"reason", d.reason}});
  return {{"file", g.file},
          {"exercise", g.exercise.master.filename().string()},
          {"task", g.exercise.task},
          {"reference", g.exercise.reference},
          {"points", g.points},
          {"of", 100},
          {"broken", g.broken},
          {"classes", classes},
          {"efficiency", efficiency},
          {"efficiency_note", g.efficiency_note},
          {"speed", g.speed ? json(*g.speed) : json(nullptr)},
          {"speed_note", g.speed_note}};
}

std::string dump(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

/// A class of input that counts, or a demand.
struct Part {
  std::string name;
  bool good = false;
  std::string said;  ///< how many cases it has; why it is lost
};

std::vector<Part> parts_of(const Grade& g) {
  std::vector<Part> parts;
  for (const ClassGrade& c : g.classes)
    if (c.counts())
      parts.push_back({c.name, c.good(), c.good() ? fmt::format("{} cases", c.passed) : c.reason});
  for (const DemandGrade& d : g.efficiency) parts.push_back({d.text, d.reason.empty(), d.reason});
  return parts;
}

}  // namespace

std::string grades_as_json(const std::vector<Grade>& grades, const std::string& stage, bool confined) {
  json all = json::array();
  for (const Grade& g : grades) all.push_back(to_json(g));
  return dump({{"schema_version", 1}, {"stage", stage}, {"confined", confined}, {"grades", all}});
}

std::string grades_as_gradescope(const std::vector<Grade>& grades) {
  json tests = json::array();
  int score = 0;
  for (const Grade& g : grades) {
    const std::string file = g.exercise.master.filename().string();
    score += g.points;
    // What has points is the file: a class has its share of them only where others are right, too.
    tests.push_back({{"name", file},
                     {"score", g.points},
                     {"max_score", 100},
                     {"status", g.points == 100 ? "passed" : "failed"},
                     {"output", g.broken.empty() ? g.exercise.task : g.broken}});
    for (const Part& part : parts_of(g))
      tests.push_back({{"name", fmt::format("{}: {}", file, part.name)},
                       {"status", part.good ? "passed" : "failed"},
                       {"output", part.said}});
    if (!g.speed_note.empty()) tests.push_back({{"name", file + ": speed"}, {"output", g.speed_note}});
  }
  return dump({{"score", score}, {"output_format", "text"}, {"tests", tests}});
}

std::string grades_as_classroom50(const std::vector<Grade>& grades) {
  json result = {{"schema", "classroom50/result/v1"}};
  // Who, for what and when: its runner knows.
  const auto say = [&](const char* field, const char* value) {
    if (value != nullptr && *value != '\0') result[field] = value;
  };
  say("classroom", std::getenv("CLASSROOM"));
  say("assignment", std::getenv("ASSIGNMENT"));
  say("assignment_type", std::getenv("ASSIGNMENT_TYPE"));
  say("owner", std::getenv("OWNER"));
  say("submission", std::getenv("SUBMISSION_TAG"));
  say("commit", std::getenv("COMMIT_URL"));
  say("release", std::getenv("RELEASE_URL"));
  say("review", std::getenv("COMMIT_URL"));  // unless there is something to compare with
  say("review", std::getenv("REVIEW_URL"));
  result["datetime"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  json tests = json::array();
  int score = 0;
  for (const Grade& g : grades) {
    const std::string file = g.exercise.master.filename().string();
    score += g.points;
    const auto add = [&](const std::string& name, bool passed, int points, int of,
                         const std::string& output) {
      tests.push_back({{"test-name", name},
                       {"passed", passed},
                       {"score", points},
                       {"max-score", of},
                       {"output", output}});
    };
    add(file, g.points == 100, g.points, 100, g.broken.empty() ? g.exercise.task : g.broken);
    for (const Part& part : parts_of(g))
      add(fmt::format("{}: {}", file, part.name), part.good, 0, 0, part.said);
  }
  result["score"] = score;
  result["max-score"] = 100 * grades.size();
  result["tests"] = std::move(tests);
  return dump(result);
}

std::string grades_as_junit(const std::vector<Grade>& grades, const std::string& stage) {
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const Grade& g : grades) {
    std::string cases;
    int count = 0, failures = 0;
    const auto add = [&](const std::string& name, const std::string& reason) {
      ++count;
      failures += !reason.empty();
      cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", as_markup(stage), as_markup(name));
      cases += reason.empty()
                   ? "/>\n"
                   : fmt::format(">\n      <failure message=\"{}\"/>\n    </testcase>\n", as_markup(reason));
    };
    if (!g.broken.empty()) add("before the first case", g.broken);
    for (const Part& part : parts_of(g)) add(part.name, part.good ? std::string() : part.said);
    out += fmt::format(
        "  <testsuite name=\"{}: {} of 100 points\" tests=\"{}\" failures=\"{}\">\n{}  </testsuite>\n",
        as_markup(g.file), g.points, count, failures, cases);
  }
  return valid_utf8(out + "</testsuites>\n");
}

}  // namespace stages::judge
