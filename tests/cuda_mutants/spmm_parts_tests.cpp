// The entries of step 7 with shares, chunks and strips so small that small matrices have many of them; and what
// its fast entries are made of: pieces of B, kinds of rows, and samples of tiles.
// (One file, though long: all tests take the same few matrices and the same registries.)

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "07_spmm/fast/packed_b.hpp"
#include "07_spmm/fast/partition.hpp"
#include "07_spmm/fast/tiles.hpp"
#include "07_spmm/stage.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/row_order.hpp"
#include "tests/cuda_mutants/support.hpp"

namespace stages::cuda_mutants {
namespace {

using spmm::Piece;
using SmallParts = OnDevice;
using HubRows = OnDevice;
using PackedB = OnDevice;
using WholeRows = OnDevice;

/// C = alpha A B + beta C, with so many columns.
template <class T>
SpmmProblem<T> product(const Matrix& a, Index n_cols, T alpha = 1, T beta = 0,
                       Layout layout = Layout::row_major, Offset padding = 0) {
  SpmmProblem<T> wanted{
      .name = fmt::format("{} x {} with {} non-zeros, N = {}", a.rows, a.cols, a.nnz(), n_cols),
      .a = share<T>(a),
      .n_cols = n_cols,
      .alpha = alpha,
      .beta = beta,
      .b_layout = layout,
      .c_layout = layout};
  if (padding > 0) wanted.ldb = wanted.ldc = n_cols + padding;
  return make_spmm_problem(wanted);
}

/// Rows that are cut in every way, empty ones among them, and one in more than 32 parts. The mean one has 16
/// non-zeros: with fewer, as where there is one long row, a lane asks for fewer vectors at once.
Matrix cut_rows() {
  return matrices::with_row_lengths(std::vector<Index>{0, 3, 32, 0, 1, 7, 33, 2, 31, 8, 0, 65, 34, 4, 40, 0});
}
Matrix hub_row() { return matrices::dense_row(12, 90, 5); }

const Registry& step_7() {
  static const Registry step = [] {
    Registry entries;
    add_07_spmm(entries);
    return entries;
  }();
  return step;
}

/// Entries of step 7, with each combination of values where there are any behind their names.
Registry with_values(const std::vector<std::string>& settings) {
  Registry registry;
  for (const std::string& setting : settings) {
    const std::string name = "07_spmm/" + setting;
    if (setting.find(':') == setting.npos) {
      registry.add(step_7().find(name));
    } else {
      for (const Entry* const entry : step_7().variants(name)) registry.add(*entry);
    }
  }
  return registry;
}

/// For this product: whole_rows wants rows of B that are aligned to 16 bytes, and longer.
template <class T>
Registry with_small_parts(const SpmmProblem<T>& problem) {
  std::vector<std::string> settings = {"balanced:share=1,7,9,33,130",
                                       "warp_per_row",
                                       "split_rows:chunk=1,32",
                                       "merged_short_rows:rows=1,3,32,chunk=33",
                                       "merged_short_rows:rows=3,longest=1,10,chunk=33",
                                       "equal_shares:share=1,7,33",
                                       "loads_ahead:share=1,7,33",
                                       "vector_lanes:share=1,7,33",
                                       "strips:share=1,7,33"};
  if (spmm::rows_are_aligned<T>(spmm::ld_of_b(problem)) && problem.n_cols > spmm::kVectorLength<T>)
    settings.emplace_back("whole_rows");
  return with_values(settings);
}

template <class T>
void multiply_in_small_parts() {
  const auto multiply = [](const Matrix& a, Index n_cols, Layout layout, T alpha = T(2.5), T beta = -1) {
    const auto problem = product<T>(a, n_cols, alpha, beta, layout);
    expect_good(with_small_parts(problem), problem);
  };
  for (const Index n_cols : {1, 2, 3, 4, 7, 36, 65}) multiply(cut_rows(), n_cols, Layout::row_major);
  for (const Index n_cols : {1, 3, 20}) multiply(hub_row(), n_cols, Layout::col_major);
  multiply(hub_row(), 33, Layout::row_major);
  for (const Index n_cols : {2, 4, 7, 36}) multiply(cut_rows(), n_cols, Layout::row_major, 0, 3);
  multiply(matrices::empty(35, 9), 12, Layout::row_major);
  expect_good_by_turns<SpmmProblem<T>>([](const auto& problem) { return with_small_parts(problem); });
}

TEST_F(SmallParts, SpmmOfFloats) { multiply_in_small_parts<float>(); }

TEST_F(SmallParts, SpmmOfDoubles) { multiply_in_small_parts<double>(); }

void expect_same_bits(const Registry& registry, const SpmmProblem<float>& problem) {
  for (const Entry& entry : registry.entries()) {
    if (entry.claims.bitwise_reproducible) {
      EXPECT_TRUE(all_bits_agree(entry, problem)) << entry.name << " on " << problem.name;
    } else if (STAGES_SIMULATED && entry.name == "07_spmm/split_rows:chunk=1") {
      EXPECT_FALSE(all_bits_agree(entry, problem)) << "atomics in another order: this test sees nothing";
    }
  }
}

TEST_F(SmallParts, SpmmGivesTheSameBitsInEveryOrderOfThreads) {
  const auto problem = product<float>(hub_row(), 36);
  expect_same_bits(with_small_parts(problem), problem);
}

/// With shares of one non-zero a row of n has n - 1 slots: so many that several blocks add them up, from one
/// chunk's first slot on or not, to the last of another or not.
std::vector<Matrix> with_hub_rows() {
  constexpr Index kChunk = spmm::kChunk, kMany = spmm::kManyParts;
  std::vector<Matrix> out;
  for (const std::vector<Index>& lengths :
       {std::vector<Index>{kMany + 1, kMany + 2, 0, 3, 3 * kChunk + 1, 40, 1},
        {3 * kChunk + 1, 3 * kChunk, 2 * kChunk + 3},
        {5 * kChunk + 1},
        {3, 0, kMany + 2, 40},
        {kMany + 1}})
    out.push_back(matrices::with_row_lengths(lengths));
  return out;
}

template <class T>
void multiply_hub_rows(const Matrix& a, Index n_cols, T alpha = T(2.5), T beta = -1) {
  expect_good(with_values({"balanced:share=1"}), product<T>(a, n_cols, alpha, beta));
}

TEST_F(HubRows, AreAddedUpByManyBlocks) {
  for_both_types([]<class T>(T) {
    for (const Index n_cols : {1, 3, 33, 33 * Index{16 / sizeof(T)}})
      multiply_hub_rows<T>(with_hub_rows().front(), n_cols);
    multiply_hub_rows<T>(with_hub_rows().front(), 33 * Index{16 / sizeof(T)}, 0, 3);
  });
}

/// Few columns, as ctest runs this one under a search for races, too.
TEST_F(HubRows, OfThreeFloatsAreAddedUpByManyBlocks) {
  for (const Matrix& a : with_hub_rows()) multiply_hub_rows<float>(a, 3);
}

TEST_F(HubRows, HaveTheSameBitsWhicheverBlockIsTheLast) {
  const Registry registry = with_values({"balanced:share=1"});
  for (const Matrix& a : with_hub_rows())
    for (const Index n_cols : {5, 64}) expect_same_bits(registry, product<float>(a, n_cols, 2.5f, -1.0f));
}

TEST_F(HubRows, AndOtherLongRowsAreCountedAndHubRowsHaveChunks) {
  constexpr Index kFew = spmm::kFewParts, kMany = spmm::kManyParts;
  const auto expect = [](const std::vector<Index>& lengths, unsigned long_rows, unsigned chunks) {
    DeviceCsr<float, std::int32_t> a(convert_values<float>(matrices::with_row_lengths(lengths)));
    GpuExec exec;
    const spmm::Partition partition(a, {.share_size = 1}, exec.stream());
    EXPECT_EQ(partition.view().long_rows, long_rows) << testing::PrintToString(lengths);
    EXPECT_EQ(partition.view().chunks, chunks) << testing::PrintToString(lengths);
  };
  expect({5, kFew + 1, kFew + 1, 0, 1}, 0, 0);
  expect({kFew + 2}, 1, 0);
  expect({5, kMany + 1, kMany + 1, 0, kMany, 1}, 3, 0);
  expect({kMany + 2}, 1, 3);
  expect({kMany + 1, 0, kMany + 2}, 2, 5);
  expect({kFew + 2, 0, kFew + 1, kMany + 2, kFew + 3}, 3, 3);
}

/// Every way of packing B, in batches of 4 and of 8, and with rows of C that take vectors, or not.
template <class T>
void multiply_packed() {
  const Registry registry = with_values({"balanced:share=7,33"});
  GpuExec exec;
  const auto multiply = [&](Index longest, Index n_cols, Offset padding_of_c, T alpha = T(2.5), T beta = -1) {
    std::vector<Index> lengths(64);
    for (Index i = 0; i < 64; ++i) lengths[static_cast<std::size_t>(i)] = i * 7 % (longest + 1);
    SpmmProblem<T> problem = product<T>(matrices::with_row_lengths(lengths), n_cols, alpha, beta);
    problem.ldc += padding_of_c;
    const auto plan = registry.entries().front().on<SpmmProblem<T>>().prepare(problem, exec);
    EXPECT_GT(metric(*plan, "packed_bytes"), 0) << problem.name;
    expect_good(registry, problem);
  };
  for (const Index longest : {18, 40}) {
    for (const Index n_cols : {31, 33, 63, 65, 257}) {
      multiply(longest, n_cols, 0);
      multiply(longest, n_cols, 4 - n_cols % 4);
    }
    for (const Index n_cols : {31, 33, 65}) multiply(longest, n_cols, 4 - n_cols % 4, 0, 3);
    for (const Index n_cols : {31, 65}) multiply(longest, n_cols, 0, 0, 3);
  }
  multiply(40, 100, 0);
}

TEST_F(PackedB, GivesProducts) {
  for_both_types([]<class T>(T) { multiply_packed<T>(); });
}

TEST(RowOrder, ByLengthHasTheLongestFirstAndKeepsEquals) {
  const std::vector<Offset> row_ptr = {0, 2, 2, 5, 7, 7};
  EXPECT_EQ(length_order(row_ptr), (std::vector<Index>{2, 0, 3, 1, 4}));
}

/// Strips of all widths, alone and beside wider ones, with and without vectors, in batches of 4 and of 8.
TEST_F(SmallParts, OfEveryStrip) {
  const Registry registry = with_values({"balanced:share=7"});
  for_both_types([&]<class T>(T) {
    for (const Matrix& a : {cut_rows(), hub_row()}) {
      for (const Index n_cols : {7, 8, 12, 13, 20, 23, 41, 65, 68, 74, 80, 100}) {
        expect_good(registry, product<T>(a, n_cols, T(2.5), -1));
        expect_good(registry, product<T>(a, n_cols, 0, 3));
      }
    }
  });
}

/// Blocks, long rows of groups, warps, short ones and empty ones.
TEST_F(WholeRows, OfAllKindsAtOnce) {
  const std::vector<Index> lengths = {5, 600, 0, 12, 50, 1, 20, 150, 0, 5, 50, 12, 1, 3, 4};
  for (const Index n_cols : {16, 32, 48, 100})
    expect_good(with_values({"whole_rows"}), product<float>(matrices::with_row_lengths(lengths), n_cols));
}

TEST_F(WholeRows, RefuseWhatTheyCannotTake) {
  GpuExec exec;
  const auto refusal = [&](const char* setting, Index n_cols) {
    const auto problem = product<float>(matrices::dense(3, 3), n_cols);
    const auto offer = step_7().find(setting).on<SpmmProblem<float>>().look(problem, exec);
    return offer.refuse(problem, exec).value_or("");
  };
  EXPECT_TRUE(has(refusal("07_spmm/whole_rows", 4), "these have 4 columns and lie 4 apart"));
  EXPECT_TRUE(has(refusal("07_spmm/whole_rows", 33), "these have 33 columns and lie 33 apart"));
}

TEST_F(SmallParts, WhatExceedsAnIndexIsRefused) {
  const Registry registry = with_values({"balanced", "strips"});
  GpuExec exec;
  constexpr Index kMost = std::numeric_limits<Index>::max();
  for (const Entry& entry : registry.entries()) {
    const auto refusal = [&](const SpmmProblem<float>& problem) {
      return entry.on<SpmmProblem<float>>().look(problem, exec).refuse(problem, exec).value_or("");
    };
    SpmmProblem<float> problem = product<float>(matrices::dense(2, 2), 4);
    EXPECT_EQ(refusal(problem), "");
    problem.ldb = Offset{kMost} + 1;
    EXPECT_TRUE(has(refusal(problem), "leading dimensions of B and C are 2147483648 and 4;"));
    problem.n_cols = kMost - 256;
    problem.ldb = problem.ldc = problem.n_cols;
    EXPECT_EQ(refusal(problem), "");
    ++problem.n_cols;
    EXPECT_TRUE(has(refusal(problem), "B has 2147483392 columns; these kernels take up to 2147483391"));
  }
}

class DenseTiles : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped() && code_capability() < 80) GTEST_SKIP() << "no TF32 in code for " << code_capability();
  }
};

/// Blocks of 16, 8 and 4 warps, by how many there are; short rows, bands with a tile and with more than all
/// warps take at once, and one that is not full.
TEST_F(DenseTiles, HasEveryForm) {
  const Registry registry = with_values({"dense_tiles"});
  for (const Index n_cols : {7, 36, 65}) {
    const float beta = n_cols == 7 ? 0.0f : -1.0f;
    for (const Matrix& a : {matrices::ramp(20, 40), matrices::dense(17, 300), matrices::empty(35, 9)})
      expect_good(registry, product<float>(a, n_cols, 2.5f, beta));
    for (const Matrix& a : {matrices::ramp(20, 40), matrices::ramp(130, 40), matrices::ramp(260, 40)}) {
      expect_good(registry, product<float>(a, n_cols, 0.0f, 3.0f));
      expect_good(registry, product<float>(a, n_cols, 2.5f, -1.0f));
    }
  }
  expect_same_bits(registry, product<float>(matrices::dense(20, 300), 36));
}

/// C = A B by an entry.
Dense<float> product_by(const char* name, const SpmmProblem<float>& problem, const Dense<float>& b) {
  GpuExec exec;
  const auto plan = step_7().find(name).on<SpmmProblem<float>>().prepare(problem, exec);
  plan->load({.b = b, .c0 = {}});
  plan->reset();
  plan->run();
  return plan->fetch();
}

// The zeros that fill a tile are no non-zeros: infinity and NaN stay in the rows that have a product with them.
// A float close to the largest has no nearest TF32 number.
TEST_F(DenseTiles, LeaveWhatIsNotFiniteInItsRows) {
  SpmmProblem<float> problem = product<float>(matrices::ramp(40, 40), 9);
  auto a = *problem.a;
  a.values[a.values.size() / 2] = std::numeric_limits<float>::max();
  problem.a = std::make_shared<const Csr<float>>(a);
  Dense<float> b(40, 9, Layout::row_major);
  for (std::size_t i = 0; i < b.data.size(); ++i) b.data[i] = static_cast<float>(i % 7) / 8;
  b.data[20 * 9 + 3] = std::numeric_limits<float>::infinity();
  b.data[31 * 9 + 5] = std::numeric_limits<float>::quiet_NaN();
  const auto plain = product_by("07_spmm/warp_per_row", problem, b);
  const auto tiled = product_by("07_spmm/dense_tiles", problem, b);
  int finite = 0;
  for (std::size_t i = 0; i < plain.data.size(); ++i) {
    const float expected = plain.data[i], found = tiled.data[i];
    finite += std::isfinite(expected);
    const bool near = std::abs(found - expected) <= 1e-5f * std::abs(expected) + 1e-6f;
    EXPECT_TRUE(std::isfinite(expected) ? near
                                        : found == expected || (std::isnan(expected) && std::isnan(found)))
        << i << ": " << found << ", not " << expected;
  }
  EXPECT_GT(finite, 40);
  EXPECT_LT(finite, std::ssize(plain.data) - 2);
}

std::vector<Piece> pieces_of_floats(Index n_cols, Index strip = 64) {
  return spmm::pieces_of<float>(n_cols, strip);
}

TEST(PiecesOfB, HasWholeStripsALineAndWhatIsLess) {
  using Pieces = std::vector<Piece>;
  EXPECT_EQ(pieces_of_floats(33), (Pieces{{0, 32, 32}, {32, 1, 1}}));
  EXPECT_EQ(pieces_of_floats(63), (Pieces{{0, 63, 64}}));
  EXPECT_EQ(pieces_of_floats(257), (Pieces{{0, 256, 64}, {256, 1, 1}}));
  EXPECT_EQ(pieces_of_floats(3, 32), (Pieces{{0, 3, 4}}));
  // Padded to a strip, to a line, and neither.
  EXPECT_EQ(pieces_of_floats(64 + 41), (Pieces{{0, 105, 64}}));
  EXPECT_EQ(pieces_of_floats(64 + 20), (Pieces{{0, 64, 64}, {64, 20, 32}}));
  EXPECT_EQ(pieces_of_floats(64 + 12), (Pieces{{0, 64, 64}, {64, 12, 16}}));
  EXPECT_EQ(pieces_of_floats(64 + 8), (Pieces{{0, 64, 64}, {64, 8, 8}}));
  EXPECT_EQ(pieces_of_floats(64 + 40), (Pieces{{0, 64, 64}, {64, 32, 32}, {96, 8, 8}}));
  EXPECT_EQ(pieces_of_floats(64 + 16), (Pieces{{0, 64, 64}, {64, 16, 16}}));
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

TEST(PiecesOfB, HasAllColumnsOnce) {
  for (Index n_cols = 1; n_cols <= 300; ++n_cols) {
    for (const Index lines : {1, 2}) {
      expect_whole(pieces_of_floats(n_cols, lines * 32), n_cols, lines * 32, 32);
      expect_whole(spmm::pieces_of<double>(n_cols, lines * 16), n_cols, lines * 16, 16);
    }
  }
}

TEST(PiecesOfB, LinesAreCountedAsTheyLie) {
  using spmm::lines_as_it_lies, spmm::lines_packed;
  EXPECT_EQ(lines_as_it_lies(32, 32, 32, 32), 1);
  EXPECT_EQ(lines_as_it_lies(64, 64, 64, 32), 2);
  EXPECT_EQ(lines_as_it_lies(32, 48, 32, 32), 1.5);           // every second row begins in the middle
  EXPECT_EQ(lines_as_it_lies(33, 33, 32, 32), 1 + 63 / 32.);  // one of 32 rows begins with a line
  EXPECT_EQ(lines_as_it_lies(100, 100, 64, 32), 2 + 7 / 8. + 2);
  for (const auto& [n_cols, lines] : {std::pair{33, 2}, {63, 2}, {100, 4}, {257, 9}})
    EXPECT_EQ(lines_packed(pieces_of_floats(n_cols), 32), lines);
  EXPECT_EQ(lines_packed(pieces_of_floats(12, 32), 32), 1);
}

TEST_F(WholeRows, GetMoreLanesTheLongerTheyAre) {
  using Counts = std::array<double, 3>;
  // How many have a block, how many of those with a group come before warps, and how many have a warp; with 16
  // non-zeros for a group of 8 lanes, of which a warp has four.
  const auto kinds_of = [](const std::vector<Index>& lengths) {
    GpuExec exec;
    const auto problem = product<float>(matrices::with_row_lengths(lengths), 32);
    const auto plan = step_7().find("07_spmm/whole_rows").on<SpmmProblem<float>>().prepare(problem, exec);
    return Counts{metric(*plan, "rows_of_blocks"), metric(*plan, "rows_of_groups_first"),
                  metric(*plan, "rows_of_warps")};
  };
  EXPECT_EQ(kinds_of({8, 9, 16, 17}), Counts({0, 2, 1}));
  EXPECT_EQ(kinds_of({64, 1, 1, 64, 65}), Counts({1, 0, 2}));
}

// What it chooses by: a matrix that fills tiles, one that does not, and rows too short for any.
TEST(Tiles, AreSampled) {
  using namespace matrices;
  const auto busy = [](const Matrix& a) { return spmm::tiles_busy(convert_values<float>(a)); };
  EXPECT_EQ(busy(dense(32, 128)), 1);
  EXPECT_EQ(busy(dense(24, 128)), 0.75);  // the second band has 8 rows of 16
  EXPECT_EQ(busy(dense(32, 48)), 0.5);    // six tiles count as twelve
  EXPECT_EQ(busy(empty(35, 9)), 0);
  EXPECT_EQ(busy(empty(0, 0)), 0);
  // 300 bands, of which 256 are looked at. In the last half rows are half as long, and tiles half as full.
  std::vector<Index> lengths(16 * 300, 96);
  for (std::size_t i = lengths.size() / 2; i < lengths.size(); ++i) lengths[i] = 48;
  EXPECT_NEAR(busy(with_row_lengths(lengths)), 0.75, 0.01);
}

}  // namespace
}  // namespace stages::cuda_mutants
