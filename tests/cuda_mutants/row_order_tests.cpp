// The orders of rows behind 07_spmm/balanced_reordered and merged_after_sorting, and the figure that tells what
// an order is worth.

#include "07_spmm/order/row_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "common/battery/battery.hpp"
#include "common/battery/matrices.hpp"
#include "common/matrix/generate.hpp"
#include "common/matrix/random.hpp"

namespace stages {
namespace {

using matrices::Matrix;

std::vector<Index> as_it_comes(Index rows) {
  std::vector<Index> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), Index{0});
  return order;
}

std::vector<Index> order_of(const Matrix& a) { return spmm::community_order(a.cols, a.row_ptr, a.col_idx); }

double fresh(const Matrix& a, const std::vector<Index>& order, Offset window) {
  return spmm::fresh_share(a.cols, a.row_ptr, a.col_idx, order, window);
}

/// A matrix with these columns in its rows, and values of 1.
Matrix with_columns(Index cols, const std::vector<std::vector<Index>>& rows) {
  Matrix a(static_cast<Index>(rows.size()), cols);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    a.col_idx.insert(a.col_idx.end(), rows[i].begin(), rows[i].end());
    a.row_ptr[i + 1] = std::ssize(a.col_idx);
  }
  a.values.resize(a.col_idx.size(), 1.0);
  return a;
}

TEST(RowOrder, HoldsEachRowOnce) {
  for (const battery::Case& c : battery::cases(Op::spmv, battery::Size::small)) {
    const Matrix a = c.a();
    std::vector<Index> order = order_of(a);
    EXPECT_EQ(order, order_of(a)) << "another order the second time, " << c.name;
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, as_it_comes(a.rows)) << c.name;
  }
}

TEST(RowOrder, ByLengthHasTheLongestFirstAndKeepsEquals) {
  const Matrix a = with_columns(4, {{0, 1}, {}, {1, 2, 3}, {0, 2}, {}});
  EXPECT_EQ(spmm::length_order(a.row_ptr), (std::vector<Index>{2, 0, 3, 1, 4}));
}

TEST(RowOrder, FreshShareCountsFirstRequestsOfEachWindow) {
  const Matrix a = with_columns(4, {{0, 1}, {}, {1, 2}, {0, 1}});
  EXPECT_DOUBLE_EQ(fresh(a, {0, 1, 2, 3}, 1), 1.0);
  EXPECT_DOUBLE_EQ(fresh(a, {0, 1, 2, 3}, 4), 5.0 / 6);  // 0 1 1 2 | 0 1
  EXPECT_DOUBLE_EQ(fresh(a, {0, 3, 1, 2}, 4), 4.0 / 6);  // 0 1 0 1 | 1 2
  EXPECT_DOUBLE_EQ(fresh(a, {0, 1, 2, 3}, 6), 3.0 / 6);
  EXPECT_DOUBLE_EQ(fresh(a, {0, 1, 2, 3}, 1000), 3.0 / 6);
  EXPECT_DOUBLE_EQ(fresh(matrices::empty(3, 3), {0, 1, 2}, 4), 0.0);
}

/// How much of what an order can give is in the order found, in windows of so many non-zeros.
void expect_found(const Matrix& planted, const Matrix& shuffled, Offset window) {
  const double best = fresh(planted, as_it_comes(planted.rows), window);
  const double before = fresh(shuffled, as_it_comes(shuffled.rows), window);
  const double after = fresh(shuffled, order_of(shuffled), window);
  EXPECT_GT(before, 1.7 * best) << "nothing is hidden here, windows of " << window;
  EXPECT_LT(after, 1.2 * best) << "windows of " << window << ", as it came " << before;
}

TEST(RowOrder, FindsCommunitiesThatWereShuffled) {
  for (const std::string size : {"n=4096,blocks=64", "n=8000,blocks=40,inside=0.8,symmetric=yes"}) {
    SCOPED_TRACE(size);
    const auto planted = generate<double>("gen:communities:order=planted," + size);
    const auto shuffled = generate<double>("gen:communities:order=shuffled," + size);
    expect_found(planted, shuffled, 512);
    expect_found(planted, shuffled, 2048);
  }
}

/// 900 x 3000: rows of 30 kinds, each with 10 of the 100 columns of its kind, and, with a hub, column 0.
/// Where `shuffled`, the same with rows and columns renumbered (but for the hub).
Matrix kinds_of_rows(bool shuffled, bool hub) {
  const random::Permutation new_row(900, 1), new_column(3000, 2);
  std::vector<std::vector<Index>> rows(900);
  for (random::Word i = 0; i < 900; ++i) {
    random::Stream words(3, i);
    auto& columns = rows[shuffled ? new_row(i) : i];
    for (int k = 0; k < 10; ++k) {
      const random::Word column = i / 30 * 100 + words.below(100);
      columns.push_back(static_cast<Index>(shuffled ? new_column(column) : column));
    }
    if (hub) columns.push_back(0);
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  }
  return with_columns(3000, rows);
}

TEST(RowOrder, FindsKindsOfRowsInMatricesThatAreNotSquareAlsoWhereAllRowsHaveAColumn) {
  for (const bool hub : {false, true}) expect_found(kinds_of_rows(false, hub), kinds_of_rows(true, hub), 300);
}

TEST(RowOrder, GainsLittleWhereThereAreNoCommunities) {
  for (const char* spec : {"gen:rmat:scale=12", "gen:uniform:n=10000,per_row=8"}) {
    SCOPED_TRACE(spec);
    const auto a = generate<double>(spec);
    const std::vector<Index> order = order_of(a);
    for (const Offset window : {512, 4096}) {
      const double ratio = fresh(a, order, window) / fresh(a, as_it_comes(a.rows), window);
      EXPECT_GT(ratio, 0.8) << "better than the README says, windows of " << window;
      EXPECT_LT(ratio, 1.02) << "worse than before, windows of " << window;
    }
  }
}

}  // namespace
}  // namespace stages
