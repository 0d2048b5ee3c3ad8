#include "common/grade/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <sstream>

#include "common/grade/least.hpp"
#include "common/grade/remote.hpp"
#include "common/grade/tasks.hpp"
#include "common/harness/check.hpp"
#include "common/harness/clock.hpp"
#include "common/harness/operands.hpp"
#include "common/harness/seconds.hpp"
#include "common/machines/child.hpp"
#include "common/machines/devices.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"
#include "common/student/counting.hpp"

namespace stages::grade {
namespace {

namespace fs = std::filesystem;

constexpr double kMostWork = 5e7;  ///< steps of a case; the executor under a sanitizer takes seconds for it
constexpr double kStartSeconds = 10;   ///< at least, to be ready, ranks included
constexpr double kSpeedSeconds = 120;  ///< that the student's process may take of it
constexpr double kSample = 5e-3;       ///< seconds, so that a message's time is nothing beside it
constexpr int kSamples = 15;
constexpr int kTimings = 3;        ///< at least, of run() and of what comes after it, on the host
constexpr int kMostTimings = 12;   ///< before somebody is told that his run() does not multiply
constexpr Index kTimedRows = 768;  ///< there: tens of milliseconds of products, more than a busy machine adds
constexpr Index kTimedSquare = 384;  ///< as many rows in an SpGEMM, which has a product more for each of them
constexpr Index kTimedVectors = 64;
constexpr int kSpeedPoints = 20;                  ///< of 100, where there is a real GPU
constexpr int kEfficiencyPoints = 20;             ///< of 100, where something is demanded and can be counted
constexpr std::uint64_t kMostCounts = 4'000'000;  ///< bytes of what was counted

template <class T>
std::span<const T> numbers_of(const Dense<T>& result) {
  return result.data;
}
template <class T>
std::span<const T> numbers_of(const Csr<T>& result) {
  return result.values;
}

/// Whether the plan gives the first operands' result again after others were loaded.
template <class Problem>
bool answers_again(const Entry& entry, const Problem& problem, Exec& exec, std::uint64_t seed) {
  const Problem p = with_values(problem, ValueKind::real, seed);
  const auto plan = entry.on<Problem>().prepare(p, exec);
  const auto result_for = [&](const typename Problem::Operands& operands) {
    plan->load(operands);
    plan->reset();
    plan->run();
    return plan->fetch();
  };
  const auto one = make_operands(p, ValueKind::real, seed + 1),
             two = make_operands(p, ValueKind::real, seed + 2);
  const auto first = result_for(one), second = result_for(two);
  const auto a = numbers_of(first), b = numbers_of(second);
  const bool written = !a.empty() && std::none_of(a.begin(), a.end(), [](auto v) { return std::isnan(v); });
  return written && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class Judge {
 public:
  Judge(const Exercise& exercise, const Entry& reference, const Confinement& confinement,
        const Command& command, const JudgeOptions& options, Grade& grade)
      : exercise_(exercise),
        reference_(reference),
        confinement_(confinement),
        command_(&command),
        options_(options),
        grade_(grade),
        time_limit_(options.time_limit) {
    if (reference.needs.gpu) devices_ = std::make_unique<Devices>();
  }

  /// All cases. A class ends with its first that is not right, and the next begins with a new process.
  void run() {
    tasks_ = tasks_for(reference_.op, options_.size);
    for (const Task& task : tasks_) {
      if (grade_.classes.empty() || grade_.classes.back().name != task.of)
        grade_.classes.push_back({.name = task.of});
      ++grade_.classes.back().cases;
    }
    if (!begins()) {
      grade_.classes.clear();
      return;
    }
    auto of = grade_.classes.begin();
    for (const Task& task : tasks_) {
      if (of->name != task.of) ++of;
      if (!of->reason.empty()) continue;
      const auto pass_it = [&](const auto& problem) { pass(problem, task, *of); };
      if (task.single) battery::with_problem<float>(task.c, pass_it);
      if (!task.single) battery::with_problem<double>(task.c, pass_it);
    }
  }

  /// Ends the student's process.
  void end() { student_.reset(); }

  /// Whether something of it is right that has to be multiplied.
  bool multiplies() const { return std::any_of(grade_.classes.begin(), grade_.classes.end(), earns); }

  /// From now on its processes are of the program that `command` runs. Looks whether it multiplies in run(), of
  /// each class that is right in the largest case; then, where all is right, at what the exercise demands.
  void count(const Command& command) {
    student_.reset();
    command_ = &command;
    for (const ClassGrade& of : grade_.classes) {
      if (!earns(of)) continue;
      const Task* largest = nullptr;
      std::size_t most = 0;
      for (const Task& task : tasks_) {
        if (task.of != of.name || !task.single) continue;
        const std::size_t entries = task.c.a().values.size();
        if (largest == nullptr || entries > most) {
          largest = &task;
          most = entries;
        }
      }
      if (largest == nullptr) continue;
      battery::with_problem<float>(largest->c, [&](const auto& problem) { look_at_case(problem); });
      if (!grade_.broken.empty()) return;
    }
    if (!all_right(grade_)) return;
    const CountedOn& on = exercise_.counted_on;
    const auto a = std::make_shared<const Csr<float>>(generate<float>(on.matrix));
    with_problem_on(on.matrix, a, on.vectors, on.columns,
                    [&](const auto& problem) { look_at_demands(problem); });
    student_.reset();
  }

  static bool all_right(const Grade& grade) {
    return grade.broken.empty() && std::all_of(grade.classes.begin(), grade.classes.end(),
                                               [](const ClassGrade& c) { return c.good(); });
  }
  static bool earns(const ClassGrade& c) { return c.counts() && c.good() && c.name != kNothingToMultiply; }

  /// On the host: whether run() multiplies, and not what comes after it. What that takes is timed by this
  /// process.
  void look_at_run() {
    const Index rows = reference_.op == Op::spgemm ? kTimedSquare : kTimedRows;
    const auto dense = std::make_shared<const Csr<float>>(
        generate<float>(fmt::format("gen:fixed:n={},per_row={}", rows, rows / 2)));
    with_problem_on("a matrix half full", dense, kTimedVectors, kTimedVectors,
                    [&](const auto& problem) { look_at_times(problem); });
  }

  /// How fast it is beside the reference, on a real GPU.
  void compare_speed() {
    if (!devices_ || devices_->machine().gpu == nullptr || devices_->machine().gpu->simulated()) {
      grade_.speed_note = "not timed: there is no real GPU here";
      return;
    }
    const auto a = std::make_shared<const Csr<float>>(generate<float>(exercise_.speed));
    try {
      with_problem_on(exercise_.speed, a, 1, 32, [&](const auto& problem) { time(problem); });
    } catch (const Lost& lost) {
      slow(lost.what());
    }
  }

 private:
  void start() {
    student_.reset();
    student_ = std::make_unique<Student>(confinement_, *command_, exercise_.master.filename().string(),
                                         std::max(kStartSeconds, time_limit_));
  }

  /// Starts the first process. What is wrong with it before the first case leaves nothing to be graded.
  bool begins() {
    try {
      start();
    } catch (const Lost& lost) {
      grade_.broken = fmt::format("before the first case it {}", lost.what());
      return false;
    }
    const auto [entries, op] = student_->registered();
    if (entries == 1 && op == reference_.op) return true;
    grade_.broken = fmt::format("the file registers {} entries; add_task must register one, for {}", entries,
                                to_string(reference_.op));
    return false;
  }

  /// Why the case says nothing about the student's entry: the reference does not run it either.
  template <class Problem>
  bool left_out(const Problem& problem) {
    Exec& exec = devices_ ? devices_->machine().of(reference_) : host_;
    const Offer<Problem> offer = reference_.on<Problem>().look(problem, exec);
    // What refuses for want of ranks does so here, too, and not in the student's processes.
    if (exercise_.ranks == 1 && offer.refuse(problem, exec)) return true;
    return offer.cost(problem).work > kMostWork;
  }

  /// use(problem): A times so many vectors, times a matrix of so many columns, or A A, as the reference does.
  template <class Use>
  void with_problem_on(const std::string& name, const std::shared_ptr<const Csr<float>>& a, Index vectors,
                       Index columns, Use use) {
    if (reference_.op == Op::spmv)
      use(make_spmv_problem<float>(name, a, vectors > 1 ? Mode::stream : Mode::single, vectors));
    if (reference_.op == Op::spgemm) use(make_spgemm_problem<float>(name, a, a));
    if (reference_.op == Op::spmm) use(make_spmm_problem<float>({.name = name, .a = a, .n_cols = columns}));
  }

  template <class Problem>
  void pass(const Problem& problem, const Task& task, ClassGrade& of) {
    if (left_out(problem)) {
      ++of.left_out;
      return;
    }
    const std::string reason = judged(problem);
    if (reason.empty()) {
      ++of.passed;
      return;
    }
    of.reason = fmt::format("{} {}: {}", task.c.name, task.single ? "f32" : "f64", reason);
    student_.reset();
  }

  template <class Problem>
  std::string judged(const Problem& problem) {
    try {
      if (!student_) start();
      student_->allow(time_limit_);
      const Entry entry = remote_entry(*student_, reference_, values());
      // Doubles quickly: it is the same code.
      const CheckReport report =
          check_entry(entry, problem, host_,
                      {.seed = options_.seed, .quick = std::is_same_v<typename Problem::Value, double>});
      if (report.passed()) student_->require_there();
      // What load() has seen is NaN: was it that which is multiplied?
      if (report.failure.find("with the first real") != std::string::npos && values() == Values::with_run) {
        const Entry seen = remote_entry(*student_, reference_);
        const CheckReport then = check_entry(seen, problem, host_, {.seed = options_.seed});
        if (then.passed() || then.failure.find("what load() saw") != std::string::npos)
          return "run() multiplies what load() has kept; it has to read the operands itself";
        if (then.failure.find("made by load") != std::string::npos) return then.failure;
      }
      // A first result that is right, and later ones that are not: is it the first again?
      if (report.failure.find("with the second") == std::string::npos) return report.failure;
      return report.failure + (answers_again(entry, problem, host_, options_.seed)
                                   ? "; it returns the previous answer, whatever is loaded"
                                   : "");
    } catch (const Lost& lost) {
      // What has hung once may do so in each class: the others have less time.
      if (std::string_view(lost.what()).starts_with("hangs")) time_limit_ = options_.time_limit / 5;
      return lost.what();
    }
  }

  /// When the student's plan sees what it multiplies.
  Values values() const { return reference_.needs.gpu ? Values::loaded : Values::with_run; }

  /// Between run() and fetch() other operands are loaded, so that what either of them multiplies takes its time
  /// here.
  template <class Problem>
  void look_at_times(const Problem& problem) {
    const Problem p = with_values(problem, ValueKind::real, options_.seed);
    const auto seconds = [](auto&& work) {
      const auto begin = Confined::Clock::now();
      work();
      return seconds_since(begin);
    };
    std::string why;
    try {
      if (!student_) start();
      student_->allow(options_.time_limit);
      const Entry entry = remote_entry(*student_, reference_, values());
      const auto plan = entry.on<Problem>().prepare(p, host_);
      const auto one = make_operands(p, ValueKind::real, options_.seed + 1),
                 two = make_operands(p, ValueKind::real, options_.seed + 2);
      double in_run = std::numeric_limits<double>::infinity(), behind = in_run;
      for (int k = 0; k < kTimings || (behind > in_run && k < kMostTimings); ++k) {
        plan->load(one);
        plan->reset();
        in_run = std::min(in_run, seconds([&] { plan->run(); }));
        behind = std::min(behind, seconds([&] {
                            plan->load(two);
                            plan->fetch();
                          }));
      }
      if (behind > in_run)
        why =
            fmt::format("run() takes {:.2g} ms, and what comes after it, load() and fetch(), takes {:.2g} ms",
                        in_run * 1e3, behind * 1e3);
    } catch (const Lost& lost) {
      why = lost.what();
    }
    if (!why.empty()) {
      grade_.broken = fmt::format("{}, where it is timed: {}", p.name, why);
      student_.reset();
    }
  }

  /// What was counted of one product, and whether it raced.
  struct Counted {
    student::Counts counts;
    student::RaceCounts races;
    std::string broken;  ///< why that is not believed; empty: it is
  };

  template <class Problem>
  Counted counted(const Problem& problem, bool races) {
    Counted found;
    const Problem p = with_values(problem, ValueKind::real, options_.seed);
    try {
      if (!student_) start();
      student_->allow(options_.time_limit);
      const Entry entry = remote_entry(*student_, reference_);
      const auto plan = entry.on<Problem>().prepare(p, host_);
      const auto operands = make_operands(p, ValueKind::real, options_.seed + 1);
      const auto ask = [&](std::uint32_t what) {
        plan->load(operands);
        plan->reset();
        return student_->ask(student::Ask::count, {}, what, kMostCounts);
      };
      const student::Bytes bytes = ask(student::kCount);
      const auto result = plan->fetch();
      student::Reader in(bytes);
      found.counts = student::take_counts(in);
      const CheckReport report = verify(p, operands, result, ValueKind::real, reference_.claims);
      found.broken = report.failure;
      if (found.broken.empty()) found.broken = implausible(found.counts, least_bytes(p, operands, result));
      if (!races || !found.broken.empty()) return found;
      const student::Bytes of_races = ask(student::kRaces);
      student::Reader rest(of_races);
      found.races = student::take_races(rest);
      if (!found.races.awaited)
        found.broken = "work that run() has begun goes on in a stream that nobody waits for";
    } catch (const Lost& lost) {
      found.broken = lost.what();
    } catch (const Error& error) {
      found.broken = fmt::format("answers what are no counts: {}", error.what());
    }
    if (!found.broken.empty()) student_.reset();
    return found;
  }

  /// What was right before, and is not where it is counted, is no honest product.
  template <class Problem>
  void look_at_case(const Problem& problem) {
    if (left_out(problem)) return;
    if (const std::string why = counted(problem, false).broken; !why.empty())
      grade_.broken = fmt::format("{} f32, where its kernels are counted: {}", problem.name, why);
  }

  template <class Problem>
  void look_at_demands(const Problem& problem) {
    const Counted found = counted(problem, true);
    if (!found.broken.empty())
      grade_.broken = fmt::format("{}, where its kernels are counted: {}", problem.name, found.broken);
    for (DemandGrade& of : grade_.efficiency) {
      const Demand& demand = exercise_.demands[static_cast<std::size_t>(&of - grade_.efficiency.data())];
      of.reason = found.broken.empty()
                      ? broken_by(demand, found.counts, found.races, exercise_.master.filename().string())
                      : found.broken;
    }
    if (!options_.lens) return;
    grade_.counts_note = found.broken.empty() ? problem.name : found.broken;
    if (found.broken.empty()) grade_.counts = found.counts;
  }

  void slow(const std::string& why) {
    grade_.speed = 0;
    grade_.speed_note = fmt::format("{}: {}", exercise_.speed, why);
  }

  /// Both are timed from here, with the clock of this process: what the student's process says of time is not
  /// asked. Each sample is of operands of its own, and its result is looked at.
  template <class Problem>
  void time(const Problem& problem) {
    Exec& exec = *devices_->machine().gpu;
    const Problem p = with_values(problem, ValueKind::real, options_.seed);
    if (!student_) start();
    student_->allow(kSpeedSeconds);
    const Entry entry = remote_entry(*student_, reference_);
    const auto own = entry.on<Problem>().prepare(p, host_);
    const auto reference = reference_.on<Problem>().prepare(p, exec);
    const auto run_reference = [&](std::uint32_t times) {
      for (std::uint32_t k = 0; k < times; ++k) reference->run();
      exec.synchronize();
    };
    const auto run_own = [&](std::uint32_t times) { student_->ask(student::Ask::run, {}, times); };
    const auto seconds = [](const auto& run, std::uint32_t times) {
      run(1);  // what loading has left of it in the caches goes
      const auto begin = Confined::Clock::now();
      run(times);
      return seconds_since(begin) / times;
    };
    std::vector<double> of_reference, of_own;
    std::uint32_t times = 1;
    for (int k = 0; k < kSamples; ++k) {
      const auto operands =
          make_operands(p, ValueKind::real, options_.seed + 1 + static_cast<std::uint64_t>(k));
      for (const auto& plan : {reference.get(), own.get()}) {
        plan->load(operands);
        plan->reset();
      }
      if (k == 0)
        times = static_cast<std::uint32_t>(std::clamp(kSample / seconds(run_reference, 1), 1.0, 1000.0));
      of_reference.push_back(seconds(run_reference, times));
      of_own.push_back(seconds(run_own, times));
      const CheckReport found = verify(p, operands, own->fetch(), ValueKind::real, reference_.claims);
      if (!found.passed()) return slow(found.failure);
    }
    grade_.speed = summarize(std::move(of_reference)).median / summarize(std::move(of_own)).median;
    grade_.speed_note = fmt::format("{:.2f}x the speed of {} on {}; full points from {:.1f}x on",
                                    *grade_.speed, exercise_.reference, exercise_.speed, kFastEnough);
  }

  const Exercise& exercise_;
  const Entry& reference_;
  const Confinement& confinement_;
  const Command* command_;
  const JudgeOptions& options_;
  Grade& grade_;
  double time_limit_;
  std::vector<Task> tasks_;
  Exec host_;
  std::unique_ptr<Devices> devices_;
  std::unique_ptr<Student> student_;
};

void add_up(Grade& grade) {
  const auto counted = std::count_if(grade.classes.begin(), grade.classes.end(),
                                     [](const ClassGrade& c) { return c.counts(); });
  const auto good = std::count_if(grade.classes.begin(), grade.classes.end(),
                                  [](const ClassGrade& c) { return c.counts() && c.good(); });
  const bool multiplies = std::any_of(grade.classes.begin(), grade.classes.end(), Judge::earns);
  if (counted == 0 || !multiplies || !grade.broken.empty()) return;
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
                  asan != nullptr ? asan : "", asan != nullptr ? ":" : "", options.memory_limit / 1e6));
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
  if (!student::can_count())
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

Grade judge(const fs::path& file, const Exercise& exercise, const Registry& registry, const Places& places,
            const Confinement& confinement, const fs::path& scratch, const JudgeOptions& options) {
  Grade grade{.file = file.string(), .exercise = exercise};
  const Entry& reference = registry.find(exercise.reference);
  StudentProgram program{.file = options.built, .reads = {}};
  if (options.built.empty()) {
    options.begins("compiling");  // half a minute, and longer by nvcc
    if (const std::string errors =
            compile(file, exercise, places, confinement, scratch, Build::watched, program);
        !errors.empty()) {
      grade.broken = "does not compile:\n" + errors;
      return grade;
    }
  }
  require_readable(program.file, confinement);
  options.begins("running the battery");
  const fs::path directory = scratch / "run", home = scratch / "home";
  for (const fs::path& place : {directory, home}) fs::create_directory(place);
  confinement.give(home);
  const auto command_for = [&](const StudentProgram& of) {
    Command command{.words = {},
                    .environment = environment(options),
                    .directory = directory,
                    .reads = of.reads,
                    .writes = {},
                    .home = home,
                    .gpu = reference.needs.gpu,
                    .limits = {.memory = options.memory_limit}};
    command.reads.insert(command.reads.end(), {of.file, directory});
    if (exercise.ranks > 1) {
      command.words = starter_of_ranks();
      if (const fs::path mpi = installed_in(command.words.front()); !mpi.empty())
        command.reads.push_back(mpi);
      command.words.insert(command.words.end(), {"-n", std::to_string(exercise.ranks)});
    }
    for (const std::string& word : {of.file.string(), std::string("judge")}) command.words.push_back(word);
    return command;
  };
  const Command command = command_for(program);

  Judge judge(exercise, reference, confinement, command, options, grade);
  judge.run();
  if (!reference.needs.gpu && judge.multiplies()) judge.look_at_run();
  if (const std::string why = not_counted(exercise, reference, options); !why.empty()) {
    if (!exercise.demands.empty()) grade.efficiency_note = why;
    grade.counts_note = why;
  } else {
    grade.counts_note = "not counted: only what is right is";
    for (const Demand& demand : exercise.demands)
      grade.efficiency.push_back({.text = demand.text, .reason = "only what is right is counted"});
    if (judge.multiplies()) {
      judge.end();
      StudentProgram counted{.file = options.counted, .reads = {}};
      std::string errors;
      if (options.built.empty()) {
        options.begins("compiling, for its kernels to be counted");
        errors = compile(file, exercise, places, confinement, scratch, Build::counted, counted);
      }
      if (errors.empty()) {
        require_readable(counted.file, confinement);
        Command counts = command_for(counted);
        judge.count(counts);
      } else {
        grade.broken = "does not compile where its kernels are counted:\n" + errors;
      }
    }
  }
  if (Judge::all_right(grade) && !exercise.speed.empty()) judge.compare_speed();
  add_up(grade);
  return grade;
}

}  // namespace stages::grade
