#include "common/harness/check.hpp"
#include "common/judge/exam.hpp"
#include "common/judge/least.hpp"
#include "common/judge/student/counts.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"

namespace stages::judge {
namespace {

constexpr std::uint64_t kMostCounts = 4'000'000;  ///< bytes of what was counted

/// What was counted of one product, and whether it raced.
struct Counted {
  Counts counts;
  RaceCounts races;
  std::string broken;  ///< why that is not believed; empty: it is
};

template <class Problem>
Counted counted(Exam& exam, const Problem& problem, bool races) {
  Counted found;
  const Problem p = with_values(problem, ValueKind::real, exam.options.seed);
  try {
    exam.within(exam.options.time_limit);
    const Entry entry = remote_entry(*exam.student, exam.reference);
    const auto plan = entry.on<Problem>().prepare(p, exam.host);
    const auto operands = make_operands(p, ValueKind::real, exam.options.seed + 1);
    const auto ask = [&](std::uint32_t what) {
      plan->load(operands);
      plan->reset();
      return exam.student->ask(Ask::count, {}, what, kMostCounts);
    };
    const Bytes bytes = ask(kCount);
    const auto result = plan->fetch();
    Reader in(bytes);
    take(in, found.counts);
    const CheckReport report = verify(p, operands, result, ValueKind::real, exam.reference.claims);
    found.broken = report.failure;
    if (found.broken.empty()) found.broken = implausible(found.counts, least_bytes(p, operands, result));
    if (!races || !found.broken.empty()) return found;
    const Bytes of_races = ask(kRaces);
    Reader rest(of_races);
    take(rest, found.races);
    if (!found.races.awaited)
      found.broken = "work that run() has begun goes on in a stream that nobody waits for";
  } catch (const Lost& lost) {
    found.broken = lost.what();
  } catch (const Error& error) {
    found.broken = fmt::format("answers what are no counts: {}", error.what());
  }
  if (!found.broken.empty()) exam.student.reset();
  return found;
}

/// What was right before, and is not where it is counted, is no honest product.
template <class Problem>
void look_at_case(Exam& exam, const Problem& problem) {
  if (exam.left_out(problem)) return;
  if (const std::string why = counted(exam, problem, false).broken; !why.empty())
    exam.grade.broken = fmt::format("{} f32, where its kernels are counted: {}", problem.name, why);
}

template <class Problem>
void look_at_demands(Exam& exam, const Problem& problem) {
  const Counted found = counted(exam, problem, true);
  if (!found.broken.empty())
    exam.grade.broken = fmt::format("{}, where its kernels are counted: {}", problem.name, found.broken);
  for (DemandGrade& of : exam.grade.efficiency) {
    const Demand& demand =
        exam.exercise.demands[static_cast<std::size_t>(&of - exam.grade.efficiency.data())];
    of.reason = found.broken.empty()
                    ? broken_by(demand, found.counts, found.races, exam.exercise.master.filename().string())
                    : found.broken;
  }
  if (!exam.options.lens) return;
  exam.grade.counts_note = found.broken.empty() ? problem.name : found.broken;
  if (found.broken.empty()) exam.grade.counts = found.counts;
}

}  // namespace

void examine_counts(Exam& exam, Command command) {
  exam.student.reset();
  exam.command = std::move(command);
  for (const ClassGrade& of : exam.grade.classes) {
    if (!earns(of)) continue;
    const Task* largest = nullptr;
    std::size_t most = 0;
    for (const Task& task : exam.tasks) {
      if (task.of != of.name || !task.single) continue;
      const std::size_t entries = task.c.a().values.size();
      if (largest == nullptr || entries > most) {
        largest = &task;
        most = entries;
      }
    }
    if (largest == nullptr) continue;
    battery::with_problem<float>(largest->c, [&](const auto& problem) { look_at_case(exam, problem); });
    if (!exam.grade.broken.empty()) return;
  }
  if (!all_right(exam.grade)) return;
  const CountedOn& on = exam.exercise.counted_on;
  const auto a = std::make_shared<const Csr<float>>(generate<float>(on.matrix));
  exam.with_problem_on(on.matrix, a, on.vectors, on.columns,
                       [&](const auto& problem) { look_at_demands(exam, problem); });
  exam.student.reset();
}

}  // namespace stages::judge
