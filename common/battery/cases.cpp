// The cases of the battery: each kind of matrix and of parameters. Sizes and widths one by one are in
// tests/sweep.cpp.

#include <cstdlib>

#include "common/battery/battery.hpp"
#include "common/battery/matrices.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"

namespace stages::battery {
namespace {

using namespace matrices;
using Make = std::function<Matrix()>;

/// A matrix with a name, for all operations.
struct NamedMatrix {
  std::string name;
  bool small;
  Make make;
  bool square = false;
  bool in_products = true;  ///< whether SpGEMM squares it too; false where that takes too many products
};

constexpr bool kSmall = true, kFull = false;

/// Degenerate shapes, then structures, and squares with sizes around those of tiles, warps and blocks.
std::vector<NamedMatrix> shapes() {
  return {
      {"0x0", kSmall, of(empty, 0, 0), true},
      {"0x7", kSmall, of(empty, 0, 7)},
      {"7x0", kSmall, of(empty, 7, 0)},
      {"1x1", kSmall, of(dense, 1, 1), true},
      {"1x1_empty", kFull, of(empty, 1, 1), true},
      {"1x300", kSmall, of(dense, 1, 300)},
      {"300x1", kSmall, of(dense, 300, 1)},
      {"1x1025_sparse", kFull, of(uneven, 1, 1025, 100)},
      {"1025x1_sparse", kFull, of(uneven, 1025, 1, 1), false, false},
      {"all_empty_7x9", kSmall, of(empty, 7, 9)},
      {"all_empty_300x300", kFull, of(empty, 300, 300), true, false},
      {"single_first", kFull, of(single, 40, 70, 0, 0)},
      {"single_last", kSmall, of(single, 70, 40, 69, 39)},
      {"gaps_64x49", kSmall, of(gaps, 64, 49)},
      {"dense_row_first", kFull, of(dense_row, 50, 400, 0)},
      {"dense_row_middle", kSmall, of(dense_row, 100, 300, 57)},
      {"dense_row_last", kSmall, of(dense_row, 65, 129, 64)},
      {"dense_column_first", kFull, of(dense_column, 300, 40, 0)},
      {"dense_column_last", kSmall, of(dense_column, 129, 65, 64)},
      {"hub_row_2000", kFull, of(dense_row, 200, 2000, 100)},
      {"hub_row_square", kSmall, of(dense_row, 257, 257, 3), true},
      {"arrow_150", kFull, of(arrow, 150), true},
      {"repeated_coordinates", kSmall, of(repeated_coordinates, 60, 45)},
      {"cancelled_coordinates", kSmall, of(cancelled_coordinates, 60, 60), true},
      {"stored_zeros", kSmall, of(stored_zeros, 50, 50), true},
      {"wide_20x300", kSmall, of(uneven, 20, 300, 9)},
      {"tall_300x20", kSmall, of(uneven, 300, 20, 5)},
      {"wide_3x1500", kFull, of(uneven, 3, 1500, 200)},
      {"ramp_140x200", kSmall, of(ramp, 140, 200), false, false},
      {"equal_rows_64x51_of_5", kSmall, of(equal_rows, 64, 51, 5)},
      {"equal_rows_40x64_of_32", kSmall, of(equal_rows, 40, 64, 32)},
      {"equal_rows_256_of_51", kSmall, of(equal_rows, 256, 256, 51), true, false},
      {"equal_rows_407_of_81", kFull, of(equal_rows, 407, 407, 81), true, false},
      {"identity_65", kSmall, of(identity, 65), true},
      {"permutation_100", kSmall, of(permutation, 100), true},
      {"tridiagonal_257", kSmall, of(banded, 257, 1), true},
      {"banded_100", kFull, of(banded, 100, 17), true},
      {"lower_triangle_65", kFull, of(lower_triangle, 65), true},
      {"dense_33x33", kSmall, of(dense, 33, 33), true},
      {"blocks_99", kFull, of(blocks, 33), true},
      {"strided_20x8192", kSmall, of(strided, 20, 8192, 1024)},
      {"hypersparse_3000", kFull, of(single, 3000, 3000, 1500, 2999), true},
      {"tile_17", kSmall, of(uneven, 17, 17, 6), true},
      {"tile_31", kSmall, of(uneven, 31, 31, 6), true},
      {"tile_33", kSmall, of(uneven, 33, 33, 6), true},
      {"tile_257", kSmall, of(uneven, 257, 257, 6), true},
  };
}

void add_spmv(std::vector<Case>& out) {
  const auto add = [&](const std::string& name, bool small, const Make& make, Mode mode = Mode::single,
                       Index products = 1) {
    const std::string how = mode == Mode::single ? "" : fmt::format("/{}_{}", to_string(mode), products);
    out.push_back(
        {.name = name + how, .op = Op::spmv, .small = small, .a = make, .mode = mode, .products = products});
  };
  for (const NamedMatrix& s : shapes()) add(s.name, s.small, s.make);
  for (const Index cols : {65535, 65536, 65537})
    add(fmt::format("16_bit_columns_{}", cols), kFull, of(strided, 3, cols, 256));
  // Where bands of columns go through shared memory a block goes to the next band in the midst of its work: six
  // long rows are so much that the two short ones, one lane each, are left to a block of the next band.
  add("next_band_8x65537", kFull, of(strided_thirds, 8, 65537, 256));
  // Four bytes for each column are all the shared memory of an sm_90, with none left for a zero behind them.
  add("full_band_3x58112", kFull, of(strided, 3, 58'112, 256));
  // More parts of 256 entries than a warp has lanes.
  add("hub_row_8200", kFull, of(dense_row, 3, 8200, 1));
  // Equal rows for teams of 4, 8 and 16 lanes, of a matrix whose x does not fit into shared memory.
  for (const Index stride : {4096, 1024, 512})
    add(fmt::format("equal_rows_2x65536_of_{}", 65536 / stride), kFull, of(strided, 2, 65536, stride));
  // Each length of rows that a thread keeps in registers, at its most.
  for (Index width = 16; width <= 256; width += 16)
    add(fmt::format("dense_2x{}", width), width == 256, of(dense, 2, width));
  const auto equal = of(equal_rows, 128, 128, 25);
  // As many as an entry for streams alone must run at least.
  for (const Index k : {1, 2, 3, 8, 17, 33, 64})
    add("equal_rows_128_of_25", k == 3 || k == 33, equal, Mode::stream, k);
  for (const Index k : {1, 5, 50}) add("equal_rows_128_of_25", k != 1, equal, Mode::chain, k);
  add("uneven_49x65", kSmall, of(uneven, 49, 65, 6), Mode::stream, 3);
  add("0x7", kSmall, of(empty, 0, 7), Mode::stream, 3);
  add("uneven_100", kSmall, of(uneven, 100, 100, 6), Mode::chain, 5);
  add("0x0", kSmall, of(empty, 0, 0), Mode::chain, 5);
  add("hub_row_square", kSmall, of(dense_row, 257, 257, 3), Mode::chain, 5);
  // Each number of non-zeros that a lane keeps in registers, at its most: 32, 16 and 8 lanes have a row.
  for (const auto& [n, longest] :
       {std::pair{250, 250}, {257, 176}, {257, 240}, {464, 464}, {481, 481}, {513, 344}, {513, 400}}) {
    add(fmt::format("longest_row_{}_of_{}", longest, n), kFull, of(long_row, n, longest), Mode::chain, 2);
  }
  add("permutation_100", kFull, of(permutation, 100), Mode::chain, 50);
  add("1x1", kFull, of(dense, 1, 1), Mode::chain, 5);
  add("tile_1025", kSmall, of(equal_rows, 1025, 1025, 9), Mode::chain, 5);
}

struct Scaling {
  double alpha, beta;
};

/// Adds an SpMM case under a name that tells its columns and layouts, and ends as given.
void add_named(std::vector<Case>& out, const char* name, Case c, const std::string& end = "") {
  const auto letter = [](Layout layout) { return layout == Layout::row_major ? 'r' : 'c'; };
  c.name = fmt::format("{}/N={}/B{}{}_C{}{}{}", name, c.n_cols, letter(c.b_layout),
                       c.b_padding > 0 ? "+" : "", letter(c.c_layout), c.c_padding > 0 ? "+" : "", end);
  c.op = Op::spmm;
  out.push_back(std::move(c));
}

/// Every layout, with and without padding, and every kind of alpha and beta.
void add_spmm_options(std::vector<Case>& out) {
  int number = 0;
  for (const Layout b : {Layout::row_major, Layout::col_major}) {
    for (const Layout c : {Layout::row_major, Layout::col_major}) {
      for (const Offset padding : {0, 5}) {
        for (const auto [alpha, beta] :
             {Scaling{1, 0}, {0, 0}, {1, 1}, {2.5, 0}, {0.5, -2}, {0, 3}, {-1, 1}}) {
          if (++number % 2 == 0) continue;  // 7 is odd: the next layout has the others
          add_named(out, "gaps_37x44",
                    {.small = number % 4 == 1,
                     .a = of(gaps, 37, 44),
                     .n_cols = 19,
                     .alpha = alpha,
                     .beta = beta,
                     .b_layout = b,
                     .c_layout = c,
                     .b_padding = padding,
                     .c_padding = padding == 0 ? 0 : 3},
                    fmt::format("/alpha={}/beta={}", alpha, beta));
        }
      }
    }
  }
}

/// Numbers of columns beside strips and vectors, and leading dimensions that are whole vectors where the
/// columns are not, and the other way round.
void add_spmm_widths(std::vector<Case>& out) {
  const auto add = [&](const char* name, const Make& make, Index n, Offset b_padding, Offset c_padding,
                       bool small) {
    const double beta = n % 2 == 0 ? 0.0 : 2.0;
    add_named(out, name,
              {.small = small,
               .a = make,
               .n_cols = n,
               .beta = beta,
               .b_padding = b_padding,
               .c_padding = c_padding},
              fmt::format("_{}/beta={}", b_padding, beta));
  };
  const auto uneven_40x30 = of(uneven, 40, 30, 4);
  for (const Index n : {5, 16, 65}) add("uneven_40x30", uneven_40x30, n, 0, 0, kSmall);
  add("uneven_40x30", uneven_40x30, 2, 1, 1, kFull);    // two columns, no row aligned
  add("uneven_40x30", uneven_40x30, 33, 3, 7, kSmall);  // 36 and 40: aligned rows, a column beyond a strip
  add("uneven_40x30", uneven_40x30, 64, 1, 4, kSmall);  // 65: no row of B is aligned but the first
  add("hub_row_900", of(dense_row, 12, 900, 5), 32, 0, 0, kSmall);
  add("hub_row_4300", of(dense_row, 2, 4300, 1), 72, 0, 0, kSmall);  // strips whose blocks meet in any order
  // So dense that tensor cores are for it.
  add("dense_30x1500", of(dense, 30, 1500), 36, 0, 0, kSmall);
  add("uneven_40x30", uneven_40x30, 4, 1, 1, kFull);  // four columns, no row aligned
  // A last turn with one non-zero, where a lane has all columns.
  add("1x1", of(dense, 1, 1), 2, 0, 0, kFull);
}

void add_spmm(std::vector<Case>& out) {
  for (const NamedMatrix& s : shapes())
    out.push_back({.name = s.name + "/N=9", .op = Op::spmm, .small = s.small, .a = s.make, .n_cols = 9});
  for (const Index n : {1, 7, 33, 64}) {
    const auto add = [&](const char* name, const Make& make, Layout layout) {
      const bool small = layout == Layout::row_major;
      add_named(out, name, {.small = small, .a = make, .n_cols = n, .b_layout = layout, .c_layout = layout});
    };
    for (const Layout layout : {Layout::row_major, Layout::col_major}) {
      add("ramp_70x90", of(ramp, 70, 90), layout);
      add("dense_row_33x300", of(dense_row, 33, 300, 20), layout);
    }
    add("0x7", of(empty, 0, 7), Layout::row_major);
  }
  add_spmm_widths(out);
  add_spmm_options(out);
}

void add_spgemm(std::vector<Case>& out) {
  const auto add = [&](const std::string& name, bool small, const Make& a, const Make& b) {
    out.push_back({.name = name, .op = Op::spgemm, .small = small, .a = a, .b = b});
  };
  for (const NamedMatrix& s : shapes()) {
    if (!s.in_products) continue;
    if (s.square) {
      add(s.name + "/squared", s.small, s.make, s.make);
    } else {
      add(s.name + "/times_transpose", s.small, s.make, [make = s.make] { return transpose(make()); });
    }
  }
  // Shapes with nothing in them, in each place.
  add("0x5x7", kSmall, of(empty, 0, 5), of(dense, 5, 7));
  add("5x0x7", kSmall, of(empty, 5, 0), of(empty, 0, 7));
  add("5x7x0", kSmall, of(dense, 5, 7), of(empty, 7, 0));
  add("empty_times_dense", kFull, of(empty, 9, 30), of(dense, 30, 8));
  add("dense_times_empty", kSmall, of(dense, 9, 30), of(empty, 30, 8));
  add("rows_meet_no_column", kSmall, of(single, 20, 30, 19, 29), of(single, 30, 20, 28, 19));
  // Extreme shapes of the result.
  add("inner_product_1x900x1", kSmall, of(dense, 1, 900), of(dense, 900, 1));
  add("outer_product_90x1x70", kSmall, of(dense, 90, 1), of(dense, 1, 70));
  add("row_of_20000", kFull, of(dense, 2, 3), of(strided, 3, 20000, 1));
  add("row_of_5000", kSmall, of(uneven, 5, 4, 2), of(strided, 4, 5000, 1));
  add("colliding_columns", kSmall, of(dense, 3, 30), of(strided, 30, 1 << 16, 1 << 10));
  // A block of eight warps has a hash table for a row, and one of its slices of columns has more than 512
  // results: too many for a warp's registers.
  add("crowded_slice", kFull, of(lower_triangle, 10), of(crowded, 10, 41'600, 64));
  // As many non-zeros of A's row as one warp looks at, and no more.
  add("inner_product_1x1024x1", kFull, of(dense, 1, 1024), of(dense, 1024, 1));
  // The first range of columns that is too wide for a byte each in a warp's share of shared memory.
  add("range_of_6148", kFull, of(dense, 9, 32), of(strided, 32, 6148, 683));
  // The first that is too wide for a bit each.
  add("range_of_49153", kFull, of(dense, 9, 32), of(strided, 32, 49'153, 4096));
  // More elements of C than 31 bits count, nearly all of them zero.
  add("31_bits_of_elements", kFull, of(diagonal, 2000, 3), of(strided, 3, 1'100'000, 1 << 18));
  add("dense_column_times_dense_row", kFull, of(dense_column, 120, 60, 59), of(dense_row, 60, 130, 59));
  add("hub_row_times_hub_row", kSmall, of(dense_row, 100, 200, 99), of(dense_row, 200, 150, 0));
  // Every element of C is a sum of two products: with small integers many of them cancel to exactly zero.
  add("cancellation", kSmall, of(dense, 48, 2), of(dense, 2, 48));
  const auto equal_100 = of(equal_rows, 100, 100, 20);
  add("equal_rows_100_of_20", kSmall, equal_100, equal_100);
  add("ramp_times_gaps", kSmall, of(ramp, 70, 90), of(gaps, 90, 66));
  // What leaves the other factor as it is, or nearly so.
  add("identity_times_wide", kSmall, of(identity, 33), of(uneven, 33, 90, 7));
  add("tall_times_identity", kFull, of(uneven, 90, 33, 7), of(identity, 33));
  add("permutation_times_gaps", kFull, of(permutation, 64), of(gaps, 64, 49));
  add("wide_times_tall", kSmall, of(uneven, 20, 300, 12), of(uneven, 300, 25, 6));
  add("tall_times_wide", kSmall, of(uneven, 200, 12, 3), of(uneven, 12, 210, 9));
  add("zeros_times_zeros", kSmall, of(stored_zeros, 40, 50), of(cancelled_coordinates, 50, 30));
  // Rows on both sides of what tables, lists and bins of the lessons hold, with a product a result and several.
  const auto around_tables = [] {
    return with_row_lengths(std::vector<Index>{64, 65, 128, 129, 512, 513, 2048, 2049, 4096, 4097});
  };
  add("around_tables", kFull, of(identity, 10), around_tables);
  add("sums_around_tables", kFull, of(lower_triangle, 10), around_tables);
  // One result more than rung 1's table has slots, and no row that has two more.
  add("row_of_2049", kFull, of(dense, 1, 1), of(dense, 1, 2049));
  // Long rows over three bitmaps of 32,768 columns, the last of them a part.
  add("three_bitmaps", kFull, of(dense, 2, 3), of(strided, 3, 70'000, 33));
  // As many results as rung 1's table has slots. The last column looks at all of them before it finds its own.
  add("full_table", kFull, of(dense, 1, 2), [] {
    Matrix b = with_row_lengths(std::vector<Index>{2047, 1});
    b.cols = 2049;
    b.col_idx.back() = 2048;
    return b;
  });
}

}  // namespace

std::vector<Case> cases(Op op, Size size) {
  std::vector<Case> out;
  if (op == Op::spmv) add_spmv(out);
  if (op == Op::spmm) add_spmm(out);
  if (op == Op::spgemm) add_spgemm(out);
  if (size == Size::small) std::erase_if(out, [](const Case& c) { return !c.small; });
  return chosen(std::move(out));
}

std::vector<Case> chosen(std::vector<Case> cases) {
  if (const char* const only = std::getenv("STAGES_BATTERY_ONLY"); only != nullptr)
    std::erase_if(cases, [&](const Case& c) { return c.name.find(only) == std::string::npos; });
  return cases;
}

}  // namespace stages::battery
