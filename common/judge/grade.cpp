// stages grade: has the judge grade students' files, and tells what came of it.

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "common/cli/last_words.hpp"
#include "common/cli/terminal.hpp"
#include "common/harness/results.hpp"
#include "common/judge/counted_text.hpp"
#include "common/judge/formats.hpp"
#include "common/judge/grade.hpp"
#include "common/judge/judge.hpp"
#include "common/judge/text.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"
#include "common/matrix/temporary_files.hpp"

namespace stages::judge {
namespace {

namespace fs = std::filesystem;

struct GradeOptions {
  std::string stage, file;
  std::string format = "text";
  bool as_json = false;  ///< the same as format "json"
  std::string size = "small";
  int hints = 0;  ///< how many are shown, and nothing is graded; 0: none
  std::string seed_from;
  JudgeOptions judging;
};

std::string file_name(const fs::path& path) { return path.filename().string(); }

/// The stage with exercises that is named, by its directory or by its number. Throws Error for one that is
/// not there or was left out of this build.
std::string stage_for(std::string wanted, const Program& program) {
  const fs::path root = STAGES_ROOT;
  if (!fs::exists(fs::path(STAGES_BUILD) / "CMakeCache.txt") || !fs::is_directory(root))
    fail("{} is gone: grading builds there; configure and build the project again", STAGES_BUILD);
  std::vector<std::string> names;
  for (const auto& directory : fs::directory_iterator(root)) {
    const std::string name = file_name(directory.path());
    if (name != "tests" && !sources_in(directory.path() / "exercises").empty()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  const std::vector<std::string_view> known(names.begin(), names.end());
  while (wanted.ends_with('/')) wanted.pop_back();  // as the shell completes a directory's name
  const auto found = std::find_if(known.begin(), known.end(), [&](std::string_view name) {
    return name == wanted || name.substr(0, name.find('_')) == wanted;
  });
  if (found == known.end()) fail("'{}' is no stage with exercises; {}", wanted, nearest_names(wanted, known));
  for (const LeftOut& left : program.left_out)
    if (left.name == *found) fail("{}: left out of this build: it needs {}", *found, left.needs);
  return std::string(*found);
}

/// Throws Error unless it is a file that can be read.
void require_file(const fs::path& file, const std::string& stage) {
  std::error_code why;
  const fs::file_status status = fs::status(file, why);
  if (status.type() == fs::file_type::not_found)
    fail("{}: there is no such file; tools/exercises.py {} makes the files", file.string(), stage);
  if (fs::is_symlink(file, why))  // to what its author may not read, perhaps, and would be shown in messages
    fail("{}: is a link; name the file itself", file.string());
  if (fs::is_directory(status)) fail("{}: is a directory; name a file in it", file.string());
  if (!why && !fs::is_regular_file(status)) fail("{}: is no file; name a source", file.string());
  if (access(file.c_str(), R_OK) != 0)
    fail("{}: cannot be read: {}; change its permissions", file.string(), std::strerror(errno));
}

Grade grade_file(const fs::path& file, const GradeOptions& options, const Program& program,
                 const Confinement& confinement) {
  require_file(file, options.stage);
  const Exercise exercise = exercise_for(fs::path(STAGES_ROOT) / options.stage, file);
  for (const LeftOut& left : program.left_out) {  // a step of which a micro-exercise is
    if (exercise.reference.starts_with(left.name + "/"))
      fail("{}: {} is left out of this build: it needs {}", file.string(), left.name, left.needs);
  }
  const Places places{.root = STAGES_ROOT, .build = STAGES_BUILD, .cmake = STAGES_CMAKE};
  const TemporaryDirectory scratch("stages-grade");
  const LastWords last_words([&](const std::string&) {
    confinement.end_all();
    scratch.clear();
  });
  JudgeOptions judging = options.judging;
  judging.begins = [&](const char* what) { print_stderr("{}: {}\n", printable(file.string()), what); };
  return grade(file, exercise, program.registry, places, confinement, scratch.path(), judging);
}

/// What its kernels did to memory, beside the source.
void print_counts(const Grade& g) {
  if (!g.counts) {
    fmt::print("\n  {}\n", g.counts_note);
    return;
  }
  fmt::print("\n  What its kernels did in a product of {} (docs/lens.md explains the columns):\n{}",
             g.counts_note, counted_text(*g.counts, file_name(g.exercise.master), read_text(g.file)));
}

void print_text(const Grade& g) {
  const bool colour = wants_colour(stdout);
  const auto paint = [&](bool good, const std::string& text) {
    return colour ? fmt::format("\033[{}m{}\033[0m", good ? 32 : 31, text) : text;
  };
  fmt::print("{}: {} of 100 points\n", printable(g.file), g.points);
  fmt::print("  {}\n", g.exercise.task);
  if (!g.broken.empty()) {
    std::string text;
    for (const std::string_view line : lines_of(g.broken)) text += "\n    " + printable(line);
    fmt::print("  {}\n", text.substr(5));
    return;
  }
  for (const ClassGrade& c : g.classes) {
    if (!c.counts()) {
      fmt::print("  {}  {:<29} {} cases, none for this exercise\n", "-   ", c.name, c.cases);
    } else if (c.good()) {
      fmt::print("  {}  {:<29} {} cases\n", paint(true, "good"), c.name, c.passed);
    } else {
      fmt::print("  {}  {:<29} {}\n", paint(false, "lost"), c.name, printable(c.reason));
    }
  }
  for (const DemandGrade& d : g.efficiency)
    fmt::print("  {}  efficiency: {}{}\n", paint(d.reason.empty(), d.reason.empty() ? "good" : "lost"),
               d.text, d.reason.empty() ? "" : "\n        " + printable(d.reason));
  if (!g.efficiency_note.empty()) fmt::print("  -     {:<29} {}\n", "efficiency", g.efficiency_note);
  if (!g.speed_note.empty())
    fmt::print("  {}  {:<29} {}\n",
               g.speed ? paint(*g.speed >= kFastEnough, *g.speed >= kFastEnough ? "good" : "slow") : "-   ",
               "speed", g.speed_note);
}

/// The first hints of the exercise that has the file's name. The file need not be there.
int show_hints(const GradeOptions& options) {
  if (options.file.empty())
    fail("--hint needs an exercise: stages grade {} EXERCISE --hint {}", options.stage, options.hints);
  const Exercise exercise = exercise_for(fs::path(STAGES_ROOT) / options.stage, options.file);
  const std::vector<std::string> hints = hints_of(exercise.master);
  fmt::print("{}: {}\n", file_name(exercise.master), exercise.task);
  if (hints.empty()) fmt::print("  This exercise has no hints.\n");
  const std::size_t shown = std::min(hints.size(), static_cast<std::size_t>(options.hints));
  for (std::size_t k = 0; k < shown; ++k) fmt::print("  {} of {}: {}\n", k + 1, hints.size(), hints[k]);
  if (shown < hints.size()) fmt::print("  The next one: --hint {}\n", shown + 1);
  return kGood;
}

int work(GradeOptions options, const Program& program) {
  options.stage = stage_for(options.stage, program);
  if (options.hints > 0) return show_hints(options);
  if (options.as_json && options.format != "text" && options.format != "json")
    fail("--json and --format {} are two forms; leave one of them out", options.format);
  if (options.as_json) options.format = "json";
  JudgeOptions& judging = options.judging;
  if (judging.lens && options.format != "text") fail("--lens prints a text; leave --format and --json out");
  if (judging.seed != 1 && !options.seed_from.empty())
    fail("--seed and --seed-from both name a seed; leave one of them out");
  if (!options.seed_from.empty()) judging.seed = seed_from(options.seed_from);
  if (options.size == "full") judging.size = battery::Size::full;
  std::vector<fs::path> files;
  if (!options.file.empty()) {
    files = {options.file};
  } else {
    const fs::path mine = fs::path(STAGES_ROOT) / options.stage / "exercises" / "mine";
    files = sources_in(mine);
    if (files.empty())
      fail("{}/exercises/mine holds no files; make them by tools/exercises.py {}", options.stage,
           options.stage);
  }
  for (const fs::path& file : files) {  // before the first one is graded
    require_file(file, options.stage);
    exercise_for(fs::path(STAGES_ROOT) / options.stage, file);
  }
  const Confinement confinement;
  if (!confinement.note().empty())
    print_stderr("NOT CONFINED: {}; docs/exercises.md says what follows from that\n", confinement.note());
  std::vector<Grade> grades;
  for (const fs::path& file : files) {
    grades.push_back(grade_file(file, options, program, confinement));
    if (options.format == "text") print_text(grades.back());
    if (judging.lens) print_counts(grades.back());
  }
  if (options.format == "json")
    fmt::print("{}", grades_as_json(grades, options.stage, confinement.note().empty()));
  if (options.format == "gradescope") fmt::print("{}", grades_as_gradescope(grades));
  if (options.format == "classroom50") fmt::print("{}", grades_as_classroom50(grades));
  if (options.format == "junit") fmt::print("{}", grades_as_junit(grades, options.stage));
  const bool full = std::all_of(grades.begin(), grades.end(), [](const Grade& g) { return g.points == 100; });
  return full ? kGood : kWrongResult;
}

}  // namespace

void add_grade_command(CommandLine& line, const Program& program) {
  stages::Command command =
      line.add("grade", "Grade exercises: build a student's file, run the battery, give points");
  const auto options = std::make_shared<GradeOptions>();
  command.option("STAGE", options->stage, "The stage, by name or number: 05_cuda_csr, 05",
                 {.required = true});
  command.option("FILE", options->file,
                 "The student's file, named like its exercise; without it all in STAGE/exercises/mine");
  command.option("--format", options->format,
                 "What is printed: for people, scripts, Gradescope, Classroom 50, or CI services",
                 {.type = "FORM",
                  .one_of = {"text", "json", "gradescope", "classroom50", "junit"},
                  .shows_default = true});
  command.flag("--json", options->as_json, "The same as --format json");
  command.option("--battery", options->size, "small: a case of each kind; full: all",
                 {.type = "SIZE", .one_of = {"small", "full"}, .shows_default = true});
  command.option("--hint", options->hints, "Show the first N hints to the exercise FILE, and grade nothing",
                 {.type = "N", .least = 1, .most = 9});
  command.flag("--lens", options->judging.lens, "Then show what each line of a right kernel does to memory");
  command.option("--time-limit", options->judging.time_limit, "Seconds that one case may take",
                 {.type = "S", .least = 0.1, .most = 3600.0, .shows_default = true});
  command.option("--seed", options->judging.seed, "Seed of the values that are multiplied",
                 {.type = "N", .shows_default = true});
  command.option("--seed-from", options->seed_from,
                 "Instead a seed from a name, such as a student's: the same name has the same values",
                 {.type = "NAME", .not_empty = true});
  command.option("--memory-limit", options->judging.memory_limit,
                 "Gigabytes that the student's program may take",
                 {.type = "GB", .least = 0.1, .most = 1e6, .shows_default = true});
  // By our tests.
  command.option("--built", options->judging.built, "The program of FILE, built before", {.hidden = true});
  command.option("--counted", options->judging.counted, "The one that is counted, built before",
                 {.hidden = true});
  command.footer([&program] {
    return examples(program, {{"grade 05_cuda_csr", "all of your files for that step"},
                              {"grade 05_cuda_csr my/warp_per_row.cu --json", "one file, for scripts"},
                              {"grade 05_cuda_csr my/warp_per_row.cu --lens",
                               "and what each of its lines does to memory"},
                              {"grade micro 06_thread_index.cu --hint 1", "a first hint"}}) +
           "  tools/handins.py 05_cuda_csr handins -o lab5\n"
           "      a class: one file or directory for each student, several at once, into a table and a page\n"
           "  tools/make-autograder.sh --gradescope lab5.zip 05_cuda_csr/exercises/row_lengths.cu\n"
           "      a lab for Gradescope; --classroom50 DIR: for Classroom 50\n"
           "\nExit codes: 0 full points everywhere; 1 not so; 2 bad usage.";
  });
  command.does([&program, options] { return work(*options, program); });
}

}  // namespace stages::judge
