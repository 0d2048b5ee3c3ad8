#pragma once
// What the judge has a student's program do: whether its results are right (exam_cases.cpp), what its kernels
// do to memory (exam_counts.cpp), and how long it takes (exam_times.cpp).

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/cli/machines/devices.hpp"
#include "common/harness/operands.hpp"
#include "common/judge/judge.hpp"
#include "common/judge/remote.hpp"
#include "common/judge/tasks.hpp"

namespace stages::judge {

constexpr double kMostWork = 5e7;  ///< steps of a case; the executor under a sanitizer takes seconds for it
constexpr double kStartSeconds = 10;  ///< at least, to be ready, ranks included

/// A student's program under examination: the process in which it runs now, and the entry beside it.
struct Exam {
  const Exercise& exercise;
  const Entry& reference;
  const Confinement& confinement;
  const JudgeOptions& options;
  Grade& grade;
  Command command;          ///< that runs the program
  std::vector<Task> tasks;  ///< all cases
  double time_limit = options.time_limit;
  Exec host = {};
  std::unique_ptr<Devices> devices = reference.needs.gpu ? std::make_unique<Devices>() : nullptr;
  std::unique_ptr<Student> student = nullptr;

  void start() {
    student.reset();
    student = std::make_unique<Student>(confinement, command, exercise.master.filename().string(),
                                        std::max(kStartSeconds, time_limit));
  }
  /// There is a process, which has so many seconds.
  void within(double seconds) {
    if (!student) start();
    student->allow(seconds);
  }

  /// When the student's plan sees what it multiplies.
  Values values() const { return reference.needs.gpu ? Values::loaded : Values::with_run; }

  /// Why the case says nothing about the student's entry: the reference does not run it either.
  template <class Problem>
  bool left_out(const Problem& problem) {
    Exec& exec = devices ? devices->machine().of(reference) : host;
    const Offer<Problem> offer = reference.on<Problem>().look(problem, exec);
    // What refuses for want of ranks does so here, too, and not in the student's processes.
    if (exercise.ranks == 1 && offer.refuse(problem, exec)) return true;
    return offer.cost(problem).work > kMostWork;
  }

  /// use(problem): A times so many vectors, times a matrix of so many columns, or A A, as the reference does.
  template <class Use>
  void with_problem_on(const std::string& name, const std::shared_ptr<const Csr<float>>& a, Index vectors,
                       Index columns, Use use) {
    if (reference.op == Op::spmv)
      use(make_spmv_problem<float>(name, a, vectors > 1 ? Mode::stream : Mode::single, vectors));
    if (reference.op == Op::spgemm) use(make_spgemm_problem<float>(name, a, a));
    if (reference.op == Op::spmm) use(make_spmm_problem<float>({.name = name, .a = a, .n_cols = columns}));
  }
};

/// Right, and something that has to be multiplied.
inline bool earns(const ClassGrade& c) { return c.counts() && c.good() && c.name != kNothingToMultiply; }
inline bool multiplies(const Grade& grade) { return std::ranges::any_of(grade.classes, earns); }
inline bool all_right(const Grade& grade) {
  return grade.broken.empty() && std::ranges::all_of(grade.classes, &ClassGrade::good);
}

/// All cases. A class ends with its first that is not right, and the next begins with a new process.
void examine_cases(Exam& exam);

/// On the host: whether run() multiplies, and not what comes after it. What that takes is timed by this
/// process.
void examine_run(Exam& exam);

/// From now on its processes are of the program that `command` runs. Looks whether it multiplies in run(), of
/// each class that is right in the largest case; then, where all is right, at what the exercise demands.
void examine_counts(Exam& exam, Command command);

/// How fast it is beside the reference, on a real GPU.
void compare_speed(Exam& exam);

}  // namespace stages::judge
