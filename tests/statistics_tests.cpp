// Statistics and product counts against their definitions.

#include "common/matrix/statistics.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "common/battery/battery.hpp"
#include "common/battery/matrices.hpp"
#include "common/matrix/generate.hpp"
#include "common/matrix/picture.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

Csr<double> matrix(Index rows, Index cols, std::initializer_list<std::tuple<Index, Index, double>> entries) {
  return to_csr(coo<double>(rows, cols, entries));
}

/// A square matrix with five entries in its corners.
Csr<double> few_of_many(Index n) {
  return matrix(n, n, {{0, 0, 1}, {0, n - 1, 2}, {n - 1, 0, 2}, {2, 3, 1}, {n - 1, n - 1, 4}});
}

/// By their definitions.
MatrixStatistics brute_force(const Csr<double>& a) {
  MatrixStatistics s{.rows = a.rows, .cols = a.cols, .nnz = a.nnz()};
  std::map<std::pair<Index, Index>, double> entries;
  std::vector<Offset> lengths(static_cast<std::size_t>(a.rows)), columns(static_cast<std::size_t>(a.cols));
  for (Index i = 0; i < a.rows; ++i)
    for (std::size_t k = 0; k < row_columns(a, i).size(); ++k) {
      const Index j = row_columns(a, i)[k];
      entries[{i, j}] = row_values(a, i)[k];
      ++lengths[static_cast<std::size_t>(i)];
      ++columns[static_cast<std::size_t>(j)];
      s.lower_bandwidth = std::max(s.lower_bandwidth, i - j);
      s.upper_bandwidth = std::max(s.upper_bandwidth, j - i);
    }
  double off_diagonal = 0, mirrored = 0, equal = 0, apart = 0;
  for (const auto& [place, value] : entries) {
    const auto& [i, j] = place;
    const auto mirror = entries.find({j, i});
    s.diagonal_entries += i == j;
    s.explicit_zeros += value == 0;
    s.non_finite_values += !std::isfinite(value);
    off_diagonal += i != j;
    mirrored += i != j && mirror != entries.end();
    equal += i != j && mirror != entries.end() && mirror->second == value;
  }
  if (a.rows == a.cols) {
    s.structural_symmetry = off_diagonal == 0 ? 1 : mirrored / off_diagonal;
    s.numerical_symmetry = off_diagonal == 0 ? 1 : equal / off_diagonal;
  }
  s.empty_cols = static_cast<Index>(std::ranges::count(columns, 0));
  if (a.cols > 0) s.max_col = std::ranges::max(columns);
  if (a.rows > 0 && a.cols > 0) s.density = static_cast<double>(s.nnz) / a.rows / a.cols;
  if (a.rows == 0) return s;
  std::ranges::sort(lengths);
  s.empty_rows = static_cast<Index>(std::ranges::count(lengths, 0));
  s.min_row = lengths.front();
  s.max_row = lengths.back();
  s.mean_row = static_cast<double>(s.nnz) / a.rows;
  const std::size_t n = lengths.size();
  s.median_row = static_cast<double>(lengths[(n - 1) / 2] + lengths[n / 2]) / 2;
  for (const Offset x : lengths)
    for (const Offset y : lengths) apart += static_cast<double>(std::abs(x - y));
  if (s.nnz > 0) s.gini = apart / (2.0 * a.rows * static_cast<double>(s.nnz));
  s.row_length_histogram.assign(1, s.empty_rows);
  for (Offset from = 1; from <= s.max_row; from *= 2)
    s.row_length_histogram.push_back(static_cast<Index>(
        std::ranges::count_if(lengths, [=](Offset x) { return x >= from && x < 2 * from; })));
  return s;
}

TEST(Statistics, AgreeWithBruteForce) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto check = [](const Csr<double>& a) {
    SCOPED_TRACE(fmt::format("{} x {}, {} non-zeros", a.rows, a.cols, a.nnz()));
    const auto s = statistics(a), t = brute_force(a);
    const auto counts = [](const MatrixStatistics& m) {
      return std::tuple(m.rows, m.cols, m.nnz, m.empty_rows, m.empty_cols, m.min_row, m.max_row, m.max_col,
                        m.row_length_histogram, m.lower_bandwidth, m.upper_bandwidth,
                        m.structural_symmetry == 1, m.numerical_symmetry == 1, m.diagonal_entries,
                        m.explicit_zeros, m.non_finite_values);
    };
    EXPECT_EQ(counts(s), counts(t));
    EXPECT_NEAR(s.mean_row, t.mean_row, 1e-12 * t.mean_row);
    EXPECT_EQ(s.median_row, t.median_row);
    EXPECT_NEAR(s.gini, t.gini, 1e-12);
    EXPECT_NEAR(s.density, t.density, 1e-12);
    EXPECT_NEAR(s.structural_symmetry, t.structural_symmetry, 1e-12);
    EXPECT_NEAR(s.numerical_symmetry, t.numerical_symmetry, 1e-12);
  };
  check(matrix(2, 2, {{0, 0, nan}, {0, 1, -inf}, {1, 1, 1}}));
  check(matrix(3, 3, {{0, 1, 2}, {1, 0, 2}, {1, 2, 3}, {2, 1, -3}}));
  for (const battery::Case& c : battery::cases(Op::spgemm, battery::Size::full)) check(c.a());
  check(generate<double>("gen:rmat:scale=7,symmetric=yes"));
  check(matrices::strided(1, 70'000, 1));
  check(few_of_many(3000));
  check(matrix(3, 3000, {{0, 0, 1}, {0, 2, 2}, {0, 2999, 1}, {1, 2, 3}, {2, 2, 4}}));
}

ProductCost brute_force(const Csr<float>& a, const Csr<float>& b) {
  ProductCost c{.rows = a.rows, .cols = b.cols, .nnz_exact = true};
  for (Index i = 0; i < a.rows; ++i) {
    std::set<Index> columns;
    Offset products = 0;
    for (const Index k : row_columns(a, i)) {
      columns.insert(row_columns(b, k).begin(), row_columns(b, k).end());
      products += b.row_nnz(k);
    }
    c.products += products;
    c.nnz_estimate += std::ssize(columns);
    c.max_row_products = std::max(c.max_row_products, products);
    c.nnz_upper_bound += std::min<Offset>(products, b.cols);
  }
  return c;
}

TEST(ProductCost, AgreesWithBruteForce) {
  const auto facts = [](const ProductCost& c) {
    return std::tuple(c.rows, c.cols, c.products, c.max_row_products, c.nnz_upper_bound, c.nnz_estimate,
                      c.nnz_exact);
  };
  const std::pair<const char*, const char*> factors[] = {
      {"gen:uniform:rows=50,cols=80,nnz=300", "gen:uniform:rows=80,cols=20,nnz=500,seed=2"},
      {"gen:rmat:scale=8,edge_factor=6", "gen:rmat:scale=8,edge_factor=6,seed=3"},
      {"gen:uniform:rows=1,cols=80,nnz=40", "gen:hypersparse:rows=80,cols=2000,nnz=30"},
      {"gen:dense:rows=7,cols=9", "gen:dense:rows=9,cols=700"},
      {"gen:uniform:rows=0,cols=9,nnz=0", "gen:dense:rows=9,cols=3"},
  };
  for (const auto& [left, right] : factors) {
    SCOPED_TRACE(left);
    const auto a = generate<float>(left), b = generate<float>(right);
    const ProductCost expected = brute_force(a, b);
    EXPECT_EQ(spgemm_products(a, b), expected.products);
    for (const int threads : {1, 2, 7})
      EXPECT_EQ(facts(product_cost(a, b, expected.products, threads)), facts(expected));
    EXPECT_EQ(facts(product_cost(a, b)), facts(expected));
    const auto by_row = spgemm_row_products(a, b);
    EXPECT_EQ(std::accumulate(by_row.begin(), by_row.end(), Offset{0}), expected.products);
  }
}

TEST(ProductCost, EstimateIsOfEveryFewRowsAndNear) {
  const auto a = generate<float>("gen:rmat:scale=11,edge_factor=8,a=0.5");
  const ProductCost exact = product_cost(a, a);
  for (const Offset step : {2, 3, 10, 2047, 2048, 5000}) {
    const ProductCost sampled = product_cost(a, a, exact.products / (step - 1) - 1);
    EXPECT_FALSE(sampled.nnz_exact);
    const double off =
        static_cast<double>(sampled.nnz_estimate) / static_cast<double>(exact.nnz_estimate) - 1;
    EXPECT_TRUE(std::abs(off) < 0.1 || step > 10) << off;
    EXPECT_LE(sampled.nnz_estimate, sampled.nnz_upper_bound);
    Coo<float> rows{a.rows, a.cols, {}, {}, {}};
    for (Index i = 0; i < a.rows; i += static_cast<Index>(step))
      for (const Index j : row_columns(a, i)) rows.push(i, j, 1);
    const ProductCost some = brute_force(to_csr(std::move(rows)), a);
    EXPECT_EQ(sampled.nnz_estimate, std::llround(static_cast<double>(some.nnz_estimate) /
                                                 static_cast<double>(some.nnz_upper_bound) *
                                                 static_cast<double>(sampled.nnz_upper_bound)));
  }
}

TEST(ProductCost, DimensionsThatDoNotMatchAreNamed) {
  const auto a = generate<float>("gen:dense:rows=2,cols=3"), b = generate<float>("gen:dense:rows=4,cols=5");
  for (const auto& attempt : {+[](const Csr<float>&x, const Csr<float>&y) { spgemm_products(x, y); },
                              +[](const Csr<float>&x, const Csr<float>&y) { spgemm_row_products(x, y); },
                              +[](const Csr<float>&x, const Csr<float>&y) { product_cost(x, y); }}) {
    EXPECT_TRUE(has_all(error_of([&] { attempt(a, b); }), {"2 x 3", "4 x 5"}));
  }
}

// Rows and columns that are empty are left out of what is counted, where they are most of all.
TEST(SquareCost, OfFewAmongManyIsThatOfTheFew) {
  constexpr Index kMost = std::numeric_limits<Index>::max(), kMany = 20'000;
  const auto rectangle = [](Index last) {
    return matrix(3, last + 1, {{0, 0, 1}, {0, 2, 2}, {0, last, 1}, {1, 2, 3}, {2, 2, 4}});
  };
  // One column of three entries: 9 products with the transposed last, 3 with it first.
  const auto column = [](Index last) { return matrix(3, last + 1, {{0, 5, 1}, {1, 5, 1}, {2, 5, 1}}); };
  for (const auto& [many, few, transposed_first] : {std::tuple(rectangle(kMost - 1), rectangle(6), false),
                                                    {few_of_many(kMany), few_of_many(5), false},
                                                    {column(kMost - 1), column(6), true}}) {
    SCOPED_TRACE(fmt::format("{} x {}", many.rows, many.cols));
    const SquareCost cost = square_cost(many), expected = square_cost(few);
    EXPECT_EQ(cost.rectangular, many.rows != many.cols);
    EXPECT_EQ(cost.transposed_first, transposed_first);
    for (const Index side : {cost.rows, cost.cols}) EXPECT_EQ(side, transposed_first ? many.cols : many.rows);
    EXPECT_EQ(cost.products, expected.products);
    EXPECT_EQ(cost.nnz_estimate, expected.nnz_estimate);
    EXPECT_LE(cost.nnz_estimate, cost.nnz_upper_bound);
    EXPECT_LE(cost.nnz_upper_bound, expected.nnz_upper_bound);
  }
}

TEST(Picture, CellsAndRowLengths) {
  // 1 1 1 .
  // 1 . . .
  // . . . .
  // . . 1 1
  const auto a = matrix(4, 4, {{0, 0, 1}, {0, 1, 1}, {0, 2, 1}, {1, 0, 1}, {3, 2, 1}, {3, 3, 1}});
  const std::string whole = picture(a, 0, 4, "&lt;a&gt;");
  EXPECT_TRUE(has_all(
      whole,
      {"<title>&lt;a&gt;, 4 x 4</title>", "in 4 x 4 cells over columns 0 to 3;",
       "class=\"d4\" d=\"M0 0h3M0 1h1M2 3h2\"", "class=\"b1\" d=\"M0 0H180.0v1H90.0v1H0.0v1H142.6v1H0z\"",
       "class=\"b2\" d=\"M0 0H180.0v1H90.0v1", "a cell: 1 x 1 places; the fullest: 1 non-zero<"}));
  EXPECT_TRUE(has_all(picture(a, 2, 4, "a"), {"<title>a, rows 2 to 3 of 4</title>",
                                              "in 2 x 2 cells over columns 2 to 3;", "d=\"M0 1h2\""}));
  EXPECT_TRUE(has(picture(matrix(0, 0, {}), 0, 0, "a"), "the fullest: 0 non-zeros"));
  EXPECT_TRUE(has(picture(matrix(3, 5, {}), 1, 2, "a"), "in 1 x 5 cells over columns 0 to 4;"));
  // Lines of three rows, the last one of two, of which one is empty: the bars, whatever lies above.
  const auto bars = [](Index above) {
    Coo<double> b{above + 599, 599, {}, {}, {}};
    for (const Index row : {0, 1, 598}) b.push(above + row, row, 1);
    const std::string drawn = picture(to_csr(std::move(b)), above, above + 599, "b");
    return drawn.substr(drawn.find("class=\"b1\""));
  };
  EXPECT_EQ(bars(50), bars(0));
}

TEST(Picture, IsSmallWhateverTheMatrix) {
  // Lines of cells in which few and many non-zeros take turns.
  Coo<double> stripes{4000, 4000, {}, {}, {}};
  for (Index i = 0; i < 4000; i += 10)
    for (Index j = 0; j < 4000; j += j % 200 == 0 ? 1 : 199)
      for (Index k = 0; k < 1 + 9 * (j % 400 == 0); ++k) stripes.push(i + k, j, 1);
  for (const auto& a :
       {generate<double>("gen:uniform:n=5000,per_row=20"), generate<double>("gen:rmat:scale=14"),
        generate<double>("gen:dense:rows=300,cols=300"), to_csr(std::move(stripes))}) {
    const std::string drawn = picture(a, 0, a.rows, "a");
    EXPECT_LE(drawn.size(), 20000u);
    EXPECT_GE(drawn.size(), 2500u);
  }
}

}  // namespace
}  // namespace stages
