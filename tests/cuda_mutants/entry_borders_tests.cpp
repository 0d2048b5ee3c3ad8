// Steps 5 to 7 at the borders of their rules: sizes of a matrix that differ by one, between which an entry runs
// other kernels, or begins to refuse. No border is listed here. They are looked for, by what the executor
// ran, so an entry that is added, moved or changed brings its own; and both sides of each are checked.
// (rule_borders_tests.cpp has the borders of step 8, whose rules choose for each row.) And where two entries
// have to begin to refuse.

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "05_cuda_csr/stage.hpp"
#include "06_cuda_register/stage.hpp"
#include "07_spmm/stage.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "common/harness/product.hpp"
#include "tests/cuda_mutants/support.hpp"

namespace stages::cuda_mutants {
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
  if (std::optional<std::string> why = entry.on<Problem>().look(problem, exec).refuse(problem, exec)) {
    std::erase_if(*why, [](unsigned char c) { return std::isdigit(c); });
    return {{}, *why};
  }
  simt::take_kernels_that_ran();
  one_product(entry, problem, exec)();
  return {simt::take_kernels_that_ran(), {}};
}

/// Checks the entry on both sides of each border that is found between neighbours among 1, 2, 3, 4, 6, 9, ..
/// and `most`, and prints it. Returns how many there are.
template <class Problem>
int check_borders(const Entry& entry, const Family<Problem>& family) {
  GpuExec exec;
  std::map<Index, Way> known;
  const auto way = [&](Index size) {
    if (!known.contains(size)) known[size] = way_of(entry, family.problem(size), exec);
    return known[size];
  };
  std::set<Index> sides;
  int borders = 0;
  for (Index start = 1; start < family.most;) {
    const Index end = std::min(start + std::max(1, start / 2), family.most);
    for (Index begin = start; way(begin) != way(end);) {
      Index low = begin, high = end;
      while (high - low > 1) {
        const Index middle = low + (high - low) / 2;
        (way(middle) == way(begin) ? low : high) = middle;
      }
      fmt::print("{}, {}, {}: {} | {}\n", entry.name, sizeof(typename Problem::Value) == 4 ? "f32" : "f64",
                 family.size, low, high);
      sides.insert({low, high});
      ++borders;
      begin = high;
    }
    start = end;
  }
  for (const Index size : sides) {
    if (!way(size).refusal.empty()) continue;
    EXPECT_EQ(check_entry(entry, family.problem(size), exec).failure, "")
        << entry.name << ", " << family.size << ": " << size;
  }
  return borders;
}

/// As check_borders, of all entries for this problem.
template <class Problem>
int check_borders(const Registry& registry, const std::vector<Family<Problem>>& families) {
  int borders = 0;
  for (const Entry& entry : registry.entries()) {
    if (entry.op != Problem::kOp) continue;
    for (const Family<Problem>& family : families) borders += check_borders(entry, family);
  }
  return borders;
}

template <class T>
std::vector<Family<SpmvProblem<T>>> of_spmv(Mode mode, Index products) {
  const auto of = [=](const Matrix& a) {
    return make_spmv_problem<T>("border", share<T>(a), mode, products);
  };
  std::vector<Family<SpmvProblem<T>>> families = {
      {"non-zeros of each of 150 rows", 150, [=](Index n) { return of(equal_rows(150, 150, n)); }},
      {"non-zeros of the last of 300 rows", 300, [=](Index n) { return of(long_row(300, n)); }},
      {"rows and columns of a band", 1200, [=](Index n) { return of(banded(n, 3)); }}};
  if (mode != Mode::chain)  // which needs a square matrix
    families.push_back(
        {"columns", 70'000, [=](Index n) { return of(strided(20, n, std::max(1, (n - 1) / 4))); }});
  return families;
}

template <class T>
std::vector<Family<SpmmProblem<T>>> of_spmm() {
  const auto of = [](const Matrix& a, Index columns, Layout layout) {
    return make_spmm_problem<T>(
        {.name = "border", .a = share<T>(a), .n_cols = columns, .b_layout = layout, .c_layout = layout});
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
  for_both_types([&]<class T>(T) { EXPECT_GT(check_borders(registry, of_spmv<T>(Mode::single, 1)), 10); });
}

TEST(EntryBorders, OfStep6AreRightOnBothSides) {
  Registry registry;
  add_06_cuda_register(registry);
  for_both_types([&]<class T>(T) {
    EXPECT_GT(check_borders(registry, of_spmv<T>(Mode::stream, 5)), 10);
    // Most are those of chains in a cluster.
    const int least = code_capability() >= 90 ? 5 : code_capability() >= 80 ? 1 : 0;
    EXPECT_GT(check_borders(registry, of_spmv<T>(Mode::chain, 3)), least);
  });
}

TEST(EntryBorders, OfStep7AreRightOnBothSides) {
  Registry registry;
  add_07_spmm(registry);
  for_both_types([&]<class T>(T) { EXPECT_GT(check_borders(registry, of_spmm<T>()), 10); });
}

#endif

using Refusals = OnDevice;

template <class Problem>
bool takes(const Registry& registry, const Problem& problem) {
  GpuExec exec;
  return !registry.entries().front().on<Problem>().look(problem, exec).refuse(problem, exec);
}

TEST_F(Refusals, OfAVectorBeginWhereSharedMemoryEnds) {
  Registry registry;
  add_one_launch(registry);
  const auto fits = static_cast<Index>(device_facts().shared_per_block_optin / sizeof(float));
  for (const Index more : {0, 1}) {
    const auto a = share<float>(matrices::strided(3, fits + more, 4096));
    EXPECT_EQ(takes(registry, make_spmv_problem("wide", a)), more == 0);
  }
}

/// Rows of more products than the table has slots, so that results are counted to the end.
TEST_F(Refusals, OfARowBeginWhereTheTableEnds) {
  Registry registry;
  add_hash_fixed_table(registry);
  for (const Index results : {2048, 2049}) {
    const std::vector<Index> lengths{results, 2060, results};  // the second row of B is not used
    const auto problem = make_spgemm_problem("long_row", share<float>(matrices::strided(1, 3, 2)),
                                             share<float>(matrices::with_row_lengths(lengths)));
    EXPECT_EQ(takes(registry, problem), results == 2048);
  }
}

}  // namespace
}  // namespace stages::cuda_mutants
