#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "common/harness/check.hpp"
#include "common/judge/exam.hpp"

namespace stages::judge {
namespace {

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

template <class Problem>
std::string judged(Exam& exam, const Problem& problem) {
  try {
    exam.within(exam.time_limit);
    const Entry entry = remote_entry(*exam.student, exam.reference, exam.values());
    // Doubles quickly: it is the same code.
    const CheckReport report =
        check_entry(entry, problem, exam.host,
                    {.seed = exam.options.seed, .quick = std::is_same_v<typename Problem::Value, double>});
    if (report.passed()) exam.student->require_there();
    // What load() has seen is NaN: was it that which is multiplied?
    if (report.failure.find("with the first real") != std::string::npos &&
        exam.values() == Values::with_run) {
      const Entry seen = remote_entry(*exam.student, exam.reference);
      const CheckReport then = check_entry(seen, problem, exam.host, {.seed = exam.options.seed});
      if (then.passed() || then.failure.find("what load() saw") != std::string::npos)
        return "run() multiplies what load() has kept; it has to read the operands itself";
      if (then.failure.find("made by load") != std::string::npos) return then.failure;
    }
    // A first result that is right, and later ones that are not: is it the first again?
    if (report.failure.find("with the second") == std::string::npos) return report.failure;
    return report.failure + (answers_again(entry, problem, exam.host, exam.options.seed)
                                 ? "; it returns the previous answer, whatever is loaded"
                                 : "");
  } catch (const Lost& lost) {
    // What has hung once may do so in each class: the others have less time.
    if (std::string_view(lost.what()).starts_with("hangs")) exam.time_limit = exam.options.time_limit / 5;
    return lost.what();
  }
}

template <class Problem>
void pass(Exam& exam, const Problem& problem, const Task& task, ClassGrade& of) {
  if (exam.left_out(problem)) {
    ++of.left_out;
    return;
  }
  const std::string reason = judged(exam, problem);
  if (reason.empty()) {
    ++of.passed;
    return;
  }
  of.reason = fmt::format("{} {}: {}", task.c.name, task.single ? "f32" : "f64", reason);
  exam.student.reset();
}

/// Starts the first process. What is wrong with it before the first case leaves nothing to be graded.
bool begins(Exam& exam) {
  try {
    exam.start();
  } catch (const Lost& lost) {
    exam.grade.broken = fmt::format("before the first case it {}", lost.what());
    return false;
  }
  const auto [entries, op] = exam.student->registered();
  if (entries == 1 && op == exam.reference.op) return true;
  exam.grade.broken = fmt::format("the file registers {} entries; add_task must register one, for {}",
                                  entries, to_string(exam.reference.op));
  return false;
}

}  // namespace

void examine_cases(Exam& exam) {
  for (const Task& task : exam.tasks) {
    if (exam.grade.classes.empty() || exam.grade.classes.back().name != task.of)
      exam.grade.classes.push_back({.name = task.of});
    ++exam.grade.classes.back().cases;
  }
  if (!begins(exam)) {
    exam.grade.classes.clear();
    return;
  }
  auto of = exam.grade.classes.begin();
  for (const Task& task : exam.tasks) {
    if (of->name != task.of) ++of;
    if (!of->reason.empty()) continue;
    const auto pass_it = [&](const auto& problem) { pass(exam, problem, task, *of); };
    if (task.single) battery::with_problem<float>(task.c, pass_it);
    if (!task.single) battery::with_problem<double>(task.c, pass_it);
  }
}

}  // namespace stages::judge
