#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/harness/check.hpp"
#include "common/harness/clock.hpp"
#include "common/judge/exam.hpp"
#include "common/matrix/generate.hpp"

namespace stages::judge {
namespace {

constexpr double kSpeedSeconds = 120;  ///< that the student's process may take of it
constexpr double kSample = 5e-3;       ///< seconds, so that a message's time is nothing beside it
constexpr int kSamples = 15;
constexpr int kTimings = 3;        ///< at least, of run() and of what comes after it, on the host
constexpr int kMostTimings = 12;   ///< before somebody is told that his run() does not multiply
constexpr Index kTimedRows = 768;  ///< there: tens of milliseconds of products, more than a busy machine adds
constexpr Index kTimedSquare = 384;  ///< as many rows in an SpGEMM, which has a product more for each of them
constexpr Index kTimedVectors = 64;

/// Between run() and fetch() other operands are loaded, so that what either of them multiplies takes its time
/// here.
template <class Problem>
void look_at_times(Exam& exam, const Problem& problem) {
  const Problem p = with_values(problem, ValueKind::real, exam.options.seed);
  std::string why;
  try {
    exam.within(exam.options.time_limit);
    const Entry entry = remote_entry(*exam.student, exam.reference, exam.values());
    const auto plan = entry.on<Problem>().prepare(p, exam.host);
    const auto one = make_operands(p, ValueKind::real, exam.options.seed + 1),
               two = make_operands(p, ValueKind::real, exam.options.seed + 2);
    double in_run = std::numeric_limits<double>::infinity(), behind = in_run;
    for (int k = 0; k < kTimings || (behind > in_run && k < kMostTimings); ++k) {
      plan->load(one);
      plan->reset();
      in_run = std::min(in_run, exam.host.time([&] { plan->run(); }));
      behind = std::min(behind, exam.host.time([&] {
        plan->load(two);
        plan->fetch();
      }));
    }
    if (behind > in_run)
      why = fmt::format("run() takes {:.2g} ms, and what comes after it, load() and fetch(), takes {:.2g} ms",
                        in_run * 1e3, behind * 1e3);
  } catch (const Lost& lost) {
    why = lost.what();
  }
  if (!why.empty()) {
    exam.grade.broken = fmt::format("{}, where it is timed: {}", p.name, why);
    exam.student.reset();
  }
}

void slow(Exam& exam, const std::string& why) {
  exam.grade.speed = 0;
  exam.grade.speed_note = fmt::format("{}: {}", exam.exercise.speed, why);
}

/// Both are timed from here, with the clock of this process: what the student's process says of time is not
/// asked. Each sample is of operands of its own, and its result is looked at.
template <class Problem>
void time(Exam& exam, const Problem& problem) {
  Exec& exec = *exam.devices->machine().gpu;
  const Problem p = with_values(problem, ValueKind::real, exam.options.seed);
  exam.within(kSpeedSeconds);
  const Entry entry = remote_entry(*exam.student, exam.reference);
  const auto own = entry.on<Problem>().prepare(p, exam.host);
  const auto reference = exam.reference.on<Problem>().prepare(p, exec);
  const auto run_reference = [&](std::uint32_t times) {
    for (std::uint32_t k = 0; k < times; ++k) reference->run();
    exec.synchronize();
  };
  const auto run_own = [&](std::uint32_t times) { exam.student->ask(Ask::run, {}, times); };
  const auto seconds = [&](const auto& run, std::uint32_t times) {
    run(1);  // what loading has left of it in the caches goes
    return exam.host.time([&] { run(times); }) / times;
  };
  std::vector<double> of_reference, of_own;
  std::uint32_t times = 1;
  for (int k = 0; k < kSamples; ++k) {
    const auto operands =
        make_operands(p, ValueKind::real, exam.options.seed + 1 + static_cast<std::uint64_t>(k));
    for (const auto& plan : {reference.get(), own.get()}) {
      plan->load(operands);
      plan->reset();
    }
    if (k == 0)
      times = static_cast<std::uint32_t>(std::clamp(kSample / seconds(run_reference, 1), 1.0, 1000.0));
    of_reference.push_back(seconds(run_reference, times));
    of_own.push_back(seconds(run_own, times));
    const CheckReport found = verify(p, operands, own->fetch(), ValueKind::real, exam.reference.claims);
    if (!found.passed()) return slow(exam, found.failure);
  }
  exam.grade.speed = summarize(std::move(of_reference)).median / summarize(std::move(of_own)).median;
  exam.grade.speed_note =
      fmt::format("{:.2f}x the speed of {} on {}; full points from {:.1f}x on", *exam.grade.speed,
                  exam.exercise.reference, exam.exercise.speed, kFastEnough);
}

}  // namespace

void examine_run(Exam& exam) {
  const Index rows = exam.reference.op == Op::spgemm ? kTimedSquare : kTimedRows;
  const auto dense = std::make_shared<const Csr<float>>(
      generate<float>(fmt::format("gen:fixed:n={},per_row={}", rows, rows / 2)));
  exam.with_problem_on("a matrix half full", dense, kTimedVectors, kTimedVectors,
                       [&](const auto& problem) { look_at_times(exam, problem); });
}

void compare_speed(Exam& exam) {
  if (!exam.devices || exam.devices->machine().gpu == nullptr || exam.devices->machine().gpu->simulated()) {
    exam.grade.speed_note = "not timed: there is no real GPU here";
    return;
  }
  const auto a = std::make_shared<const Csr<float>>(generate<float>(exam.exercise.speed));
  try {
    exam.with_problem_on(exam.exercise.speed, a, 1, 32, [&](const auto& problem) { time(exam, problem); });
  } catch (const Lost& lost) {
    slow(exam, lost.what());
  }
}

}  // namespace stages::judge
