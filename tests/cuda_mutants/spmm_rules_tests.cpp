// What step 7's rules choose on both sides of each of their borders. (Which they are, and why, is told in
// 07_spmm/fast: granularity.hpp, packed_b.hpp, whole_rows.hpp, adaptive.cu.)

#include <array>
#include <limits>
#include <vector>

#include "07_spmm/fast/adaptive.hpp"
#include "07_spmm/fast/packed_b.hpp"
#include "07_spmm/fast/whole_rows.hpp"
#include "07_spmm/stage.hpp"
#include "07_spmm/tiles.hpp"
#include "tests/cuda_mutants/support.hpp"

namespace stages::cuda_mutants {
namespace {

using spmm::Form;
using spmm::Piece;
using spmm::RowOrder;
using spmm::Shape;
using Adaptive = OnDevice;
using Balanced = OnDevice;
using WholeRows = OnDevice;

/// As many rows of `per_row` non-zeros; `longest`: if one of them is longer.
Shape shape_with(Offset rows, Offset per_row, Index n_cols, double fresh = 1, Offset longest = 0) {
  return {.nnz = rows * per_row,
          .rows = static_cast<Index>(rows),
          .rows_of_b = 32,
          .n_cols = n_cols,
          .ld_of_b = n_cols,
          .longest = longest > 0 ? longest : per_row,
          .fresh = fresh};
}
Shape with_nonzeros(Shape shape, Offset nnz) {
  shape.nnz = nnz;
  return shape;
}
Shape with_rows_of_b(Shape shape, Index rows) {
  shape.rows_of_b = rows;
  return shape;
}
Offset sms() { return device_facts().sms; }
std::string words(const Shape& shape) {
  return fmt::format("{} in {} rows, the longest {}, N = {}", shape.nnz, shape.rows, shape.longest,
                     shape.n_cols);
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

TEST_F(Balanced, PacksBWhereItPays) {
  const auto packs = [](Offset nnz_of_row, Index n_cols, Offset ld) {
    const Shape shape{1000 * nnz_of_row, 1000, 1000, n_cols, ld};
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

TEST_F(Balanced, CutsLongRowsInBands) {
  const auto of = [&]<class T>(T, Offset per_row, Index n_cols, Offset of_sm) {
    // Far from dense.
    return spmm::resolve<T>({},
                            with_rows_of_b(shape_with(of_sm * sms() / per_row, per_row, n_cols), 10'000'000));
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
  for (const auto& [n_cols, strip] : {std::pair{32, 32}, {16, 32}, {48, 64}})
    EXPECT_EQ(of(1.0F, 256, n_cols, 2560).strip, strip);
  EXPECT_EQ(of(1.0F, 256, 48, 2560).lanes, 16);
  EXPECT_EQ(of(1.0F, 256, 48, 2560).loads, 8);
  EXPECT_EQ(of(1.0, 256, 8, 2560).strip, 16);
  EXPECT_EQ(of(1.0, 256, 24, 2560).strip, 32);
  // 80 shares for each SM.
  for (const auto& [of_sm, share] : {std::pair{1024, 16}, {2560, 32}})
    EXPECT_EQ(of(1.0F, 256, 32, of_sm).share, share);
  for (const auto& [of_sm, share] : {std::pair{2560, 64}, {7680, 96}, {12'800, 128}})
    EXPECT_EQ(of(1.0F, 256, 64, of_sm).share, share);
  EXPECT_EQ(of(1.0, 256, 16, 2560).share, 32);
  EXPECT_EQ(of(1.0, 256, 24, 2560).share, 64);
}

TEST_F(Balanced, HasShortSharesOfNeighbours) {
  struct Row {
    Offset per_row;
    Index n_cols;
    double fresh;
    Index share;
  };
  for (const Row& row : {Row{64, 64, 0.5, 64},
                         {65, 64, 0.5, 256},
                         {16, 16, 0.5, 16},
                         {17, 16, 0.5, 256},
                         // Banded ones.
                         {15, 64, 0.075, 64},
                         {16, 64, 0.076, 64},
                         {16, 64, 0.075, 128},
                         {16, 32, 0.075, 128},
                         {127, 64, 0.075, 128},
                         {16, 16, 0.075, 16}}) {
    const auto g = spmm::resolve<float>(
        {}, shape_with(24'000 * sms() / row.per_row + 1, row.per_row, row.n_cols, row.fresh));
    EXPECT_EQ(g.share, row.share) << row.per_row << " in a row, N = " << row.n_cols;
    EXPECT_EQ(g.slack, row.share);
  }
}

TEST_F(Balanced, CutsNoRowThatIsHardlyLongerThanTheMeanOne) {
  const auto slack = [](Index share, Index bands, Index n_cols, Offset longest) {
    return spmm::resolve<float>({.share = share, .bands = bands}, shape_with(1000, 20, n_cols, 1, longest))
        .slack;
  };
  for (const Index n_cols : {128, 4}) {  // with 4 a lane a non-zero
    EXPECT_EQ(slack(32, 0, n_cols, 80), 80);
    EXPECT_EQ(slack(20, 0, n_cols, 80), 80);
    EXPECT_EQ(slack(32, 2, n_cols, 80), 16);  // a whole row passes over all bands
    EXPECT_EQ(slack(32, 0, n_cols, 81), 16);  // more than four times the mean row
  }
  EXPECT_EQ(slack(19, 0, 128, 80), 16);  // the mean row is longer
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
        {.name = "rows", .a = shared<float>(matrices::with_row_lengths(lengths)), .n_cols = 32});
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

TEST_F(WholeRows, ComeInTheOrderOfTheRule) {
  const auto expect = [](const Shape& shape, RowOrder order, Index lanes) {
    const spmm::RowForm form = spmm::resolve_rows<float>({}, shape);
    EXPECT_EQ(std::pair(form.order, form.lanes), std::pair(order, lanes)) << words(shape);
  };
  const Offset rows = 300 * sms();  // of 20 non-zeros: 6,000 for each SM
  expect(shape_with(rows, 20, 64, 0.5, 80), RowOrder::as_they_lie, 16);
  expect(with_nonzeros(shape_with(rows, 20, 64, 0.5, 79), 20 * rows - 1), RowOrder::by_length, 16);
  expect(shape_with(rows, 20, 64, 0.5, 81), RowOrder::by_length, 8);
  expect(shape_with(rows, 20, 64, 0.51, 80), RowOrder::by_length, 16);
  expect(shape_with(rows, 128, 64, 0.5), RowOrder::by_length, 16);
  // Up to a line of B four times as many.
  expect(shape_with(4 * rows, 20, 32, 0.5, 80), RowOrder::as_they_lie, 16);
  expect(with_nonzeros(shape_with(4 * rows, 20, 32, 0.5, 79), 80 * rows - 1), RowOrder::by_length, 16);
}

TEST_F(WholeRows, OfAGroupGrowWithTheMatrixAndTheColumns) {
  const auto nonzeros = [](const Shape& shape) { return spmm::resolve_rows<float>({}, shape).nonzeros; };
  const auto uneven = [&](Index n_cols, Offset nnz) {
    return with_nonzeros(shape_with(300 * sms(), 20, n_cols, 0.5, 81), nnz);
  };
  EXPECT_EQ(nonzeros(uneven(64, 1000)), 16);
  // 6 blocks of 128 threads on each SM are 96 groups of 8 lanes; two strips.
  EXPECT_EQ(nonzeros(uneven(64, 48 * sms() * 64)), 64);
  EXPECT_EQ(nonzeros(uneven(64, 48 * sms() * 65)), 128);
  EXPECT_EQ(nonzeros(uneven(32, 48 * sms() * 65)), 32);
  EXPECT_EQ(nonzeros(uneven(32, 10000 * sms() * 96)), 128);
  // Even rows are a group's if they are hardly longer.
  EXPECT_EQ(nonzeros(shape_with(50, 20, 32, 1, 32)), 32);
  EXPECT_EQ(nonzeros(shape_with(50, 20, 32, 1, 33)), 16);
  EXPECT_EQ(nonzeros(shape_with(50, 5, 32, 1, 30)), 16);  // six times the mean row
  EXPECT_EQ(nonzeros(shape_with(96 * sms(), 128, 32)), 128);
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
    const auto problem = make_spmm_problem<T>({.name = form, .a = shared<T>(a), .n_cols = n_cols});
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

/// Where tiles are `filled` so far, and so many rows are in none.
template <class T = float>
Form form_of(const Shape& shape, double filled = 0, double short_rows = 0) {
  return spmm::form_for<T>(shape, [&] { return spmm::TileSample{filled, short_rows}; }).form;
}

TEST_F(Adaptive, TakesTilesWhereNonZerosFillThem) {
  const auto expect = [](bool tiles, Form otherwise, const Shape& shape, double filled,
                         double short_rows = 0) {
    EXPECT_EQ(form_of(shape, filled, short_rows),
              tiles && code_capability() >= 80 ? Form::dense_tiles : otherwise)
        << words(shape) << ", filled " << filled;
  };
  const Offset rows = 50 * sms();  // of 40 non-zeros: 2,000 for each SM
  const auto shape = [&](Index n_cols, double fresh = 1, Offset longest = 0) {
    return shape_with(rows, 40, n_cols, fresh, longest);
  };
  constexpr bool kTiles = true, kNone = false;
  constexpr Form kRows = Form::whole_rows, kBalanced = Form::balanced;
  expect(kNone, kBalanced, shape(7), 0.4);
  expect(kTiles, kRows, shape(8), 0.4);
  EXPECT_EQ(form_of<double>(shape(8), 0.4), kRows);
  // How full they must be goes by the columns.
  expect(kNone, kBalanced, shape(31), 0.39);  // B is not aligned
  expect(kTiles, kBalanced, shape(31), 0.4);
  expect(kNone, kRows, shape(32), 0.24);
  expect(kTiles, kRows, shape(32), 0.25);
  expect(kNone, kRows, shape(64), 0.17);
  expect(kTiles, kRows, shape(64), 0.18);
  // A mesh: local, even, rows that are not long.
  expect(kNone, kRows, shape(64, 0.5), 0.34);
  expect(kTiles, kRows, shape(64, 0.5), 0.35);
  expect(kTiles, kRows, shape(64, 0.51), 0.34);
  expect(kTiles, kRows, shape(64, 0.5, 161), 0.34);
  expect(kTiles, kRows, shape_with(rows, 128, 64, 0.5), 0.34);
  expect(kNone, kBalanced, shape(31, 0.5), 0.39);
  // Rows that are too short; the longest; an eighth in no tile.
  expect(kNone, kRows, shape_with(2 * rows, 31, 32), 1);
  expect(kTiles, kRows, shape_with(2 * rows, 32, 32), 1);
  expect(kTiles, kRows, shape(32, 1, 320), 1);
  expect(kNone, kRows, shape(32, 1, 321), 1);
  expect(kTiles, kRows, shape(32), 1, 0.125);
  expect(kNone, kRows, shape(32), 1, 0.13);
  // Few non-zeros: they need more than a line of B, and tiles that are fuller.
  expect(kNone, kRows, shape_with(rows - 1, 40, 32), 1);
  expect(kNone, kRows, shape_with(32, 64, 36), 0.34);
  expect(kTiles, kRows, shape_with(32, 64, 36), 0.35);
  // A block for each band and strip: 16 tiles for two strips of a band, and 17.
  expect(kTiles, kRows, shape_with(16, 128, 64), 1);
  expect(kNone, kRows, shape_with(16, 136, 64), 1);
}

TEST_F(Adaptive, TakesWholeRowsWhereNoneIsVeryLong) {
  const auto expect = [](bool whole, const Shape& shape) {
    EXPECT_EQ(form_of(shape), whole ? Form::whole_rows : Form::balanced) << words(shape);
  };
  expect(false, shape_with(10, 0, 32));
  // So small that rows may be short. A vector of B, or more; not aligned.
  expect(false, shape_with(32, 1, 4));
  expect(true, shape_with(32, 1, 8));
  expect(true, shape_with(32, 1, 32));
  expect(false, shape_with(32, 1, 31));
  EXPECT_EQ(form_of<double>(shape_with(32, 1, 2)), Form::balanced);
  EXPECT_EQ(form_of<double>(shape_with(32, 1, 4)), Form::whole_rows);
  EXPECT_EQ(form_of<double>(shape_with(32, 1, 5)), Form::balanced);
  // Even and short ones, with more than a line of B.
  expect(true, shape_with(32, 6, 128));
  expect(false, shape_with(32, 5, 128));
  expect(false, shape_with(32, 5, 36, 1, 20));
  expect(true, shape_with(32, 5, 36, 1, 21));
  // The longest row.
  expect(true, shape_with(32, 8, 32, 1, 1281));
  expect(false, shape_with(32, 8, 32, 1, 1282));
  // Very long rows, with more than a line of B, and many non-zeros.
  expect(true, shape_with(16 * sms(), 256, 32));
  expect(true, shape_with(16 * sms(), 255, 36));
  expect(false, shape_with(16 * sms(), 256, 36));
  const Shape most = shape_with(10, 400 * sms(), 36, 1, 300);
  expect(true, most);
  expect(false, with_nonzeros(most, most.nnz + 1));
}

TEST_F(Adaptive, TakesWholeRowsByLengthAsL2Allows) {
  // B and C with so much of L2.
  const auto of_l2 = [](double part, Offset per_row, Index n_cols) {
    const auto l2 = static_cast<double>(device_facts().l2_bytes);
    const auto rows = static_cast<Offset>(part * l2 / (sizeof(float) * n_cols));
    const Offset most_rows = 48'000 * sms() / per_row;  // more are looked at below
    const Shape shape = shape_with(std::min(rows / 2, most_rows), per_row, n_cols);
    return form_of(with_rows_of_b(shape, static_cast<Index>(rows) - shape.rows));
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
    EXPECT_EQ(of_l2(0.99 * most.part, most.per_row, most.n_cols), Form::whole_rows) << most.n_cols;
    EXPECT_EQ(of_l2(1.01 * most.part, most.per_row, most.n_cols), Form::balanced) << most.n_cols;
  }
  EXPECT_EQ(of_l2(0.99, 2, 16), Form::balanced);
  EXPECT_EQ(of_l2(0.74, 5, 32), Form::balanced);
  EXPECT_EQ(of_l2(0.74, 15, 64), Form::balanced);
  // More non-zeros.
  const Shape many = shape_with(1000, 48 * sms(), 16);
  EXPECT_EQ(form_of(many), Form::whole_rows);
  EXPECT_EQ(form_of(with_nonzeros(many, many.nnz + 1)), Form::balanced);
}

TEST_F(Adaptive, TakesWholeRowsAsTheyLieByTheirLength) {
  // Many, near rows are alike, and B is too much for rows by length.
  const auto expect = [](bool whole, Offset per_row, Index n_cols, double fresh = 0.5) {
    const Shape shape = shape_with(24'000 * sms() / per_row + 1, per_row, n_cols, fresh);
    EXPECT_EQ(form_of(with_rows_of_b(shape, std::numeric_limits<Index>::max())),
              whole ? Form::whole_rows : Form::balanced)
        << words(shape);
  };
  expect(true, 5, 16);
  expect(false, 15, 32);
  expect(true, 16, 32);
  expect(false, 19, 64);
  expect(true, 20, 64);
  expect(true, 127, 64);
  expect(false, 128, 64);
  // Banded ones.
  expect(true, 20, 64, 0.076);
  expect(false, 43, 64, 0.075);
  expect(true, 44, 64, 0.075);
  expect(true, 16, 32, 0.075);
}

}  // namespace
}  // namespace stages::cuda_mutants
