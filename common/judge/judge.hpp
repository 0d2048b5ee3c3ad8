#pragma once
// The judge: makes the cases, keeps the reference, has the student's process multiply, checks what comes
// back, and gives points with reasons. No code of the student's runs in it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/battery/battery.hpp"
#include "common/harness/registry.hpp"
#include "common/judge/compile.hpp"
#include "common/judge/confined.hpp"
#include "common/judge/exercise.hpp"
#include "common/judge/student/counts.hpp"

namespace stages::judge {

constexpr double kFastEnough = 0.7;  ///< of the reference's speed

struct ClassGrade {
  std::string name;
  int cases = 0;
  int passed = 0;
  int left_out = 0;
  std::string reason = {};  ///< why it has no points
  bool counts() const { return left_out < cases; }
  bool good() const { return reason.empty() && passed + left_out == cases; }
};

/// What became of a demand of the exercise.
struct DemandGrade {
  std::string text;
  std::string reason = {};  ///< why it is not met; empty: it is
};

struct Grade {
  std::string file;
  Exercise exercise;
  std::string broken = {};  ///< why nothing could be graded, such as a compiler's error
  std::vector<ClassGrade> classes = {};
  std::vector<DemandGrade> efficiency = {};
  std::string efficiency_note =
      {};  ///< why none of the demands was looked at; empty: they were, or there is none
  std::optional<Counts> counts = {};  ///< of a product, where JudgeOptions::lens asks for them
  std::string counts_note = {};       ///< of which product; or why there are none
  std::optional<double> speed = {};   ///< over the reference's; none: not timed here
  std::string speed_note = {};
  int points = 0;
};

struct JudgeOptions {
  battery::Size size = battery::Size::small;
  double time_limit = 20;   ///< seconds for a case
  std::uint64_t seed = 1;   ///< of the values that are multiplied
  double memory_limit = 4;  ///< gigabytes
  std::string built = {};   ///< the file's program, where it is there already; empty: it is built
  /// The one that is counted, likewise; empty beside `built`: nothing is counted.
  std::string counted = {};
  bool lens = false;  ///< what its kernels do is told, also where nothing is demanded
  std::function<void(const char* what)> begins = [](const char*) {};
};

/// A seed of a student's own, from what he is called. The same on every machine.
std::uint64_t seed_from(std::string_view name);

/// Grades a file, with `scratch` as the place for what does not stay. Throws Error where it is not the file
/// that is at fault.
Grade grade(const std::filesystem::path& file, const Exercise& exercise, const Registry& registry,
            const Places& places, const Confinement& confinement, const std::filesystem::path& scratch,
            const JudgeOptions& options);

}  // namespace stages::judge
