// Counts and places beyond 2^31, which no test has the memory for: of matrices whose row pointers alone are
// there, the arithmetic.

#include <gtest/gtest.h>

#include "common/harness/problem.hpp"
#include "common/matrix/statistics.hpp"

namespace stages {
namespace {

constexpr Offset kMany = 3'000'000'000;

/// Three rows of kMany non-zeros each, an empty one, and one with a single one.
Csr<float> huge() {
  Csr<float> b;
  b.rows = 5;
  b.cols = 2'000'000'000;
  b.row_ptr = {0, kMany, 2 * kMany, 3 * kMany, 3 * kMany, 3 * kMany + 1};
  return b;
}

std::shared_ptr<const Csr<float>> one_row(Buffer<Index> columns) {
  Csr<float> a;
  a.rows = 1;
  a.cols = 5;
  a.row_ptr = {0, std::ssize(columns)};
  a.values.resize(columns.size(), 1.0f);
  a.col_idx = std::move(columns);
  return std::make_shared<const Csr<float>>(std::move(a));
}

TEST(BeyondInt, PlacesOfDenseMatrices) {
  constexpr Index kRows = 70'000, kCols = 40'000;
  const DenseView<float> by_rows{kRows, kCols, kCols + 3, Layout::row_major, nullptr};
  EXPECT_EQ(by_rows.position(kRows - 1, kCols - 1), Offset{69'999} * 40'003 + 39'999);
  const DenseView<float> by_columns{kRows, kCols, kRows, Layout::col_major, nullptr};
  EXPECT_EQ(by_columns.position(1, kCols - 1), Offset{39'999} * 70'000 + 1);
  EXPECT_EQ(Dense<float>::elements(kRows, kCols, Layout::row_major, kCols), 2'800'000'000);
}

TEST(BeyondInt, NonZerosAndProducts) {
  const Csr<float> b = huge();
  EXPECT_EQ(b.row_nnz(2), kMany);
  EXPECT_EQ(b.longest_row(), kMany);
  const auto a = one_row({0, 1, 2, 4});
  EXPECT_EQ(spgemm_products(*a, b), 3 * kMany + 1);
  const auto p = make_spgemm_problem<float>("huge", a, std::make_shared<const Csr<float>>(b));
  EXPECT_EQ(p.products, 3 * kMany + 1);
  EXPECT_EQ(p.max_row_products, 3 * kMany + 1);
  EXPECT_EQ(p.result_bound, 2'000'000'000);
  EXPECT_GE(problem_cost(p).memory, 8.0 * 2e9);
  EXPECT_EQ(problem_cost(p).operations, 2.0 * static_cast<double>(3 * kMany + 1));
}

}  // namespace
}  // namespace stages
