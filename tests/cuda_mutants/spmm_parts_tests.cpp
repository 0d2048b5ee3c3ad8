// The entries of step 7 with shares, chunks and strips so small that small matrices have many of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "07_spmm/stage.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/facts.hpp"
#include "common/harness/check.hpp"
#include "common/harness/operands.hpp"
#include "common/matrix/convert.hpp"
#include "tests/matrices.hpp"

#if STAGES_SIMULATED
#include "common/simt/executor.hpp"
#endif

namespace stages {
namespace {

using matrices::Matrix;

/// Entries for products of T in which rows of B are `aligned` to 16 bytes, or not: balanced has forms for
/// either.
template <class T>
Registry with_small_parts(bool aligned) {
  constexpr Index kVector = 16 / sizeof(T);
  Registry registry;
  for (const Index share : {1, 7, 32, 33}) {
    for (const Index strip : {8, 16, 32, 64, 96}) {
      if (aligned && strip > 16 * kVector) continue;
      spmm::add_balanced(registry, fmt::format("share={},strip={}", share, strip),
                         {.share = share, .strip = strip});
    }
  }
  for (const Index share : {1, 7, 33}) {
    spmm::add_balanced_reordered(registry, fmt::format("reordered,share={}", share), {.share = share});
  }
  for (const Index bands : {1, 4}) {
    spmm::add_balanced(registry, fmt::format("share=9,bands={}", bands), {.share = 9, .bands = bands});
  }
  for (const Index loads : {4, 8}) {
    for (const Index lanes : {8, 16}) {
      if (!aligned || lanes * kVector < 32) continue;
      for (const Index bands : {1, 3}) {
        spmm::add_balanced(
            registry, fmt::format("share=21,lanes={},loads={},bands={}", lanes, loads, bands),
            {.share = 21, .strip = lanes * kVector, .lanes = lanes, .loads = loads, .bands = bands});
      }
    }
  }
  for (const Index per_lane : {1, 2}) {
    spmm::add_warp_per_row(registry, fmt::format("per_lane={}", per_lane), {.per_lane = per_lane});
    for (const Index step : {1, 31, 32, 33}) {
      spmm::add_split_rows(registry, fmt::format("step={},per_lane={}", step, per_lane),
                           {.step = step, .per_lane = per_lane});
    }
    for (const Index rows : {1, 3, 100}) {
      for (const Index longest : {1, 40}) {
        spmm::add_merged_short_rows(
            registry, fmt::format("merged={},short={},per_lane={}", rows, longest, per_lane),
            {.step = 33, .merged_rows = rows, .short_row = longest, .per_lane = per_lane});
      }
    }
  }
  return registry;
}

template <class T>
void expect_good_on(const char* name, const Matrix& a, Index n_cols, Layout layout) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  GpuExec exec;
  SpmmProblem<T> wanted{.name = name,
                        .a = std::make_shared<const Csr<T>>(convert_values<T>(a)),
                        .n_cols = n_cols,
                        .alpha = T(2.5),
                        .beta = T(-1),
                        .b_layout = layout,
                        .c_layout = layout};
  const SpmmProblem<T> problem = make_spmm_problem(wanted);
  const bool aligned = layout == Layout::col_major || n_cols * sizeof(T) % 16 == 0;
  const Registry registry = with_small_parts<T>(aligned);
  for (const Entry& entry : registry.entries()) {
    EXPECT_EQ(check_entry(entry, problem, exec).failure, "")
        << entry.name << " on " << name << ", N = " << n_cols;
  }
}

template <class T>
void expect_good() {
  using namespace matrices;
  // Rows cut in every way, among them those of all lengths, empty ones, and one in more than 32 parts.
  expect_good_on<T>("ramp", ramp(45, 60), 36, Layout::row_major);
  expect_good_on<T>("ramp", ramp(45, 60), 65, Layout::row_major);
  expect_good_on<T>("gaps", gaps(64, 49), 7, Layout::row_major);
  expect_good_on<T>("hub", dense_row(40, 300, 17), 33, Layout::row_major);
  expect_good_on<T>("hub", dense_row(40, 300, 39), 20, Layout::col_major);
  expect_good_on<T>("one_row", dense(1, 70), 64, Layout::row_major);
  expect_good_on<T>("nothing", empty(35, 9), 12, Layout::row_major);
}

TEST(SmallParts, SpmmOfFloats) {
  expect_good<float>();
}

TEST(SmallParts, SpmmOfDoubles) {
  expect_good<double>();
}

/// C as one run after the other leaves it, three times in each order of threads that the executor has (a GPU
/// has its own).
std::vector<Buffer<float>> results_of(const Entry& entry, const SpmmProblem<float>& problem) {
  GpuExec exec;
  const auto plan = entry.on<SpmmProblem<float>>().prepare(problem, exec);
  const auto operands = make_operands(problem, ValueKind::real, 1);
  plan->load(operands);
  std::vector<Buffer<float>> results;
  for (const char* schedule : {"forward", "reverse", "random:1"}) {
#if STAGES_SIMULATED
    simt::set_schedule(schedule);
#else
    static_cast<void>(schedule);
#endif
    for (int k = 0; k < 3; ++k) {
      plan->reset();
      plan->run();
      results.push_back(plan->fetch().data);
    }
  }
#if STAGES_SIMULATED
  simt::set_schedule("");
#endif
  return results;
}

bool all_bits_agree(const std::vector<Buffer<float>>& results) {
  return std::all_of(results.begin(), results.end(), [&](const Buffer<float>& c) {
    return std::memcmp(c.data(), results.front().data(), c.size() * sizeof(float)) == 0;
  });
}

TEST(SmallParts, SpmmGivesTheSameBitsInEveryOrderOfThreads) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  const auto a = std::make_shared<const Csr<float>>(convert_values<float>(matrices::dense_row(40, 300, 17)));
  const SpmmProblem<float> problem =
      make_spmm_problem(SpmmProblem<float>{.name = "hub", .a = a, .n_cols = 36});
  const Registry registry = with_small_parts<float>(true);
  for (const Entry& entry : registry.entries()) {
    if (entry.claims.bitwise_reproducible) {
      EXPECT_TRUE(all_bits_agree(results_of(entry, problem))) << entry.name;
    } else if (STAGES_SIMULATED && entry.name == "step=1,per_lane=1") {
      EXPECT_FALSE(all_bits_agree(results_of(entry, problem)))
          << "atomics in another order: this test sees nothing";
    }
  }
}

TEST(SmallParts, AFormThatThereIsNotIsRefused) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  GpuExec exec;
  Registry registry;
  spmm::add_balanced(registry, "strip=24", {.share = 32, .strip = 24, .lanes = 8});
  spmm::add_balanced(registry, "loads=3", {.strip = 32, .loads = 3});
  spmm::add_balanced(registry, "block=256", {.strip = 32, .block = 256});
  spmm::add_balanced(registry, "lanes=7", {.strip = 32, .lanes = 7});
  SpmmProblem<float> wanted{
      .name = "m",
      .a = std::make_shared<const Csr<float>>(convert_values<float>(matrices::dense(3, 3))),
      .n_cols = 4};
  const SpmmProblem<float> problem = make_spmm_problem(wanted);
  for (const Entry& entry : registry.entries()) {
    EXPECT_THROW(entry.on<SpmmProblem<float>>().prepare(problem, exec), Error) << entry.name;
  }
}

}  // namespace
}  // namespace stages
