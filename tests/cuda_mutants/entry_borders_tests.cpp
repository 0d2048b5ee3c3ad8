// Steps 5 to 7 at the borders of their rules: sizes of a matrix that differ by one, between which an entry runs
// other kernels, or begins to refuse. No border is listed here. They are looked for, by what the executor
// ran, so an entry that is added, moved or changed brings its own; and both sides of each are checked.
// (rule_borders_tests.cpp has the borders of step 8, whose rules choose for each row.)

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "05_cuda_csr/stage.hpp"
#include "06_cuda_register/stage.hpp"
#include "07_spmm/stage.hpp"
#include "common/battery/matrices.hpp"
#include "common/gpu/exec.hpp"
#include "common/harness/check.hpp"
#include "common/harness/operands.hpp"
#include "common/matrix/convert.hpp"
#ifdef STAGES_NOTES_KERNELS
#include "common/simt/executor.hpp"
#endif

namespace stages {
namespace {

#ifdef STAGES_NOTES_KERNELS

using namespace matrices;

/// Problems of one kind that differ in one size, from 1 to `most`.
template <class Problem>
struct Family {
  std::string size;
  Index most = 0;
  std::function<Problem(Index)> problem;
};

/// What an entry does with a problem: the kernels that it runs, or why it refuses, without the numbers.
struct Way {
  std::set<const void*> kernels;
  std::string refusal;
  bool operator==(const Way&) const = default;
};

template <class Problem>
Way way_of(const Entry& entry, const Problem& problem, Exec& exec) {
  if (std::optional<std::string> why = entry.on<Problem>().refuse(problem, exec)) {
    std::erase_if(*why, [](unsigned char c) { return std::isdigit(c); });
    return {{}, *why};
  }
  simt::take_kernels_that_ran();
  const auto plan = entry.on<Problem>().prepare(problem, exec);
  const auto operands = make_operands(problem, ValueKind::real, 1);
  plan->load(operands);
  plan->reset();
  plan->run();
  exec.synchronize();
  return {simt::take_kernels_that_ran(), {}};
}

/// Checks the entry on both sides of each border that is found between neighbours among 1, 2, 3, 4, 6, 8, ..
/// and `most`, and prints it. Returns how many there are.
template <class Problem>
int check_borders(const Entry& entry, const Family<Problem>& family, Exec& exec) {
  const auto way = [&](Index size) { return way_of(entry, family.problem(size), exec); };
  std::vector<Index> sizes;
  for (Index size = 1; size < family.most; size += std::max(1, size / 2)) sizes.push_back(size);
  sizes.push_back(family.most);
  int borders = 0;
  Way before = way(1);
  for (std::size_t k = 0; k + 1 < sizes.size(); ++k) {
    const Index end = sizes[k + 1];
    const Way last = way(end);
    for (Index begin = sizes[k]; before != last;) {
      Index low = begin, high = end;
      while (high - low > 1) {
        const Index middle = low + (high - low) / 2;
        (way(middle) == before ? low : high) = middle;
      }
      for (const Index size : {low, high}) {
        const Problem problem = family.problem(size);
        if (entry.on<Problem>().refuse(problem, exec)) continue;
        EXPECT_EQ(check_entry(entry, problem, exec).failure, "")
            << entry.name << ", " << family.size << ": " << size;
      }
      fmt::print("{}, {}, {}: {} | {}\n", entry.name, sizeof(typename Problem::Value) == 4 ? "f32" : "f64",
                 family.size, low, high);
      ++borders;
      before = way(high);
      begin = high;
    }
  }
  return borders;
}

/// As check_borders, of all entries for this problem.
template <class Problem>
int check_borders(const Registry& registry, const std::vector<Family<Problem>>& families) {
  GpuExec exec;
  int borders = 0;
  for (const Entry& entry : registry.entries()) {
    if (entry.op != Problem::kOp) continue;
    for (const Family<Problem>& family : families) borders += check_borders(entry, family, exec);
  }
  return borders;
}

/// Each of 20 rows has up to five entries, from the first column to the last.
Matrix spread(Index columns) {
  Coo<double> a;
  a.rows = 20;
  a.cols = columns;
  const Index entries = std::min(columns, 5);
  for (Index i = 0; i < a.rows; ++i) {
    for (Index e = 0; e < entries; ++e) {
      const auto j = static_cast<Index>(entries == 1 ? 0 : Offset{columns - 1} * e / (entries - 1));
      a.push(i, j, value_at(i, j));
    }
  }
  return to_csr(a);
}

template <class T>
std::shared_ptr<const Csr<T>> shared(const Matrix& a) {
  return std::make_shared<const Csr<T>>(convert_values<T>(a));
}

template <class T>
std::vector<Family<SpmvProblem<T>>> of_spmv(Mode mode, Index products) {
  const auto of = [=](const Matrix& a) {
    return make_spmv_problem<T>("border", shared<T>(a), mode, products);
  };
  std::vector<Family<SpmvProblem<T>>> families = {
      {"non-zeros of each of 150 rows", 150, [=](Index n) { return of(equal_rows(150, 150, n)); }},
      {"non-zeros of the last of 300 rows", 300, [=](Index n) { return of(long_row(300, n)); }},
      {"rows and columns of a band", 1200, [=](Index n) { return of(banded(n, 3)); }}};
  if (mode != Mode::chain)  // which needs a square matrix
    families.push_back({"columns", 70'000, [=](Index n) { return of(spread(n)); }});
  return families;
}

template <class T>
std::vector<Family<SpmmProblem<T>>> of_spmm() {
  const auto of = [](const Matrix& a, Index columns, Layout layout) {
    return make_spmm_problem<T>(
        {.name = "border", .a = shared<T>(a), .n_cols = columns, .b_layout = layout, .c_layout = layout});
  };
  return {{"columns of B", 140, [=](Index n) { return of(ramp(20, 25), n, Layout::row_major); }},
          {"columns of a B that is stored by columns", 140,
           [=](Index n) { return of(ramp(20, 25), n, Layout::col_major); }},
          {"non-zeros of each of 12 rows", 300,
           [=](Index n) { return of(equal_rows(12, 300, n), 33, Layout::row_major); }},
          {"rows of B", 3000,
           [=](Index n) { return of(equal_rows(5, n, std::min(n, 160)), 36, Layout::row_major); }}};
}

TEST(EntryBorders, OfStep5AreRightOnBothSides) {
  Registry registry;
  add_05_cuda_csr(registry);
  EXPECT_GT(check_borders(registry, of_spmv<float>(Mode::single, 1)), 10);
  EXPECT_GT(check_borders(registry, of_spmv<double>(Mode::single, 1)), 10);
}

TEST(EntryBorders, OfStep6AreRightOnBothSides) {
  Registry registry;
  add_06_cuda_register(registry);
  EXPECT_GT(check_borders(registry, of_spmv<float>(Mode::stream, 5)), 10);
  EXPECT_GT(check_borders(registry, of_spmv<double>(Mode::stream, 5)), 10);
  EXPECT_GT(check_borders(registry, of_spmv<float>(Mode::chain, 3)), 5);
  EXPECT_GT(check_borders(registry, of_spmv<double>(Mode::chain, 3)), 5);
}

TEST(EntryBorders, OfStep7AreRightOnBothSides) {
  Registry registry;
  add_07_spmm(registry);
  EXPECT_GT(check_borders(registry, of_spmm<float>()), 10);
  EXPECT_GT(check_borders(registry, of_spmm<double>()), 10);
}

#endif

}  // namespace
}  // namespace stages
