#include "common/judge/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "common/cli/machines/child.hpp"
#include "common/judge/exam.hpp"
#include "common/judge/student/counting.hpp"
#include "common/matrix/error.hpp"

namespace stages::judge {
namespace {

namespace fs = std::filesystem;

constexpr int kSpeedPoints = 20;       ///< of 100, where there is a real GPU
constexpr int kEfficiencyPoints = 20;  ///< of 100, where something is demanded and can be counted

void add_up(Grade& grade) {
  const auto counted = std::count_if(grade.classes.begin(), grade.classes.end(),
                                     [](const ClassGrade& c) { return c.counts(); });
  const auto good = std::count_if(grade.classes.begin(), grade.classes.end(),
                                  [](const ClassGrade& c) { return c.counts() && c.good(); });
  if (counted == 0 || !multiplies(grade) || !grade.broken.empty()) return;
  const int speed_points = grade.speed ? kSpeedPoints : 0;
  const int efficiency_points = grade.efficiency.empty() ? 0 : kEfficiencyPoints;
  grade.points = static_cast<int>((100 - speed_points - efficiency_points) * good / counted);
  const auto met = std::count_if(grade.efficiency.begin(), grade.efficiency.end(),
                                 [](const DemandGrade& d) { return d.reason.empty(); });
  if (met > 0) grade.points += static_cast<int>(efficiency_points * met / std::ssize(grade.efficiency));
  // Only what is right can be fast.
  if (grade.speed && good == counted)
    grade.points += static_cast<int>(kSpeedPoints * std::min(1.0, *grade.speed / kFastEnough));
}

/// What a student's program finds in its environment: the variables that our programs, a sanitizer, CUDA and
/// MPI read, and no others of this process.
std::vector<std::pair<std::string, std::string>> environment(const JudgeOptions& options) {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::size_t end = text.find('=');
    const std::string name = text.substr(0, end);
    const bool theirs = name.starts_with("STAGES_") || name.starts_with("CUDA_") ||
                        name.starts_with("OMPI_MCA_") || name == "LD_LIBRARY_PATH";
    if (theirs && end != std::string::npos) out.emplace_back(name, text.substr(end + 1));
  }
  const char* const asan = std::getenv("ASAN_OPTIONS");
  out.emplace_back(
      "ASAN_OPTIONS",
      fmt::format("{}{}detect_leaks=0:detect_stack_use_after_return=0:hard_rss_limit_mb={:.0f}",
                  asan != nullptr ? asan : "", asan != nullptr ? ":" : "", options.memory_limit * 1e3));
  for (const auto& [name, value] : {std::pair("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                    {"OMPI_MCA_mpi_yield_when_idle", "1"},
                                    {"OMPI_MCA_hwloc_base_binding_policy", "none"}})
    out.emplace_back(name, value);
  return out;
}

/// The words that start ranks, without their number: those of STAGES_MPIRUN, or mpirun. Throws Error where
/// there is no such program.
std::vector<std::string> starter_of_ranks() {
  std::vector<std::string> words = words_that_start_ranks({"mpirun"});
  if (found_on_path(words.front()).empty())
    fail("{}: there is no such program; install it (Debian: openmpi-bin), or name another in STAGES_MPIRUN",
         words.front());
  return words;
}

/// Why the kernels of the exercise's files cannot be counted; empty: they can.
std::string not_counted(const Exercise& exercise, const Entry& reference, const JudgeOptions& options) {
  if (exercise.demands.empty() && !options.lens) return "not counted: nothing is demanded";
  if (!reference.needs.gpu || exercise.ranks > 1) return "not counted: only kernels are";
  if (!can_count())
    return "not counted: kernels are counted on the executor, in a build by g++ without sanitizers";
  for (const char* const tool : {"objdump", "addr2line"}) {
    if (found_on_path(tool).empty())
      return fmt::format("not counted: there is no {}; install binutils", tool);
  }
  if (!options.built.empty() && options.counted.empty()) return "not counted: no program for that was built";
  return {};
}

}  // namespace

std::uint64_t seed_from(std::string_view name) {
  std::uint64_t seed = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed >> 1;  // there is room for the seeds behind it
}

Grade grade(const fs::path& file, const Exercise& exercise, const Registry& registry, const Places& places,
            const Confinement& confinement, const fs::path& scratch, const JudgeOptions& options) {
  Grade grade{.file = file.string(), .exercise = exercise};
  fs::permissions(scratch, fs::perms(0055), fs::perm_options::add);  // programs may be another user
  const Entry& reference = registry.find(exercise.reference);
  StudentProgram program;
  // Makes the program; returns why it cannot be made.
  const auto make = [&](Build build, const std::string& built, const char* what) {
    std::string errors;
    if (options.built.empty()) {
      options.begins(what);  // half a minute, and longer by nvcc
      errors = compile(file, exercise, places, confinement, scratch, build, program);
    } else {
      program = {.file = fs::absolute(built)};
    }
    if (errors.empty()) require_readable(program.file, confinement);
    return errors;
  };
  if (const std::string errors = make(Build::watched, options.built, "compiling"); !errors.empty()) {
    grade.broken = "does not compile:\n" + errors;
    return grade;
  }
  options.begins("running the battery");
  const fs::path directory = scratch / "run", home = scratch / "home";
  for (const fs::path& place : {directory, home}) fs::create_directory(place);
  confinement.give(home);
  const auto command_for_it = [&] {
    Command command{.environment = environment(options),
                    .directory = directory,
                    .reads = program.reads,
                    .home = home,
                    .gpu = reference.needs.gpu,
                    .limits = {.memory = options.memory_limit * 1e9}};
    command.reads.insert(command.reads.end(), {program.file, directory});
    if (exercise.ranks > 1) {
      command.words = starter_of_ranks();
      if (const fs::path mpi = installed_in(command.words.front()); !mpi.empty())
        command.reads.push_back(mpi);
      command.words.insert(command.words.end(), {"-n", std::to_string(exercise.ranks)});
    }
    for (const std::string& word : {program.file.string(), std::string("judge")})
      command.words.push_back(word);
    return command;
  };

  Exam exam{.exercise = exercise,
            .reference = reference,
            .confinement = confinement,
            .options = options,
            .grade = grade,
            .command = command_for_it(),
            .tasks = tasks_for(reference.op, options.size)};
  examine_cases(exam);
  if (!reference.needs.gpu && multiplies(grade)) examine_run(exam);
  if (const std::string why = not_counted(exercise, reference, options); !why.empty()) {
    if (!exercise.demands.empty()) grade.efficiency_note = why;
    grade.counts_note = why;
  } else {
    grade.counts_note = "not counted: only what is right is";
    for (const Demand& demand : exercise.demands)
      grade.efficiency.push_back({.text = demand.text, .reason = "only what is right is counted"});
    if (multiplies(grade)) {
      exam.student.reset();
      const std::string errors =
          make(Build::counted, options.counted, "compiling, for its kernels to be counted");
      if (errors.empty()) {
        examine_counts(exam, command_for_it());
      } else {
        grade.broken = "does not compile where its kernels are counted:\n" + errors;
      }
    }
  }
  if (all_right(grade) && !exercise.speed.empty()) compare_speed(exam);
  add_up(grade);
  return grade;
}

}  // namespace stages::judge
