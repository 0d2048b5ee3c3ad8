// The entries of step 7 with shares, chunks and strips so small that small matrices have many of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "07_spmm/fast/adaptive.hpp"
#include "07_spmm/fast/balanced.hpp"
#include "07_spmm/fast/whole_rows.hpp"
#include "07_spmm/stage.hpp"
#include "07_spmm/tiles.hpp"
#include "common/battery/matrices.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/facts.hpp"
#include "common/harness/check.hpp"
#include "common/harness/operands.hpp"
#include "common/matrix/convert.hpp"
#include "tests/cuda_mutants/schedules.hpp"

namespace stages {
namespace {

using matrices::Matrix;

/// C = A B, with so many columns, by rows.
template <class T>
SpmmProblem<T> problem_of(const Matrix& a, Index n_cols) {
  return make_spmm_problem(SpmmProblem<T>{
      .name = "m", .a = std::make_shared<const Csr<T>>(convert_values<T>(a)), .n_cols = n_cols});
}

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
  for (const Index share : {5, 130}) {
    spmm::add_balanced(registry, fmt::format("share={}", share), {.share = share});
  }
  for (const Index share : {7, 33}) {
    if (!aligned) continue;
    spmm::add_balanced(registry, fmt::format("share={},lanes=4", share),
                       {.share = share, .strip = 4 * kVector, .lanes = 4});
  }
  spmm::add_whole_rows(registry, "whole_rows,as_they_lie", {.order = spmm::RowOrder::as_they_lie});
  for (const Index nonzeros : {1, 16, 64, 1000}) {
    spmm::add_whole_rows(registry, fmt::format("whole_rows,by_length,nonzeros={}", nonzeros),
                         {.order = spmm::RowOrder::by_length, .nonzeros = nonzeros});
  }
  for (const Index lanes : {8, 16}) {
    spmm::add_whole_rows(registry, fmt::format("whole_rows,lanes={}", lanes),
                         {.order = spmm::RowOrder::by_length, .nonzeros = 8, .lanes = lanes});
  }
  for (const Index slack : {12, 40}) {  // so that shares may be empty, and long rows be cut or whole
    spmm::add_balanced(registry, fmt::format("share=8,slack={}", slack), {.share = 8, .slack = slack});
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
  for (const Index share : {1, 7, 32, 33}) {
    spmm::add_equal_shares(registry, fmt::format("equal_shares,share={}", share), share);
    spmm::add_loads_ahead(registry, fmt::format("loads_ahead,share={}", share), share);
    spmm::add_vector_lanes(registry, fmt::format("vector_lanes,share={}", share), share);
    spmm::add_strips(registry, fmt::format("strips,share={}", share), share);
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
  expect_good_on<T>("ramp", ramp(37, 60), 36, Layout::row_major);
  expect_good_on<T>("ramp", ramp(37, 60), 65, Layout::row_major);
  expect_good_on<T>("gaps", gaps(64, 49), 7, Layout::row_major);
  expect_good_on<T>("hub", dense_row(40, 300, 17), 33, Layout::row_major);
  expect_good_on<T>("hub", dense_row(40, 300, 39), 20, Layout::col_major);
  for (const Index n_cols : {1, 2, 3, 4}) {
    expect_good_on<T>("ramp", ramp(37, 60), n_cols, Layout::row_major);
    expect_good_on<T>("hub", dense_row(40, 300, 17), n_cols, Layout::col_major);
  }
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
  cuda_mutants::in_every_schedule([&] {
    plan->reset();
    plan->run();
    results.push_back(plan->fetch().data);
  });
  return results;
}

bool all_bits_agree(const std::vector<Buffer<float>>& results) {
  return std::all_of(results.begin(), results.end(), [&](const Buffer<float>& c) {
    return std::memcmp(c.data(), results.front().data(), c.size() * sizeof(float)) == 0;
  });
}

TEST(SmallParts, SpmmGivesTheSameBitsInEveryOrderOfThreads) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  const auto problem = problem_of<float>(matrices::dense_row(40, 300, 17), 36);
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

/// With shares of one non-zero a row of n has n - 1 slots: so many that several blocks add them up, from one
/// chunk's first slot on or not, to the last of another or not.
std::vector<Matrix> with_hub_rows() {
  constexpr Index kChunk = spmm::kChunk;
  const std::vector<Index> lengths[] = {
      {2 * kChunk + 1, 2 * kChunk + 2, 0, 3, 5 * kChunk + 1, 40, 1, 7 * kChunk + 9},
      {5 * kChunk + 1, 3 * kChunk + 1, 3 * kChunk, 2 * kChunk + 3},
      {20 * kChunk + 1},
      {3, 0, spmm::kManyParts + 2, 40},
      {spmm::kManyParts + 1},
  };
  std::vector<Matrix> out;
  for (const auto& of_rows : lengths) out.push_back(matrices::with_row_lengths(of_rows));
  return out;
}

template <class T>
SpmmProblem<T> hub_problem(const Matrix& a, Index n_cols) {
  return make_spmm_problem(SpmmProblem<T>{.name = "hubs",
                                          .a = std::make_shared<const Csr<T>>(convert_values<T>(a)),
                                          .n_cols = n_cols,
                                          .alpha = T(2.5),
                                          .beta = T(-1)});
}

template <class T>
void expect_hubs_good(const std::vector<Index>& numbers_of_columns) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  Registry registry;
  spmm::add_balanced(registry, "share=1", {.share = 1});
  spmm::add_balanced(
      registry, "packed,share=1",
      {.share = 1, .strip = Index{128 / sizeof(T)}, .lanes = 8, .packing = spmm::Packing::always});
  GpuExec exec;
  for (const Matrix& a : with_hub_rows()) {
    for (const Index n_cols : numbers_of_columns) {
      for (const Entry& entry : registry.entries()) {
        EXPECT_EQ(check_entry(entry, hub_problem<T>(a, n_cols), exec).failure, "")
            << entry.name << " on " << a.rows << " rows, N = " << n_cols;
      }
    }
  }
}

/// What is counted of a matrix with such rows in shares of one non-zero.
spmm::PartitionView in_shares_of_one(const std::vector<Index>& row_lengths) {
  const Matrix a = matrices::with_row_lengths(row_lengths);
  const spmm::Shape shape{.nnz = a.nnz(), .rows = a.rows, .rows_of_b = a.cols, .n_cols = 8, .ld_of_b = 8};
  AnyDeviceCsr<float> on_device = to_device(convert_values<float>(a));
  GpuExec exec;
  return std::visit(
      [&](auto& m) {
        const auto g = spmm::resolve<float>({.share = 1}, shape);
        return spmm::BalancedMatrix<float>(m, shape, g, exec.stream()).partition().view();
      },
      on_device);
}

TEST(HubRows, AreCountedAndOtherLongRowsToo) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  const auto long_rows = [](const std::vector<Index>& lengths) {
    return in_shares_of_one(lengths).long_rows;
  };
  constexpr Index kFew = spmm::kFewParts, kMany = spmm::kManyParts;
  EXPECT_EQ(long_rows({5, kFew + 1, kFew + 1, 0, 1}), 0);
  EXPECT_EQ(long_rows({kFew + 2}), 1);
  EXPECT_EQ(long_rows({kFew + 2, 0, kFew + 1, kMany + 2, kFew + 3}), 3);
}

TEST(HubRows, HaveChunksAndOthersHaveNone) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  const auto chunks = [](const std::vector<Index>& lengths) { return in_shares_of_one(lengths).chunks; };
  constexpr Index kMany = spmm::kManyParts;
  EXPECT_EQ(chunks({5, kMany + 1, kMany + 1, 0, kMany, 1}), 0);
  EXPECT_EQ(chunks({kMany + 2}), 3);
  EXPECT_EQ(chunks({kMany + 1, 0, kMany + 2}), 5);
}

TEST(HubRows, OfFloatsAreAddedUpByManyBlocks) {
  expect_hubs_good<float>({1, 33, 33 * 4});
}

/// Few, as ctest runs this one under a search for races, too.
TEST(HubRows, OfThreeFloatsAreAddedUpByManyBlocks) {
  expect_hubs_good<float>({3});
}

TEST(HubRows, OfDoublesAreAddedUpByManyBlocks) {
  expect_hubs_good<double>({1, 3, 33, 33 * 2});
}

TEST(HubRows, HaveTheSameBitsWhicheverBlockIsTheLast) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  Registry registry;
  spmm::add_balanced(registry, "share=1", {.share = 1});
  for (const Matrix& a : with_hub_rows()) {
    for (const Index n_cols : {5, 64}) {
      for (const Entry& entry : registry.entries()) {
        EXPECT_TRUE(all_bits_agree(results_of(entry, hub_problem<float>(a, n_cols))))
            << entry.name << " on " << a.rows << " rows, N = " << n_cols;
      }
    }
  }
}

using spmm::Piece;

std::vector<Piece> pieces_of_floats(Index n_cols, Index strip = 64) {
  return spmm::pieces_of<float>(n_cols, strip);
}

TEST(PackedB, HasWholeStripsALineAndWhatIsLess) {
  using Pieces = std::vector<Piece>;
  EXPECT_EQ(pieces_of_floats(33), (Pieces{{0, 32, 32}, {32, 1, 1}}));
  EXPECT_EQ(pieces_of_floats(63), (Pieces{{0, 63, 64}}));
  EXPECT_EQ(pieces_of_floats(65), (Pieces{{0, 64, 64}, {64, 1, 1}}));
  EXPECT_EQ(pieces_of_floats(100), (Pieces{{0, 64, 64}, {64, 32, 32}, {96, 4, 4}}));
  EXPECT_EQ(pieces_of_floats(257), (Pieces{{0, 256, 64}, {256, 1, 1}}));
  EXPECT_EQ(pieces_of_floats(31, 32), (Pieces{{0, 31, 32}}));
  EXPECT_EQ(pieces_of_floats(3, 32), (Pieces{{0, 3, 4}}));
  // Padded to a strip, to a line, and neither.
  EXPECT_EQ(pieces_of_floats(64 + 41), (Pieces{{0, 105, 64}}));
  EXPECT_EQ(pieces_of_floats(64 + 20), (Pieces{{0, 64, 64}, {64, 20, 32}}));
  EXPECT_EQ(pieces_of_floats(64 + 12), (Pieces{{0, 64, 64}, {64, 12, 16}}));
  EXPECT_EQ(pieces_of_floats(64 + 8), (Pieces{{0, 64, 64}, {64, 8, 8}}));
  EXPECT_EQ(pieces_of_floats(64 + 40), (Pieces{{0, 64, 64}, {64, 32, 32}, {96, 8, 8}}));
  EXPECT_EQ(pieces_of_floats(64 + 16), (Pieces{{0, 64, 64}, {64, 16, 16}}));
  EXPECT_EQ(spmm::pieces_of<double>(33, 32), (Pieces{{0, 32, 32}, {32, 1, 1}}));
  EXPECT_EQ(spmm::pieces_of<double>(52, 32), (Pieces{{0, 32, 32}, {32, 16, 16}, {48, 4, 4}}));
}

/// The pieces of one number of columns follow each other, and their arrays' rows fit into lines.
void expect_whole(std::span<const Piece> pieces, Index n_cols, Index strip, Index line) {
  Index next = 0;
  for (const Piece& piece : pieces) {
    EXPECT_EQ(piece.first, next) << "N = " << n_cols;
    EXPECT_TRUE(piece.strip % line == 0 || line % piece.strip == 0) << "N = " << n_cols;
    EXPECT_TRUE(piece.strip == strip || piece.strips() == 1) << "N = " << n_cols;
    EXPECT_LT(Offset{piece.strips()} * piece.strip - piece.columns, line) << "N = " << n_cols;
    next += piece.columns;
  }
  EXPECT_EQ(next, n_cols);
  EXPECT_LE(pieces.size(), spmm::kMostPieces);
}

TEST(PackedB, HasAllColumnsOnce) {
  for (Index n_cols = 1; n_cols <= 300; ++n_cols) {
    for (const Index strip : {32, 64}) expect_whole(pieces_of_floats(n_cols, strip), n_cols, strip, 32);
    for (const Index strip : {16, 32}) {
      expect_whole(spmm::pieces_of<double>(n_cols, strip), n_cols, strip, 16);
    }
  }
}

TEST(PackedB, LinesAreCountedAsTheyLie) {
  using spmm::lines_as_it_lies;
  EXPECT_EQ(lines_as_it_lies(32, 32, 32, 32), 1);
  EXPECT_EQ(lines_as_it_lies(64, 64, 64, 32), 2);
  EXPECT_EQ(lines_as_it_lies(32, 48, 32, 32), 1.5);           // every second row begins in the middle
  EXPECT_EQ(lines_as_it_lies(33, 33, 32, 32), 1 + 63 / 32.);  // one of 32 rows begins with a line
  EXPECT_EQ(lines_as_it_lies(100, 100, 64, 32), 2 + 7 / 8. + 2);
  EXPECT_EQ(spmm::lines_packed(pieces_of_floats(33), 32), 2);
  EXPECT_EQ(spmm::lines_packed(pieces_of_floats(63), 32), 2);
  EXPECT_EQ(spmm::lines_packed(pieces_of_floats(100), 32), 4);
  EXPECT_EQ(spmm::lines_packed(pieces_of_floats(257), 32), 9);
  EXPECT_EQ(spmm::lines_packed(pieces_of_floats(12, 32), 32), 1);
}

TEST(PackedB, IsMadeWhereItPays) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  const auto packs = [](Offset nnz_of_row, Index n_cols, Offset ld) {
    const spmm::Shape shape{1000 * nnz_of_row, 1000, 1000, n_cols, ld};
    return spmm::resolve<float>({}, shape).packing == spmm::Packing::always;
  };
  for (const Index n_cols : {31, 33, 63, 65, 257}) {
    EXPECT_TRUE(packs(20, n_cols, n_cols)) << n_cols;
    EXPECT_FALSE(packs(4, n_cols, n_cols)) << n_cols;  // the copy takes longer than what it saves
    EXPECT_FALSE(packs(20, n_cols, 288)) << n_cols;    // rows begin with lines already
  }
  for (const Index n_cols : {32, 64, 128}) {
    EXPECT_FALSE(packs(20, n_cols, n_cols)) << n_cols;
    EXPECT_TRUE(packs(20, n_cols, n_cols + 1)) << n_cols;
  }
  EXPECT_FALSE(packs(20, 7, 7));  // a line has several rows
}

/// Every way of packing B, for products of T with leading dimensions that are larger by `more` than they need
/// be.
template <class T>
void expect_packed_good_on(const char* name, const Matrix& a, Index n_cols, Offset more) {
  constexpr Index kLine = 128 / sizeof(T);
  SpmmProblem<T> wanted{.name = name,
                        .a = std::make_shared<const Csr<T>>(convert_values<T>(a)),
                        .n_cols = n_cols,
                        .alpha = T(2.5),
                        .beta = T(-1)};
  wanted.ldb = n_cols + more;
  wanted.ldc = n_cols + more;
  const SpmmProblem<T> problem = make_spmm_problem(wanted);
  Registry registry;
  for (const Index strip : {kLine, 2 * kLine}) {
    for (const Index share : {7, 33, 130}) {
      spmm::add_balanced(registry, fmt::format("packed,share={},strip={}", share, strip),
                         {.share = share,
                          .strip = strip,
                          .lanes = strip / Index{16 / sizeof(T)},
                          .packing = spmm::Packing::always});
    }
  }
  spmm::add_balanced_reordered(registry, "packed,reordered",
                               {.share = 21, .strip = 2 * kLine, .packing = spmm::Packing::always});
  GpuExec exec;
  for (const Entry& entry : registry.entries()) {
    EXPECT_EQ(check_entry(entry, problem, exec).failure, "")
        << entry.name << " on " << name << ", N = " << n_cols << ", padded by " << more;
  }
}

template <class T>
void expect_packed_good() {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  using namespace matrices;
  for (const Index n_cols : {1, 3, 31, 33, 63, 65, 100, 257}) {
    const Offset to_vectors = 4 - n_cols % 4;
    // Rows that begin anywhere, and, more than by the fact that they end, with vectors: C is then stored so.
    for (const Offset more : {Offset{0}, Offset{5}, to_vectors}) {
      expect_packed_good_on<T>("ramp", ramp(37, 60), n_cols, more);
    }
    expect_packed_good_on<T>("hub", dense_row(40, 300, 17), n_cols, 1);
    expect_packed_good_on<T>("gaps", gaps(64, 49), n_cols, 2);
  }
  expect_packed_good_on<T>("nothing", empty(35, 9), 33, 0);
  expect_packed_good_on<T>("no columns", empty(35, 0), 33, 0);
}

TEST(PackedB, GivesProductsOfFloats) {
  expect_packed_good<float>();
}

TEST(PackedB, GivesProductsOfDoubles) {
  expect_packed_good<double>();
}

TEST(SmallParts, ColumnsBesideAWideStripHaveAForm) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  GpuExec exec;
  Registry registry;
  spmm::add_balanced(registry, "strip=128", {.share = 7, .strip = 128, .lanes = 16, .loads = 8});
  for (const Index beside : {4, 12, 32, 36, 40, 64, 68}) {
    const auto problem = problem_of<float>(matrices::ramp(45, 60), 128 + beside);
    EXPECT_EQ(check_entry(registry.entries().front(), problem, exec).failure, "") << "N = 128 + " << beside;
  }
}

TEST(SmallParts, AFormThatThereIsNotIsRefused) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  GpuExec exec;
  Registry registry;
  spmm::add_balanced(registry, "strip=24", {.share = 32, .strip = 24, .lanes = 8});
  spmm::add_balanced(registry, "loads=3", {.strip = 32, .loads = 3});
  spmm::add_balanced(registry, "block=256", {.strip = 32, .block = 256});
  spmm::add_balanced(registry, "wide,block=256", {.strip = 128, .lanes = 16, .loads = 8, .block = 256});
  spmm::add_balanced(registry, "lanes=7", {.strip = 32, .lanes = 7});
  spmm::add_balanced(registry, "a lane for 8 columns", {.strip = 8, .lanes = 1});
  spmm::add_balanced(registry, "packed,strip=8", {.strip = 8, .packing = spmm::Packing::always});
  spmm::add_balanced(registry, "packed,lanes=32",
                     {.strip = 32, .lanes = 32, .packing = spmm::Packing::always});
  const auto problem = problem_of<float>(matrices::dense(3, 3), 8);
  for (const Entry& entry : registry.entries()) {
    EXPECT_THROW(entry.on<SpmmProblem<float>>().prepare(problem, exec), Error) << entry.name;
  }
  const spmm::Shape unaligned{.nnz = 9, .rows = 3, .rows_of_b = 3, .n_cols = 7, .ld_of_b = 7};
  EXPECT_EQ(spmm::resolve<float>({.strip = 32, .lanes = 32}, unaligned).block, 128);
  EXPECT_THROW(spmm::resolve<float>({.strip = 32, .lanes = 32, .block = 256}, unaligned), Error);
}

/// Every form of dense_tiles, and what it chooses by itself.
Registry dense_tiles_forms() {
  Registry registry;
  spmm::add_dense_tiles(registry, "dense_tiles");
  for (const Index warps : {4, 8, 16}) {
    for (const Index ahead : {1, 2, 4}) {
      spmm::add_dense_tiles(registry, fmt::format("dense_tiles,warps={},ahead={}", warps, ahead),
                            {.warps = warps, .ahead = ahead});
    }
  }
  return registry;
}

TEST(DenseTiles, HasEveryForm) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  if (code_capability() < 80) GTEST_SKIP() << "no TF32 in code for " << code_capability();
  using namespace matrices;
  const Registry registry = dense_tiles_forms();
  GpuExec exec;
  // Short rows, bands with a tile and with more than all warps take at once, and one that is not full.
  for (const Matrix& a : {ramp(45, 60), dense(33, 300), dense(3, 520), gaps(64, 49), empty(35, 9)}) {
    for (const Index n_cols : {7, 36, 65}) {
      const SpmmProblem<float> problem = make_spmm_problem(
          SpmmProblem<float>{.name = "m",
                             .a = std::make_shared<const Csr<float>>(convert_values<float>(a)),
                             .n_cols = n_cols,
                             .alpha = 2.5f,
                             .beta = n_cols == 7 ? 0.0f : -1.0f});
      for (const Entry& entry : registry.entries()) {
        EXPECT_EQ(check_entry(entry, problem, exec).failure, "")
            << entry.name << " on " << a.rows << " x " << a.cols << ", N = " << n_cols;
      }
    }
  }
}

TEST(DenseTiles, GivesTheSameBitsInEveryOrderOfThreads) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  if (code_capability() < 80) GTEST_SKIP() << "no TF32 in code for " << code_capability();
  const auto problem = problem_of<float>(matrices::dense(20, 300), 36);
  const Registry registry = dense_tiles_forms();
  for (const Entry& entry : registry.entries()) {
    EXPECT_TRUE(all_bits_agree(results_of(entry, problem))) << entry.name;
  }
}

TEST(DenseTiles, RefusesAFormThatThereIsNot) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  if (code_capability() < 80) GTEST_SKIP() << "no TF32 in code for " << code_capability();
  Registry registry;
  spmm::add_dense_tiles(registry, "warps=5", {.warps = 5});
  spmm::add_dense_tiles(registry, "ahead=3", {.ahead = 3});
  GpuExec exec;
  const auto problem = problem_of<float>(matrices::dense(8, 8), 8);
  for (const Entry& entry : registry.entries()) {
    EXPECT_THROW(entry.on<SpmmProblem<float>>().prepare(problem, exec), Error) << entry.name;
  }
}

TEST(SmallParts, WhatExceedsAnIndexIsRefused) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  Registry registry;
  spmm::add_balanced(registry, "balanced");
  spmm::add_strips(registry, "strips");
  GpuExec exec;
  constexpr Index kMost = std::numeric_limits<Index>::max();
  for (const Entry& entry : registry.entries()) {
    const auto refusal = [&](const SpmmProblem<float>& problem) {
      return entry.on<SpmmProblem<float>>().refuse(problem, exec).value_or("");
    };
    SpmmProblem<float> problem = problem_of<float>(matrices::dense(2, 2), 4);
    EXPECT_EQ(refusal(problem), "");
    problem.ldb = Offset{kMost} + 1;
    EXPECT_NE(refusal(problem).find("leading dimensions of B and C are 2147483648 and 4;"),
              std::string::npos);
    problem.n_cols = kMost - 256;
    problem.ldb = problem.ldc = problem.n_cols;
    EXPECT_EQ(refusal(problem), "");
    ++problem.n_cols;
    EXPECT_NE(refusal(problem).find("B has 2147483392 columns; these kernels take up to 2147483391"),
              std::string::npos);
  }
}

// What `adaptive` chooses by: a matrix that fills tiles, one that does not, and rows too short for any.
TEST(Tiles, AreSampled) {
  using namespace matrices;
  const auto sample = [](const Matrix& a) { return spmm::sample_tiles(convert_values<float>(a)); };
  EXPECT_EQ(sample(dense(32, 64)).filled, 1);
  EXPECT_EQ(sample(dense(32, 64)).short_rows, 0);
  EXPECT_EQ(sample(dense(24, 64)).filled, 0.75);       // the second band has 8 rows of 16
  EXPECT_EQ(sample(dense(16 * 1000, 4)).filled, 0.5);  // tiles have 8 columns
  EXPECT_EQ(sample(empty(35, 9)).filled, 0);
  EXPECT_EQ(sample(empty(35, 9)).short_rows, 1);
  EXPECT_EQ(sample(with_row_lengths(std::vector<Index>{3, 40, 40, 0})).short_rows, 0.5);
  // 300 bands, of which 256 are looked at. In the last half rows are half as long, and tiles half as full.
  std::vector<Index> lengths(16 * 300, 8);
  for (std::size_t i = lengths.size() / 2; i < lengths.size(); ++i) lengths[i] = 4;
  EXPECT_NEAR(sample(with_row_lengths(lengths)).filled, 0.75, 0.01);
  EXPECT_EQ(sample(empty(0, 0)).short_rows, 0);
}

/// The form that adaptive takes for a product of T.
template <class T>
std::string chosen(const Matrix& a, Index n_cols) {
  Registry registry;
  spmm::add_adaptive(registry, "adaptive");
  GpuExec exec;
  const auto problem = problem_of<T>(a, n_cols);
  EXPECT_EQ(check_entry(registry.entries().front(), problem, exec).failure, "") << "N = " << n_cols;
  return registry.entries().front().template on<SpmmProblem<T>>().prepare(problem, exec)->note();
}

TEST(Adaptive, MultipliesInEachOfItsForms) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  using namespace matrices;
  const std::string tiles = code_capability() >= 80 ? "dense_tiles" : "whole_rows";
  EXPECT_EQ(chosen<float>(dense(48, 128), 64), tiles);
  EXPECT_EQ(chosen<double>(dense(48, 128), 64), "whole_rows");
  EXPECT_EQ(chosen<float>(gaps(64, 49), 32), "whole_rows");
  EXPECT_EQ(chosen<float>(gaps(64, 49), 31), "balanced");
  EXPECT_EQ(chosen<float>(empty(64, 49), 32), "balanced");
}

/// A product of so many non-zeros in each row, for which rules are asked.
spmm::Shape shape_with(Offset rows, Offset per_row, Index n_cols) {
  return {.nnz = rows * per_row,
          .rows = static_cast<Index>(rows),
          .rows_of_b = 32,
          .n_cols = n_cols,
          .ld_of_b = n_cols,
          .longest = per_row};
}

/// The form that adaptive takes where tiles are `filled` so far and so many rows are in none.
template <class T = float>
spmm::Form form_of(const spmm::Shape& shape, double filled = 0, double short_rows = 0) {
  return spmm::form_for<T>(shape, [&] { return spmm::TileSample{filled, short_rows}; });
}

TEST(Adaptive, TakesTilesWhereNonZerosFillThem) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  using spmm::Form, spmm::Shape;
  const bool has_tiles = code_capability() >= 80;
  const auto tiles = [&](Form otherwise) { return has_tiles ? Form::dense_tiles : otherwise; };
  const Offset sms = device_facts().sms, rows = 50 * sms;  // of 40 non-zeros: 2,000 for each SM
  const auto shape = [&](Index n_cols) { return shape_with(rows, 40, n_cols); };
  EXPECT_EQ(form_of(shape(7), 0.4), Form::balanced);
  EXPECT_EQ(form_of(shape(8), 0.4), tiles(Form::whole_rows));
  EXPECT_EQ(form_of<double>(shape(8), 0.4), Form::whole_rows);
  // How full they must be goes by the columns.
  EXPECT_EQ(form_of(shape(31), 0.39), Form::balanced);  // B is not aligned
  EXPECT_EQ(form_of(shape(31), 0.4), tiles(Form::balanced));
  EXPECT_EQ(form_of(shape(32), 0.24), Form::whole_rows);
  EXPECT_EQ(form_of(shape(32), 0.25), tiles(Form::whole_rows));
  EXPECT_EQ(form_of(shape(64), 0.17), Form::whole_rows);
  EXPECT_EQ(form_of(shape(64), 0.18), tiles(Form::whole_rows));
  // A mesh: local, even, rows that are not long.
  Shape mesh = shape(64);
  mesh.fresh = 0.5;
  EXPECT_EQ(form_of(mesh, 0.34), Form::whole_rows);
  EXPECT_EQ(form_of(mesh, 0.35), tiles(Form::whole_rows));
  Shape apart = mesh;
  apart.fresh = 0.51;
  EXPECT_EQ(form_of(apart, 0.34), tiles(Form::whole_rows));
  Shape not_even = mesh;
  not_even.longest = 161;
  EXPECT_EQ(form_of(not_even, 0.34), tiles(Form::whole_rows));
  Shape longer = shape_with(rows, 128, 64);
  longer.fresh = 0.5;
  EXPECT_EQ(form_of(longer, 0.34), tiles(Form::whole_rows));
  mesh = shape(31);
  mesh.fresh = 0.5;
  EXPECT_EQ(form_of(mesh, 0.39), Form::balanced);
  // Rows that are too short; the longest; an eighth in no tile.
  EXPECT_EQ(form_of(shape_with(2 * rows, 31, 32), 1), Form::whole_rows);
  EXPECT_EQ(form_of(shape_with(2 * rows, 32, 32), 1), tiles(Form::whole_rows));
  Shape uneven = shape(32);
  uneven.longest = 320;
  EXPECT_EQ(form_of(uneven, 1), tiles(Form::whole_rows));
  uneven.longest = 321;
  EXPECT_EQ(form_of(uneven, 1), Form::whole_rows);
  EXPECT_EQ(form_of(shape(32), 1, 0.125), tiles(Form::whole_rows));
  EXPECT_EQ(form_of(shape(32), 1, 0.13), Form::whole_rows);
  // Few non-zeros: they need more than a line of B, and tiles that are fuller.
  EXPECT_EQ(form_of(shape_with(rows - 1, 40, 32), 1), Form::whole_rows);
  EXPECT_EQ(form_of(shape_with(32, 64, 36), 0.34), Form::whole_rows);
  EXPECT_EQ(form_of(shape_with(32, 64, 36), 0.35), tiles(Form::whole_rows));
  // A block for each band and strip: 16 tiles for two strips of a band, and 17.
  EXPECT_EQ(form_of(shape_with(16, 128, 64), 1), tiles(Form::whole_rows));
  EXPECT_EQ(form_of(shape_with(16, 136, 64), 1), Form::whole_rows);
}

TEST(Adaptive, TakesWholeRowsWhereNoneIsVeryLong) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  using spmm::Form, spmm::Shape;
  EXPECT_EQ(form_of(Shape{.rows = 10, .rows_of_b = 10, .n_cols = 32, .ld_of_b = 32}), Form::balanced);
  // So small that rows may be short. A vector of B, or more; not aligned.
  EXPECT_EQ(form_of(shape_with(32, 1, 4)), Form::balanced);
  EXPECT_EQ(form_of(shape_with(32, 1, 8)), Form::whole_rows);
  EXPECT_EQ(form_of(shape_with(32, 1, 32)), Form::whole_rows);
  EXPECT_EQ(form_of(shape_with(32, 1, 31)), Form::balanced);
  EXPECT_EQ(form_of<double>(shape_with(32, 1, 2)), Form::balanced);
  EXPECT_EQ(form_of<double>(shape_with(32, 1, 4)), Form::whole_rows);
  EXPECT_EQ(form_of<double>(shape_with(32, 1, 5)), Form::balanced);
  // Even and short ones, with more than a line of B.
  EXPECT_EQ(form_of(shape_with(32, 6, 128)), Form::whole_rows);
  EXPECT_EQ(form_of(shape_with(32, 5, 128)), Form::balanced);
  Shape uneven = shape_with(32, 5, 36);
  uneven.longest = 20;
  EXPECT_EQ(form_of(uneven), Form::balanced);
  uneven.longest = 21;
  EXPECT_EQ(form_of(uneven), Form::whole_rows);
  // The longest row.
  uneven = shape_with(32, 8, 32);
  uneven.longest = 1281;
  EXPECT_EQ(form_of(uneven), Form::whole_rows);
  uneven.longest = 1282;
  EXPECT_EQ(form_of(uneven), Form::balanced);
  // Very long rows, with more than a line of B, and many non-zeros.
  const Offset sms = device_facts().sms;
  EXPECT_EQ(form_of(shape_with(16 * sms, 256, 32)), Form::whole_rows);
  EXPECT_EQ(form_of(shape_with(16 * sms, 255, 36)), Form::whole_rows);
  EXPECT_EQ(form_of(shape_with(16 * sms, 256, 36)), Form::balanced);
  Shape most = shape_with(10, 400 * sms, 36);
  most.longest = 300;
  EXPECT_EQ(form_of(most), Form::whole_rows);
  most.nnz += 1;
  EXPECT_EQ(form_of(most), Form::balanced);
}

TEST(Adaptive, TakesWholeRowsByLengthAsL2Allows) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  using spmm::Form, spmm::Shape;
  // B and C with so much of L2.
  const auto of_l2 = [](double part, Offset per_row, Index n_cols) {
    const auto l2 = static_cast<double>(device_facts().l2_bytes);
    const auto rows = static_cast<Offset>(part * l2 / (sizeof(float) * n_cols));
    const Offset most_rows = 48'000 * Offset{device_facts().sms} / per_row;  // more are looked at below
    Shape shape = shape_with(std::min(rows / 2, most_rows), per_row, n_cols);
    shape.rows_of_b = static_cast<Index>(rows) - shape.rows;
    return shape;
  };
  struct Limit {
    Offset per_row;
    Index n_cols;
    double part;  ///< of L2
  };
  // Shorter rows need more of it left.
  for (const Limit& most : {Limit{3, 16, 1},
                            {6, 32, 0.75},
                            {16, 64, 0.75},
                            {2, 16, 1.0 / 6},
                            {5, 32, 1.0 / 6},
                            {15, 64, 1.0 / 6}}) {
    EXPECT_EQ(form_of(of_l2(0.99 * most.part, most.per_row, most.n_cols)), Form::whole_rows) << most.n_cols;
    EXPECT_EQ(form_of(of_l2(1.01 * most.part, most.per_row, most.n_cols)), Form::balanced) << most.n_cols;
  }
  EXPECT_EQ(form_of(of_l2(0.99, 2, 16)), Form::balanced);
  EXPECT_EQ(form_of(of_l2(0.74, 5, 32)), Form::balanced);
  EXPECT_EQ(form_of(of_l2(0.74, 15, 64)), Form::balanced);
  // More non-zeros.
  Shape many = shape_with(1000, 48 * device_facts().sms, 16);
  EXPECT_EQ(form_of(many), Form::whole_rows);
  many.nnz += 1;
  EXPECT_EQ(form_of(many), Form::balanced);
}

TEST(Adaptive, TakesWholeRowsAsTheyLieByTheirLength) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  using spmm::Form, spmm::Shape;
  // Many, and near rows are alike.
  const auto form = [](Offset per_row, Index n_cols, double fresh = 0.5) {
    Shape shape = shape_with(24'000 * Offset{device_facts().sms} / per_row + 1, per_row, n_cols);
    shape.rows_of_b = std::numeric_limits<Index>::max();  // too much for rows by length
    shape.fresh = fresh;
    return form_of(shape);
  };
  EXPECT_EQ(form(5, 16), Form::whole_rows);
  EXPECT_EQ(form(15, 32), Form::balanced);
  EXPECT_EQ(form(16, 32), Form::whole_rows);
  EXPECT_EQ(form(19, 64), Form::balanced);
  EXPECT_EQ(form(20, 64), Form::whole_rows);
  EXPECT_EQ(form(127, 64), Form::whole_rows);
  EXPECT_EQ(form(128, 64), Form::balanced);
  // Banded ones.
  EXPECT_EQ(form(20, 64, 0.076), Form::whole_rows);
  EXPECT_EQ(form(43, 64, 0.075), Form::balanced);
  EXPECT_EQ(form(44, 64, 0.075), Form::whole_rows);
  EXPECT_EQ(form(16, 32, 0.075), Form::whole_rows);
}

TEST(SmallParts, LongRowsComeInBands) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  const Offset sms = device_facts().sms;
  const auto of = [&]<class T>(T, Offset per_row, Index n_cols, Offset of_sm) {
    spmm::Shape shape = shape_with(of_sm * sms / per_row, per_row, n_cols);
    shape.rows_of_b = 10'000'000;  // far from dense
    return spmm::resolve<T>({}, shape);
  };
  // Rows of two shares, of 128 non-zeros at least.
  EXPECT_EQ(of(1.0F, 127, 128, 1270).bands, 1);
  EXPECT_EQ(of(1.0F, 128, 128, 1280).bands, 20);
  EXPECT_EQ(of(1.0F, 127, 32, 1270).bands, 1);  // shares of 16
  EXPECT_EQ(of(1.0F, 128, 32, 1280).bands, 20);
  EXPECT_EQ(of(1.0F, 256, 33, 2560).bands, 1);  // B is neither aligned nor packed
  EXPECT_EQ(of(1.0F, 255, 128, 25'500).bands, 1);
  EXPECT_EQ(of(1.0F, 256, 128, 25'600).bands, 20);
  // A line of B, half of one, and more.
  EXPECT_EQ(of(1.0F, 256, 32, 2560).bands, 20);
  EXPECT_EQ(of(1.0F, 256, 32, 2560).strip, 32);
  EXPECT_EQ(of(1.0F, 256, 16, 2560).strip, 32);
  EXPECT_EQ(of(1.0F, 256, 48, 2560).strip, 64);
  EXPECT_EQ(of(1.0F, 256, 48, 2560).lanes, 16);
  EXPECT_EQ(of(1.0F, 256, 48, 2560).loads, 8);
  EXPECT_EQ(of(1.0, 256, 8, 2560).strip, 16);
  EXPECT_EQ(of(1.0, 256, 24, 2560).strip, 32);
  // 80 shares for each SM.
  EXPECT_EQ(of(1.0F, 256, 32, 1024).share, 16);
  EXPECT_EQ(of(1.0F, 256, 32, 2560).share, 32);
  EXPECT_EQ(of(1.0F, 256, 64, 2560).share, 64);
  EXPECT_EQ(of(1.0F, 256, 64, 7680).share, 96);
  EXPECT_EQ(of(1.0F, 256, 64, 12'800).share, 128);
  EXPECT_EQ(of(1.0, 256, 16, 2560).share, 32);
  EXPECT_EQ(of(1.0, 256, 24, 2560).share, 64);
}

TEST(SmallParts, SharesOfNeighboursAreShort) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  const Offset sms = device_facts().sms;
  const auto share = [&](Offset per_row, Index n_cols, double fresh) {
    spmm::Shape shape = shape_with(24'000 * sms / per_row + 1, per_row, n_cols);
    shape.fresh = fresh;
    const auto g = spmm::resolve<float>({}, shape);
    EXPECT_EQ(g.share, g.slack);
    return g.share;
  };
  EXPECT_EQ(share(64, 64, 0.5), 64);
  EXPECT_EQ(share(65, 64, 0.5), 256);
  EXPECT_EQ(share(16, 16, 0.5), 16);
  EXPECT_EQ(share(17, 16, 0.5), 256);
  // Banded ones.
  EXPECT_EQ(share(15, 64, 0.075), 64);
  EXPECT_EQ(share(16, 64, 0.076), 64);
  EXPECT_EQ(share(16, 64, 0.075), 128);
  EXPECT_EQ(share(16, 32, 0.075), 128);
  EXPECT_EQ(share(127, 64, 0.075), 128);
  EXPECT_EQ(share(16, 16, 0.075), 16);
}

TEST(SmallParts, SharesCutNoRowThatIsHardlyLongerThanTheMeanOne) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  spmm::Shape shape{.nnz = 20'000, .rows = 1000, .rows_of_b = 1000, .n_cols = 128, .ld_of_b = 128};
  const auto slack = [&](Index share, Index bands = 0) {
    return spmm::resolve<float>({.share = share, .bands = bands}, shape).slack;
  };
  shape.longest = 80;
  EXPECT_EQ(slack(32), 80);
  EXPECT_EQ(slack(20), 80);
  EXPECT_EQ(slack(19), 16);     // the mean row is longer
  EXPECT_EQ(slack(32, 2), 16);  // a whole row passes over all bands
  shape.n_cols = 4;             // a lane a non-zero
  shape.ld_of_b = 4;
  EXPECT_EQ(slack(32), 80);
  EXPECT_EQ(slack(32, 2), 16);
  shape.longest = 81;  // more than four times the mean row
  EXPECT_EQ(slack(32), 16);
}

/// How many rows have a block, how many of those with a group come before warps, and how many have a warp; with
/// 16 non-zeros for a group of 8 lanes.
std::array<double, 3> kinds_of(const std::vector<Index>& lengths) {
  Registry registry;
  spmm::add_whole_rows(registry, "rows", {.order = spmm::RowOrder::by_length, .nonzeros = 16});
  GpuExec exec;
  const auto problem = problem_of<float>(matrices::with_row_lengths(lengths), 32);
  const auto plan = registry.entries().front().on<SpmmProblem<float>>().prepare(problem, exec);
  std::array<double, 3> kinds = {-1, -1, -1};
  for (const Metric& metric : plan->metrics()) {
    if (metric.name == "rows_of_blocks") kinds[0] = metric.value;
    if (metric.name == "rows_of_groups_first") kinds[1] = metric.value;
    if (metric.name == "rows_of_warps") kinds[2] = metric.value;
  }
  return kinds;
}

TEST(WholeRows, OfAllKindsAtOnce) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  // With 32 non-zeros for a group: blocks, long rows of groups, warps, short ones and empty ones.
  const std::vector<Index> lengths = {5, 600, 0, 20, 100, 1, 20, 100, 0, 5, 100, 20, 1, 3, 4};
  Registry registry;
  spmm::add_whole_rows(registry, "rows", {.order = spmm::RowOrder::by_length, .nonzeros = 32});
  GpuExec exec;
  for (const Index n_cols : {16, 32, 48, 100}) {
    const auto problem = problem_of<float>(matrices::with_row_lengths(lengths), n_cols);
    EXPECT_EQ(check_entry(registry.entries().front(), problem, exec).failure, "") << "N = " << n_cols;
  }
}

TEST(WholeRows, GetMoreLanesTheLongerTheyAre) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  using Counts = std::array<double, 3>;
  EXPECT_EQ(kinds_of({8, 9, 16, 17}), Counts({0, 2, 1}));
  // A warp has four groups. Where rows are even, it takes twice their part.
  EXPECT_EQ(kinds_of({128, 128, 129}), Counts({1, 0, 2}));
  std::vector<Index> uneven(40, 1);
  uneven[7] = 64;
  uneven[11] = 65;
  EXPECT_EQ(kinds_of(uneven), Counts({1, 0, 1}));
}

TEST(WholeRows, ComeInTheOrderOfTheRule) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  using spmm::RowForm, spmm::RowOrder, spmm::Shape;
  const auto sms = Offset{device_facts().sms};
  const auto form = [](const Shape& shape) { return spmm::resolve_rows<float>(RowForm{}, shape); };
  const Offset rows = 300 * sms;  // 6,000 non-zeros for each SM
  Shape shape{
      .nnz = 20 * rows, .rows = static_cast<Index>(rows), .rows_of_b = 5000, .n_cols = 64, .ld_of_b = 64};
  shape.longest = 80;
  shape.fresh = 0.5;
  EXPECT_EQ(form(shape).order, RowOrder::as_they_lie);
  EXPECT_EQ(form(shape).lanes, 16);
  Shape fewer = shape;
  fewer.nnz -= 1;
  fewer.longest = 79;
  EXPECT_EQ(form(fewer).order, RowOrder::by_length);
  EXPECT_EQ(form(fewer).lanes, 16);
  // Up to a line of B four times as many.
  Shape line = shape;
  line.n_cols = 32;
  line.rows *= 4;
  line.nnz *= 4;
  EXPECT_EQ(form(line).order, RowOrder::as_they_lie);
  line.nnz -= 1;
  line.longest = 79;
  EXPECT_EQ(form(line).order, RowOrder::by_length);
  Shape uneven = shape;
  uneven.longest = 81;
  EXPECT_EQ(form(uneven).order, RowOrder::by_length);
  EXPECT_EQ(form(uneven).lanes, 8);
  Shape apart = shape;
  apart.fresh = 0.51;
  EXPECT_EQ(form(apart).order, RowOrder::by_length);
  EXPECT_EQ(form(apart).lanes, 16);
  Shape longer = shape;
  longer.nnz = 128 * rows;
  longer.longest = 128;
  EXPECT_EQ(form(longer).order, RowOrder::by_length);
  // What a group takes grows with the matrix and the columns.
  uneven.nnz = 1000;
  EXPECT_EQ(form(uneven).nonzeros, 16);
  uneven.nnz = 48 * sms * 64;  // 6 blocks of 128 threads on each SM are 96 groups of 8 lanes; two strips
  EXPECT_EQ(form(uneven).nonzeros, 64);
  uneven.nnz = 48 * sms * 65;
  EXPECT_EQ(form(uneven).nonzeros, 128);
  uneven.n_cols = 32;
  EXPECT_EQ(form(uneven).nonzeros, 32);
  uneven.nnz = 10000 * sms * 96;
  EXPECT_EQ(form(uneven).nonzeros, 128);
  // Even rows are a group's if they are hardly longer.
  Shape even = shape_with(50, 20, 32);
  even.longest = 32;
  EXPECT_EQ(form(even).nonzeros, 32);
  even.longest = 33;
  EXPECT_EQ(form(even).nonzeros, 16);
  even.nnz = 250;
  even.longest = 30;  // six times the mean row
  EXPECT_EQ(form(even).nonzeros, 16);
  EXPECT_EQ(form(shape_with(96 * sms, 128, 32)).nonzeros, 128);
  EXPECT_THROW(spmm::resolve_rows<float>({.nonzeros = -1}, shape), Error);
  EXPECT_THROW(spmm::resolve_rows<float>({.lanes = 4}, shape), Error);
}

/// C = A B by an entry.
std::vector<float> product_by(const char* name, const SpmmProblem<float>& problem, const Dense<float>& b) {
  Registry registry;
  add_07_spmm(registry);
  GpuExec exec;
  const auto plan = registry.find(name).on<SpmmProblem<float>>().prepare(problem, exec);
  SpmmOperands<float> operands;
  operands.b = b;
  plan->load(operands);
  plan->reset();
  plan->run();
  const Dense<float> c = plan->fetch();
  return {c.data.begin(), c.data.end()};
}

// The zeros that fill a tile are no non-zeros: infinity and NaN stay in the rows that have a product with them.
// A float close to the largest has no nearest TF32 number.
TEST(SmallParts, WhatIsNotFiniteStaysInItsRows) {
  if (const std::string reason = device_problem(); !reason.empty()) GTEST_SKIP() << reason;
  if (code_capability() < 80) GTEST_SKIP() << "no TF32 in code for " << code_capability();
  auto a = convert_values<float>(matrices::ramp(40, 40));
  a.values[a.values.size() / 2] = std::numeric_limits<float>::max();
  SpmmProblem<float> wanted{.name = "ramp", .a = std::make_shared<const Csr<float>>(a), .n_cols = 9};
  const SpmmProblem<float> problem = make_spmm_problem(wanted);
  Dense<float> b(40, 9, Layout::row_major);
  for (std::size_t i = 0; i < b.data.size(); ++i) b.data[i] = static_cast<float>(i % 7) / 8;
  b.data[20 * 9 + 3] = std::numeric_limits<float>::infinity();
  b.data[31 * 9 + 5] = std::numeric_limits<float>::quiet_NaN();
  const auto plain = product_by("07_spmm/warp_per_row", problem, b);
  for (const char* name : {"07_spmm/tensor_tiles", "07_spmm/dense_tiles"}) {
    const auto tiled = product_by(name, problem, b);
    int finite = 0, others = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      (std::isfinite(plain[i]) ? finite : others) += 1;
      if (std::isnan(plain[i])) {
        EXPECT_TRUE(std::isnan(tiled[i])) << name << ", " << i;
      } else if (std::isinf(plain[i])) {
        EXPECT_EQ(tiled[i], plain[i]) << name << ", " << i;
      } else {
        EXPECT_NEAR(tiled[i], plain[i], 1e-5f * std::abs(plain[i]) + 1e-6f) << name << ", " << i;
      }
    }
    EXPECT_GT(finite, 40);
    EXPECT_GT(others, 2);
  }
}

}  // namespace
}  // namespace stages
