// stages grade: builds a student's file for an exercise, runs the battery on it, and gives points with
// reasons.
//
// The file is compiled together with tests/grade/child.cpp into a program of its own, by the build system
// that built this program, so that it meets the same compiler and the same backend. That program runs under
// watch. It notes each case before it begins: when it dies, the last note says on what. A class of input
// gives its points only if all of its cases pass, and the classes after one that failed get a fresh process.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>

#include "common/cli/child.hpp"
#include "common/cli/commands.hpp"
#include "common/cli/last_words.hpp"
#include "common/cli/terminal.hpp"
#include "common/cli/watched.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"
#include "common/matrix/temporary_files.hpp"

namespace stages {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr double kBuildSeconds = 600;
constexpr double kSpeedSeconds = 120;  ///< both entries are timed
constexpr int kSpeedPoints = 20;       ///< of 100, where there is a real GPU
constexpr double kFastEnough = 0.7;    ///< of the reference's speed

struct GradeOptions {
  std::string stage;
  std::string file;
  bool as_json = false;
  std::string size = "small";
  double time_limit = 20;
  double memory_limit_gb = 4;
  std::string built;  ///< the file's program, where it is there already; empty: it is built
};

/// An exercise, as the head of its master file describes it.
struct Exercise {
  fs::path master;
  std::string task;       ///< one line
  std::string reference;  ///< the entry that it must be as good as
  int ranks = 1;
  std::string speed;  ///< spec of the matrix on which speed is compared; empty: it is not
};

struct ClassGrade {
  std::string name;
  int cases = 0;
  int passed = 0;
  int left_out = 0;
  std::string reason = {};  ///< why it has no points
  bool counts() const { return left_out < cases; }
  bool good() const { return reason.empty() && passed + left_out == cases; }
};

struct Grade {
  std::string file;
  Exercise exercise;
  std::string broken = {};  ///< why nothing could be graded, such as a compiler's error
  std::vector<ClassGrade> classes = {};
  std::optional<double> speed = {};  ///< over the reference's; none: not timed here
  std::string speed_note = {};
  int points = 0;
};

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string file_name(const fs::path& path) {
  return path.filename().string();
}

/// The lines of a text. Searched as they are: a line of a compiler may be long, and std::regex recurses over
/// it.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool holds(std::string_view line, std::string_view what) {
  return line.find(what) != std::string_view::npos;
}

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
  return {.master = master,
          .task = field(text, "Task"),
          .reference = field(text, "Reference"),
          .ranks = ranks.empty() ? 1 : std::atoi(ranks.c_str()),
          .speed = field(text, "Speed")};
}

bool is_source(const fs::path& path) {
  return path.extension() == ".cu" || path.extension() == ".cpp";
}

std::vector<fs::path> sources_in(const fs::path& directory) {
  std::vector<fs::path> out;
  std::error_code none;
  for (const auto& file : fs::directory_iterator(directory, none)) {
    if (file.is_regular_file() && is_source(file.path())) out.push_back(file.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// The exercise of a stage that has the file's name.
Exercise exercise_for(const std::string& stage, const fs::path& file) {
  const fs::path directory = fs::path(STAGES_ROOT) / stage / "exercises";
  const std::vector<fs::path> masters = sources_in(directory);
  std::vector<std::string> names;
  for (const fs::path& master : masters) {
    if (master.filename() == file.filename()) return exercise_of(master);
    names.push_back(file_name(master));
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  fail("{}: {} has no exercise of that name; {}; a file keeps the name of its exercise", file.string(), stage,
       nearest_names(file_name(file), known));
}

/// The stage with exercises that is named, by its directory or by its number. Throws Error for one that is
/// not there or was left out of this build.
std::string stage_for(std::string wanted, const Program& program) {
  const fs::path root = STAGES_ROOT;
  if (!fs::exists(fs::path(STAGES_BUILD) / "CMakeCache.txt") || !fs::is_directory(root))
    fail("{} is gone: grading builds there; configure and build the project again", STAGES_BUILD);
  std::vector<std::string> names;
  for (const auto& directory : fs::directory_iterator(root)) {
    if (!sources_in(directory.path() / "exercises").empty()) names.push_back(file_name(directory.path()));
  }
  std::sort(names.begin(), names.end());
  const std::vector<std::string_view> known(names.begin(), names.end());
  while (wanted.ends_with('/')) wanted.pop_back();  // as the shell completes a directory's name
  const auto found = std::find_if(known.begin(), known.end(), [&](std::string_view name) {
    return name == wanted || name.substr(0, name.find('_')) == wanted;
  });
  if (found == known.end()) fail("'{}' is no stage with exercises; {}", wanted, nearest_names(wanted, known));
  for (const LeftOut& left : program.left_out) {
    if (left.name == *found) fail("{}: left out of this build: it needs {}", *found, left.needs);
  }
  return std::string(*found);
}

// ---- building ---------------------------------------------------------------------------------------------

/// A directory that is gone when this is.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { remove(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  void remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  const fs::path path_ = new_temporary_directory("stages-grade");
  const LastWords last_words_{[this](const std::string&) { remove(); }};
};

/// One grading at a time in a build directory: they share the program.
class BuildLock {
 public:
  BuildLock() : file_(open(STAGES_BUILD "/grade/lock", O_CREAT | O_RDWR | O_CLOEXEC, 0666)) {
    if (file_ < 0 || flock(file_, LOCK_EX) != 0)
      fail("{}/grade: cannot be locked: {}; it must be writable", STAGES_BUILD, std::strerror(errno));
  }
  ~BuildLock() { close(file_); }
  BuildLock(const BuildLock&) = delete;
  BuildLock& operator=(const BuildLock&) = delete;

 private:
  int file_;
};

/// The first errors of a compiler's or a linker's output.
std::string errors_in(const std::string& output) {
  const auto is_undefined = [](std::string_view line) {
    return holds(line, "undefined reference") || holds(line, "undefined symbol");
  };
  std::string out;
  int count = 0;
  for (const std::string_view line : lines_of(output)) {
    if (is_undefined(line) && holds(line, "add_task"))
      return "it defines no void stages::add_task(stages::Registry&); keep the end of the exercise's file";
    const bool error = holds(line, ": error:") || holds(line, ": error ") || holds(line, "fatal error:") ||
                       holds(line, "fatal error ") || is_undefined(line) ||
                       holds(line, "multiple definition");
    if (error && count++ < 3) out.append(out.empty() ? "" : "\n").append(line);
  }
  return out.empty() ? output.substr(0, 500) : out;
}

/// Builds the program of a student's file. Returns the compiler's errors; empty: it is built.
std::string build(const fs::path& file, const std::string& kind, const Scratch& scratch) {
  const fs::path source = fs::path(STAGES_BUILD) / "grade" / ("student." + kind);
  const std::string text = fmt::format("#include \"{}\"\n", fs::absolute(file).string());
  if (read_text(source) != text) std::ofstream(source) << text;
  WatchedCommand command{.words = {STAGES_CMAKE, "--build", STAGES_BUILD, "--target", "graded_" + kind},
                         .environment = {},
                         .output = scratch / "build.txt",
                         .silence = kBuildSeconds};
  const WatchedEnd end = run_watched(command);
  if (end.how == End::too_long) return fmt::format("the compiler took more than {} s", kBuildSeconds);
  if (end.how == End::exited && end.code == 0) return {};
  return errors_in(read_text(command.output));
}

// ---- running ----------------------------------------------------------------------------------------------

std::vector<json> notes_in(const std::string& path) {
  std::ifstream file(path);
  std::vector<json> notes;
  for (std::string line; std::getline(file, line);) {
    json note = json::parse(line, nullptr, false);
    if (!note.is_discarded()) notes.push_back(std::move(note));
  }
  return notes;
}

/// What a sanitizer said, in a line: "heap-buffer-overflow, thread_per_row.cu:28 in multiply". Empty:
/// nothing.
std::string sanitizer_text(const std::string& output) {
  if (holds(output, "rss limit exhausted")) return "takes more memory than the limit";
  constexpr std::string_view kHead = "SUMMARY: AddressSanitizer: ";
  const std::size_t at = output.find(kHead);
  if (at == std::string::npos) return {};
  std::istringstream words(std::string(lines_of(std::string_view(output).substr(at + kHead.size())).front()));
  std::string kind, where;
  words >> kind;
  for (std::string word; words >> word;)
    where += (where.empty() ? "" : " ") + word.substr(word.rfind('/') + 1);
  if (where.empty()) return {};
  if (kind == "SEGV") return fmt::format("reads or writes where there is no memory: {}", where);
  if (kind.find("overflow") != std::string::npos || kind.find("poison") != std::string::npos ||
      kind.find("use-after") != std::string::npos)
    return fmt::format("reads or writes out of bounds: {}, {}", kind, where);
  return fmt::format("{}: {}", kind, where);
}

std::string last_line(const std::string& output) {
  const std::size_t end = output.find_last_not_of(" \n");
  if (end == std::string::npos) return {};
  const std::size_t begin = output.rfind('\n', end);
  return output.substr(begin == std::string::npos ? 0 : begin + 1,
                       end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

/// Why a child ended in the middle of a case.
std::string cause(const WatchedEnd& end, const std::string& output, const GradeOptions& options) {
  if (end.how == End::too_long) return fmt::format("hangs: no result after {:g} s", options.time_limit);
  if (end.how == End::too_much_memory)
    return fmt::format("takes more than {:g} GB of memory", options.memory_limit_gb);
  if (std::string said = sanitizer_text(output); !said.empty()) return said;
  if (end.how == End::killed_by_signal) return "crashes: " + signal_text(end.code);
  if (std::string said = last_line(output); !said.empty()) return "ends the program: " + said;
  return fmt::format("ends the program, with exit code {}", end.code);
}

class Child {
 public:
  Child(std::string program, const Exercise& exercise, const GradeOptions& options, const Scratch& scratch)
      : program_(std::move(program)), exercise_(exercise), options_(options), scratch_(scratch) {}

  /// Runs it with one task; afterwards notes() and ended() say what became of it.
  void run(const std::string& task, double silence) {
    const std::string notes = scratch_ / fmt::format("notes{}.txt", ++runs_);
    const std::string output = scratch_ / fmt::format("output{}.txt", runs_);
    WatchedCommand command{.words = {}, .environment = environment(), .output = output, .silence = silence};
    if (exercise_.ranks > 1) command.words = {"mpirun", "-n", std::to_string(exercise_.ranks)};
    for (const std::string& word : {program_, exercise_.reference, task, notes})
      command.words.push_back(word);
    command.most_memory = options_.memory_limit_gb * 1e9;
    command.sign_of_life = [&] {
      std::error_code none;
      const auto size = fs::file_size(notes, none);
      return none ? 0.0 : static_cast<double>(size);
    };
    ended_ = run_watched(command);
    notes_ = notes_in(notes);
    output_ = read_text(output);
  }

  const std::vector<json>& notes() const { return notes_; }
  std::string why() const { return cause(ended_, output_, options_); }

 private:
  std::vector<std::pair<std::string, std::string>> environment() const {
    const char* const asan = std::getenv("ASAN_OPTIONS");
    return {{"STAGES_BATTERY", options_.size},
            {"ASAN_OPTIONS",
             fmt::format("{}{}detect_leaks=0:detect_stack_use_after_return=0:hard_rss_limit_mb={:.0f}",
                         asan != nullptr ? asan : "", asan != nullptr ? ":" : "",
                         options_.memory_limit_gb * 1e3)},
            {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
            {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
            {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
            {"OMPI_MCA_mpi_yield_when_idle", "1"},
            {"OMPI_MCA_hwloc_base_binding_policy", "none"}};
  }

  std::string program_;
  const Exercise& exercise_;
  const GradeOptions& options_;
  const Scratch& scratch_;
  int runs_ = 0;
  std::vector<json> notes_;
  WatchedEnd ended_;
  std::string output_;
};

/// The battery, class by class, with as many processes as that takes.
class Battery {
 public:
  Battery(Child& child, double time_limit, Grade& grade)
      : child_(child), time_limit_(time_limit), grade_(grade) {}

  void run() {
    std::size_t from = 0;
    do {
      child_.run(std::to_string(from), time_limit_);
      if (from == 0 && !learn_cases()) return;
      from = take_notes(from);
    } while (from < cases_.size());
  }

 private:
  bool learn_cases() {
    const std::vector<json>& notes = child_.notes();
    if (!notes.empty() && notes.front().contains("error")) {
      grade_.broken = notes.front()["error"];
      return false;
    }
    if (notes.empty() || !notes.front().contains("cases")) {
      grade_.broken = "before the first case it " + child_.why();
      return false;
    }
    cases_ = notes.front()["cases"];
    for (const json& c : cases_) {
      if (grade_.classes.empty() || grade_.classes.back().name != c["class"].get<std::string>())
        grade_.classes.push_back({.name = c["class"]});
      ++grade_.classes.back().cases;
    }
    return true;
  }

  ClassGrade& class_of(std::size_t k) {
    return *std::find_if(grade_.classes.begin(), grade_.classes.end(), [&](const ClassGrade& c) {
      return c.name == cases_[k]["class"].get<std::string>();
    });
  }

  /// Counts what one process did. Returns the case with which the next one begins: that of the next class.
  std::size_t take_notes(std::size_t from) {
    std::size_t now = from;
    std::string reason;
    bool open = false, done = false;
    for (const json& note : child_.notes()) {
      if (note.contains("begin")) {
        now = note["begin"];
        open = true;
      } else if (note.contains("result")) {
        open = false;
        ClassGrade& to = class_of(now);
        to.passed += note["result"] == "passed";
        to.left_out += note["result"] == "left out";
        if (note["result"] == "failed") reason = note["reason"];
      } else if (note.contains("done")) {
        done = true;
      }
    }
    if (done) return cases_.size();
    if (open || reason.empty()) reason = child_.why();
    class_of(now).reason = fmt::format("{} {}: {}", cases_[now]["case"].get<std::string>(),
                                       cases_[now]["type"].get<std::string>(), reason);
    std::size_t next = now;
    while (next < cases_.size() && cases_[next]["class"] == cases_[now]["class"]) ++next;
    return next;
  }

  Child& child_;
  double time_limit_;
  Grade& grade_;
  json cases_ = json::array();
};

/// On a real GPU: how fast the student's entry is beside the reference.
void grade_speed(Child& child, Grade& grade) {
  child.run("speed:" + grade.exercise.speed, kSpeedSeconds);
  if (child.notes().empty() || !child.notes().back().contains("speed")) {
    grade.speed = 0;
    grade.speed_note = "on " + grade.exercise.speed + " it " + child.why();
    return;
  }
  const json& speed = child.notes().back()["speed"];
  if (speed["simulated"]) {
    grade.speed_note = "not timed: there is no real GPU here";
    return;
  }
  const json &own = speed["student"], &reference = speed["reference"];
  if (!own.contains("seconds") || !reference.contains("seconds")) {
    grade.speed = 0;
    grade.speed_note = fmt::format("{}: {}", grade.exercise.speed, own["reason"].get<std::string>());
    return;
  }
  grade.speed = reference["seconds"].get<double>() / own["seconds"].get<double>();
  grade.speed_note = fmt::format("{:.2f}x the speed of {} on {}; full points from {:.1f}x on", *grade.speed,
                                 grade.exercise.reference, grade.exercise.speed, kFastEnough);
}

void add_up(Grade& grade) {
  const auto counted = std::count_if(grade.classes.begin(), grade.classes.end(),
                                     [](const ClassGrade& c) { return c.counts(); });
  const auto good = std::count_if(grade.classes.begin(), grade.classes.end(),
                                  [](const ClassGrade& c) { return c.counts() && c.good(); });
  if (counted == 0) return;
  const int speed_points = grade.speed ? kSpeedPoints : 0;
  grade.points = static_cast<int>((100 - speed_points) * good / counted);
  // Only what is right can be fast.
  if (grade.speed && good == counted)
    grade.points += static_cast<int>(kSpeedPoints * std::min(1.0, *grade.speed / kFastEnough));
}

/// Throws Error unless it is a file that can be read.
void require_file(const fs::path& file, const std::string& stage) {
  std::error_code why;
  const fs::file_status status = fs::status(file, why);
  if (status.type() == fs::file_type::not_found)
    fail("{}: there is no such file; tools/exercises.py {} makes the files", file.string(), stage);
  if (fs::is_directory(status)) fail("{}: is a directory; name a file in it", file.string());
  if (fs::absolute(file).string().find_first_of("\"\n\\") != std::string::npos)
    fail("{}: no #include can name a path with a quote, a backslash or a line's end; rename it",
         file.string());
  if (!why && !fs::is_regular_file(status)) fail("{}: is no file; name a source", file.string());
  if (access(file.c_str(), R_OK) != 0)
    fail("{}: cannot be read: {}; change its permissions", file.string(), std::strerror(errno));
}

Grade grade_file(const fs::path& file, const GradeOptions& options) {
  require_file(file, options.stage);
  Grade grade{.file = file.string(), .exercise = exercise_for(options.stage, file)};
  const Scratch scratch;
  std::unique_ptr<BuildLock> lock;
  const std::string kind = file.extension().string().substr(1);
  std::string built = options.built;
  if (built.empty()) {
    lock = std::make_unique<BuildLock>();
    print_stderr("{}: compiling\n", file.string());  // half a minute, and longer by nvcc
    if (const std::string errors = build(file, kind, scratch); !errors.empty()) {
      grade.broken = "does not compile:\n" + errors;
      return grade;
    }
    built = STAGES_BUILD "/bin/graded_" + kind;
  }
  print_stderr("{}: running the battery\n", file.string());
  Child child(built, grade.exercise, options, scratch);
  Battery(child, options.time_limit, grade).run();
  const bool right = grade.broken.empty() && std::all_of(grade.classes.begin(), grade.classes.end(),
                                                         [](const ClassGrade& c) { return c.good(); });
  if (right && !grade.exercise.speed.empty()) grade_speed(child, grade);
  add_up(grade);
  return grade;
}

// ---- what is told -----------------------------------------------------------------------------------------

void print_text(const Grade& grade) {
  const bool colour = wants_colour(stdout);
  const auto paint = [&](bool good, const std::string& text) {
    return colour ? fmt::format("\033[{}m{}\033[0m", good ? 32 : 31, text) : text;
  };
  fmt::print("{}: {} of 100 points\n", grade.file, grade.points);
  fmt::print("  {}\n", grade.exercise.task);
  if (!grade.broken.empty()) {
    fmt::print("  {}\n", fmt::join(lines_of(grade.broken), "\n    "));
    return;
  }
  for (const ClassGrade& c : grade.classes) {
    if (!c.counts()) {
      fmt::print("  {}  {:<29} {} cases, none for this exercise\n", "-   ", c.name, c.cases);
    } else if (c.good()) {
      fmt::print("  {}  {:<29} {} cases\n", paint(true, "good"), c.name, c.passed);
    } else {
      fmt::print("  {}  {:<29} {}\n", paint(false, "lost"), c.name, c.reason);
    }
  }
  if (!grade.speed_note.empty())
    fmt::print("  {}  {:<29} {}\n",
               grade.speed ? paint(*grade.speed >= kFastEnough, *grade.speed >= kFastEnough ? "good" : "slow")
                           : "-   ",
               "speed", grade.speed_note);
}

json to_json(const Grade& grade) {
  json classes = json::array();
  for (const ClassGrade& c : grade.classes) {
    classes.push_back({{"class", c.name},
                       {"cases", c.cases},
                       {"passed", c.passed},
                       {"left_out", c.left_out},
                       {"counts", c.counts()},
                       {"good", c.good()},
                       {"reason", c.reason}});
  }
  return {{"file", grade.file},
          {"exercise", file_name(grade.exercise.master)},
          {"task", grade.exercise.task},
          {"reference", grade.exercise.reference},
          {"points", grade.points},
          {"of", 100},
          {"broken", grade.broken},
          {"classes", classes},
          {"speed", grade.speed ? json(*grade.speed) : json(nullptr)},
          {"speed_note", grade.speed_note}};
}

int work(GradeOptions options, const Program& program) {
  options.stage = stage_for(options.stage, program);
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
  json grades = json::array();
  bool full = true;
  for (const fs::path& file : files) {
    const Grade grade = grade_file(file, options);
    full = full && grade.points == 100;
    if (options.as_json) {
      grades.push_back(to_json(grade));
    } else {
      print_text(grade);
    }
  }
  if (options.as_json)
    fmt::print("{}\n", json({{"schema_version", 1}, {"stage", options.stage}, {"grades", grades}})
                           .dump(2, ' ', false, json::error_handler_t::replace));
  return full ? kGood : kWrongResult;
}

}  // namespace

void add_grade_command(CommandLine& line, const Program& program) {
  Command command =
      line.add("grade", "Grade exercises: build a student's file, run the battery, give points");
  const auto options = std::make_shared<GradeOptions>();
  command.option("STAGE", options->stage, "The stage, by name or number: 05_cuda_csr, 05").required();
  command.option("FILE", options->file,
                 "The student's file, named like its exercise; without it all in STAGE/exercises/mine");
  command.flag("--json", options->as_json, "Print JSON instead of text");
  command.option("--battery", options->size, "small: a case of each kind; full: all")
      .one_of({"small", "full"})
      .type_name("SIZE")
      .shows_default();
  command.option("--time-limit", options->time_limit, "Seconds that one case may take")
      .between(0.1, 3600.0)
      .type_name("S")
      .shows_default();
  command.option("--memory-limit", options->memory_limit_gb, "Gigabytes that the student's program may take")
      .between(0.1, 1e6)
      .type_name("GB")
      .shows_default();
  command.option("--built", options->built, "The program of FILE, built before").group("");  // by our tests
  command.footer([&program] {
    return examples(program, {{"grade 05_cuda_csr", "all of your files for that stage"},
                              {"grade 05_cuda_csr my/warp_per_row.cu --json", "one file, for scripts"}}) +
           "\nExit codes: 0 full points everywhere; 1 not so; 2 bad usage.";
  });
  command.does([&program, options] { return work(*options, program); });
}

}  // namespace stages
