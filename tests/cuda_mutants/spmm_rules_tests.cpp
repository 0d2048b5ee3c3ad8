// What step 7's fast entries are made of: pieces of B, kinds of rows, samples of tiles, and the form for each.

#include <array>
#include <vector>

#include "07_spmm/fast/adaptive.hpp"
#include "07_spmm/fast/packed_b.hpp"
#include "07_spmm/fast/whole_rows.hpp"
#include "07_spmm/stage.hpp"
#include "07_spmm/tiles.hpp"
#include "tests/cuda_mutants/support.hpp"

namespace stages::cuda_mutants {
namespace {

using spmm::Piece;
using spmm::RowOrder;
using Adaptive = OnDevice;
using WholeRows = OnDevice;

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
  // non-zeros for a group of 8 lanes.
  const auto kinds_of = [](const std::vector<Index>& lengths) {
    Registry registry;
    spmm::add_whole_rows(registry, "rows", {.order = RowOrder::by_length, .nonzeros = 16});
    GpuExec exec;
    const auto problem = make_spmm_problem<float>(
        {.name = "rows", .a = share<float>(matrices::with_row_lengths(lengths)), .n_cols = 32});
    const auto plan = registry.entries().front().on<SpmmProblem<float>>().prepare(problem, exec);
    return Counts{metric(*plan, "rows_of_blocks"), metric(*plan, "rows_of_groups_first"),
                  metric(*plan, "rows_of_warps")};
  };
  EXPECT_EQ(kinds_of({8, 9, 16, 17}), Counts({0, 2, 1}));
  // A warp has four groups. Where rows are even, it takes twice their part.
  EXPECT_EQ(kinds_of({128, 128, 129}), Counts({1, 0, 2}));
  std::vector<Index> uneven(40, 1);
  uneven[7] = 64;
  uneven[11] = 65;
  EXPECT_EQ(kinds_of(uneven), Counts({1, 0, 1}));
}

// What it chooses by: a matrix that fills tiles, one that does not, and rows too short for any.
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

TEST_F(Adaptive, MultipliesInEachOfItsForms) {
  Registry registry;
  spmm::add_adaptive(registry, "adaptive");
  GpuExec exec;
  const auto expect = [&]<class T>(T, const Matrix& a, Index n_cols, const std::string& form) {
    const auto problem = make_spmm_problem<T>({.name = form, .a = share<T>(a), .n_cols = n_cols});
    expect_good(registry, problem);
    const auto plan = registry.entries().front().on<SpmmProblem<T>>().prepare(problem, exec);
    EXPECT_EQ(plan->note(), form) << "N = " << n_cols;
  };
  using namespace matrices;
  expect(1.0f, dense(48, 128), 64, code_capability() >= 80 ? "dense_tiles" : "whole_rows");
  expect(1.0, dense(48, 128), 64, "whole_rows");
  expect(1.0f, gaps(64, 49), 32, "whole_rows");
  expect(1.0f, gaps(64, 49), 31, "balanced");
  expect(1.0f, empty(64, 49), 32, "balanced");
}

}  // namespace
}  // namespace stages::cuda_mutants
