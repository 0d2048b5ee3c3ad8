// The grader's child process: a student's file and the battery in one program. Built and run by `stages
// grade`, which watches it from outside; whatever the student's code does, only this process suffers.
//
//   graded REFERENCE FROM NOTES       the battery's cases from number FROM on
//   graded REFERENCE speed:SPEC NOTES the student's entry and the reference, timed on the matrix SPEC
//
// Each thing that happens is a line of JSON, appended to the file NOTES before the next one begins, so that
// after a crash or a hang the last line says where it was. Cases come class by class, and a class ends with
// its first failure: then the process ends too, and the next one starts with a clean device.
//
// The student's entry is held to what the reference claims and may refuse, not to what it says of itself.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/cli/program.hpp"
#include "common/harness/entries.hpp"
#include "common/machines/devices.hpp"
#include "common/machines/ranks.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"
#include "tests/battery.hpp"

namespace stages {

/// What a student's file defines: it registers one entry.
void add_task(Registry& registry);

namespace {

using battery::Case;
using nlohmann::json;

constexpr int kStopped = 3;        ///< exit code: a case failed, and there may be more to do
constexpr double kMostWork = 5e7;  ///< steps of a case; the executor under a sanitizer takes seconds for it

/// Classes of input, in the order in which they are graded.
enum Class { nothing, square, edges, oblong, long_row, zeros, options, streams, chains };
constexpr const char* kClassNames[] = {
    "nothing to multiply",       "square matrices",    "sizes at the edge of a tile",
    "more rows or more columns", "one long row",       "stored zeros",
    "scaling, layouts, padding", "streams of vectors", "chains of products"};

bool holds_zero(const Csr<double>& a) {
  return std::find(a.values.begin(), a.values.end(), 0.0) != a.values.end();
}

bool has_long_row(const Csr<double>& a) {
  Offset longest = 0;
  for (Index i = 0; i < a.rows; ++i) longest = std::max(longest, a.row_nnz(i));
  return a.rows > 1 && longest > 8 * (a.nnz() / a.rows + 1);
}

Class class_of(const Case& c) {
  const Csr<double> a = c.a();
  if (c.mode != Mode::single) return c.mode == Mode::stream ? streams : chains;
  if (c.op == Op::spmm && (c.alpha != 1 || c.beta != 0 || c.b_layout != Layout::row_major ||
                           c.c_layout != Layout::row_major || c.b_padding + c.c_padding > 0)) {
    return options;
  }
  const Csr<double> b = c.op == Op::spgemm ? c.b() : Csr<double>();
  if (a.nnz() == 0 || (c.op == Op::spgemm && b.nnz() == 0)) return nothing;
  if (holds_zero(a) || holds_zero(b)) return zeros;
  if (has_long_row(a) || has_long_row(b)) return long_row;
  if (a.rows != a.cols || (c.op == Op::spgemm && b.rows != b.cols)) return oblong;
  const Index beyond = a.rows % 16;
  return a.rows > 1 && (beyond == 1 || beyond == 15) ? edges : square;
}

/// A case with its class and type of value.
struct Task {
  Case c;
  Class of = nothing;
  bool single = true;  ///< float, else double
};

std::vector<Task> tasks_for(Op op) {
  std::vector<Task> tasks;
  for (const Case& c : battery::cases(op, battery::size_from_environment())) {
    const Class of = class_of(c);
    for (const bool single : {true, false}) tasks.push_back({c, of, single});
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& x, const Task& y) { return x.of < y.of; });
  return tasks;
}

/// The lines that the parent reads. Rank 0's; the others' go nowhere.
class Notes {
 public:
  Notes(const std::string& path, bool root) {
    if (!root) return;
    file_.open(path, std::ios::app);
    if (!file_) fail("{}: cannot be written; give another place", path);
  }
  void add(const json& line) {
    if (file_.is_open()) file_ << line.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  }

 private:
  std::ofstream file_;
};

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
bool answers_again(const Entry& entry, const Problem& problem, Exec& exec) {
  const Problem p = with_values(problem, ValueKind::real, 1);
  const auto plan = entry.on<Problem>().prepare(p, exec);
  const auto result_for = [&](const typename Problem::Operands& operands) {
    plan->load(operands);
    plan->reset();
    plan->run();
    exec.synchronize();
    return plan->fetch();
  };
  const auto one = make_operands(p, ValueKind::real, 2), two = make_operands(p, ValueKind::real, 3);
  const auto first = result_for(one), second = result_for(two);
  const auto a = numbers_of(first), b = numbers_of(second);
  const bool written = !a.empty() && std::none_of(a.begin(), a.end(), [](auto v) { return std::isnan(v); });
  return written && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class Grader {
 public:
  Grader(const Entry& entry, const Entry& reference, Exec& exec, Notes& notes)
      : entry_(entry), reference_(reference), exec_(exec), notes_(notes) {
    entry_.claims = reference.claims;
    entry_.needs = reference.needs;
  }

  /// Collective. Returns whether all cases from `from` on passed.
  bool run(std::size_t from) {
    const std::vector<Task> tasks = tasks_for(entry_.op);
    if (from == 0) {
      json cases = json::array();
      for (const Task& task : tasks)
        cases.push_back(
            {{"class", kClassNames[task.of]}, {"case", task.c.name}, {"type", task.single ? "f32" : "f64"}});
      notes_.add({{"cases", cases}});
    }
    for (std::size_t k = from; k < tasks.size(); ++k) {
      const Task& task = tasks[k];
      notes_.add({{"begin", k}});
      bool good = false;
      if (task.c.op == Op::spmv)
        good = task.single ? check<SpmvProblem<float>>(task.c) : check<SpmvProblem<double>>(task.c);
      if (task.c.op == Op::spmm)
        good = task.single ? check<SpmmProblem<float>>(task.c) : check<SpmmProblem<double>>(task.c);
      if (task.c.op == Op::spgemm)
        good = task.single ? check<SpgemmProblem<float>>(task.c) : check<SpgemmProblem<double>>(task.c);
      if (!good) return false;
    }
    return true;
  }

 private:
  bool root() const { return exec_.communicator().rank() == 0; }

  /// Why the case says nothing about the student's entry: the reference does not run it either.
  template <class Problem>
  std::string left_out(const Problem& problem) const {
    const auto& reference = reference_.on<Problem>();
    if (const auto reason = reference.refuse(problem, exec_)) return *reason;
    const double work = reference.cost(problem).work;
    return work > kMostWork ? fmt::format("{:.2g} steps", work) : std::string();
  }

  template <class Problem>
  bool check(const Case& c) {
    Problem problem = battery::make_problem<Problem>(c);
    std::string reason = root() ? left_out(problem) : std::string();
    bool leave = !reason.empty();
    exec_.communicator().broadcast(&leave, sizeof leave);
    if (leave) {
      notes_.add({{"result", "left out"}, {"reason", reason}});
      return true;
    }
    if (!root()) {
      problem.a = nullptr;
      if constexpr (requires { problem.b; }) problem.b = nullptr;
    }
    reason = judged(problem);
    bool good = reason.empty();
    exec_.communicator().broadcast(&good, sizeof good);
    notes_.add({{"result", good ? "passed" : "failed"}, {"reason", reason}});
    return good;
  }

  template <class Problem>
  std::string judged(const Problem& problem) {
    const bool alone = exec_.communicator().size() == 1;
    try {
      if (root()) {
        if (const auto refused = entry_.on<Problem>().refuse(problem, exec_))
          if (alone) return fmt::format("refuses what it should run: {}", *refused);
      }
      const CheckReport report = check_entry(entry_, problem, exec_);
      // A first result that is right, and later ones that are not: is it the first again?
      if (!alone || report.failure.find("with the second") == std::string::npos) return report.failure;
      return report.failure + (answers_again(entry_, problem, exec_)
                                   ? "; it returns the previous answer, whatever is loaded"
                                   : "");
    } catch (const std::exception& error) {
      if (!alone) throw;  // the other ranks would wait for ever
      return fmt::format("throws: {}", error.what());
    }
  }

  Entry entry_;
  const Entry& reference_;
  Exec& exec_;
  Notes& notes_;
};

/// The student's entry under a name of its own, with what the reference says of limits.
template <class... Problems>
Entry comparable(const Entry& student, const Entry& reference,
                 const std::tuple<Implementation<Problems>...>&) {
  Entry out = student;
  out.name = "student/" + student.name.substr(student.name.find('/') + 1);
  out.claims = reference.claims;
  out.needs = reference.needs;
  const auto take = [&]<class Problem>(Implementation<Problem>& to) {
    to.cost = reference.on<Problem>().cost;
    to.refuse = reference.on<Problem>().refuse;
  };
  (take(std::get<Implementation<Problems>>(out.implementations)), ...);
  return out;
}

/// Median times of both entries, checked and timed as `stages run` does it.
template <class Problem>
void compare_speed(const Problem& problem, const Entry& student, const Entry& reference, Notes& notes) {
  const Devices devices;
  const Entry* const both[] = {&student, &reference};
  Results results;
  run_problem(problem, std::span<const Entry* const>(both), devices.machine(), {}, {}, results);
  json line = {{"speed", {{"simulated", results.rows[1].simulated}}}};
  for (const ResultRow& row : results.rows) {
    json& to = line["speed"][&row == &results.rows[0] ? "student" : "reference"];
    to = {{"status", to_string(row.status)}, {"reason", row.reason}};
    if (row.timed()) to["seconds"] = row.run.median;
  }
  notes.add(line);
}

void compare_speed_on(const std::string& spec, const Entry& student, const Entry& reference, Notes& notes) {
  const auto a = std::make_shared<const Csr<float>>(generate<float>(spec));
  if (student.op == Op::spmv) compare_speed(make_spmv_problem<float>(spec, a), student, reference, notes);
  if (student.op == Op::spgemm)
    compare_speed(make_spgemm_problem<float>(spec, a, a), student, reference, notes);
  if (student.op == Op::spmm)
    compare_speed(make_spmm_problem<float>({.name = spec, .a = a, .n_cols = 32}), student, reference, notes);
}

int grade(Ranks& ranks, const std::vector<std::string>& words) {
  if (words.size() != 3) fail("usage: graded REFERENCE FROM|speed:SPEC NOTES; see tests/grade/child.cpp");
  Notes notes(words[2], ranks.root());
  Registry steps, own;
  add_entries(steps);
  add_task(own);
  const Entry& reference = steps.find(words[0]);
  if (own.entries().size() != 1 || own.entries()[0].op != reference.op) {
    notes.add({{"error", fmt::format("the file registers {} entries; add_task must register one, for {}",
                                     own.entries().size(), to_string(reference.op))}});
    return kStopped;
  }
  const Entry& student = own.entries()[0];
  if (words[1].starts_with("speed:")) {
    const Entry entry = comparable(student, reference, student.implementations);
    compare_speed_on(words[1].substr(6), entry, reference, notes);
    return kGood;
  }
  const Devices devices;
  Exec& exec = ranks.started() ? ranks.exec() : devices.machine().of(reference);
  const bool good =
      Grader(student, reference, exec, notes).run(static_cast<std::size_t>(std::stoull(words[1])));
  if (good) notes.add({{"done", true}});
  return good ? kGood : kStopped;
}

}  // namespace
}  // namespace stages

int main(int argc, char** argv) {
  stages::Ranks ranks;
  try {
    return stages::grade(ranks, {argv + 1, argv + argc});
  } catch (const std::exception& error) {
    const std::string what = fmt::format("graded: rank {}: {}\n", ranks.rank(), error.what());
    if (ranks.size() > 1) ranks.abort(what, stages::kBadInput);
    fmt::print(stderr, "{}", what);
    return stages::kBadInput;
  }
}
