// verify(): the bound is neither too tight nor too loose, samples say so, and each form of a bad result is
// named.

#include "common/harness/check.hpp"

#include <algorithm>
#include <cmath>

#include "common/battery/matrices.hpp"
#include "tests/expect.hpp"
#include "tests/mutants/spgemm.hpp"

namespace stages {
namespace {

/// How the terms of one sum can be added up.
enum class Order { forward, backward, pairwise, strided, fused };

template <class T>
T sum_of_products(std::span<const T> a, std::span<const T> x, Order order) {
  const std::size_t n = a.size();
  if (order == Order::pairwise) {
    if (n == 0) return 0;
    if (n == 1) return a[0] * x[0];
    const std::size_t half = n / 2;
    return sum_of_products(a.first(half), x.first(half), order) +
           sum_of_products(a.subspan(half), x.subspan(half), order);
  }
  T sum = 0;
  if (order == Order::strided) {  // as the lanes of a warp do it
    T lanes[32] = {};
    for (std::size_t k = 0; k < n; ++k) lanes[k % 32] += a[k] * x[k];
    for (const T lane : lanes) sum += lane;
    return sum;
  }
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t at = order == Order::backward ? n - 1 - k : k;
    sum = order == Order::fused ? std::fma(a[at], x[at], sum) : sum + a[at] * x[at];
  }
  return sum;
}

/// y = A x for one dense row, in the given order.
template <class T>
Dense<T> row_product(const SpmvProblem<T>& p, const SpmvOperands<T>& in, Order order) {
  Dense<T> y(p.a->rows, 1, Layout::col_major);
  for (Index i = 0; i < p.a->rows; ++i) {
    std::vector<T> x;
    for (const Index k : row_columns(*p.a, i)) x.push_back(in.x(k, 0));
    y(i, 0) = sum_of_products<T>(row_values(*p.a, i), std::span<const T>(x), order);
  }
  return y;
}

/// What the check says of a result of real values.
template <class Problem>
CheckReport judged(const Problem& problem, const typename Problem::Operands& in,
                   const typename Problem::Result& result, const CheckOptions& options = {}) {
  return verify(problem, in, result, ValueKind::real, {}, options);
}

template <class T>
class Bound : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Bound, Types);

TYPED_TEST(Bound, LetsEveryOrderOfSummationPass) {
  using T = TypeParam;
  for (const Index n : {1, 2, 7, 100, 3000, 100'000}) {
    const auto problem = make_spmv_problem("sum", share<T>(matrices::dense(2, n)));
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      const auto in = make_operands(problem, ValueKind::real, seed);
      for (const Order order :
           {Order::forward, Order::backward, Order::pairwise, Order::strided, Order::fused}) {
        const auto report = judged(problem, in, row_product(problem, in, order));
        EXPECT_TRUE(report.passed()) << n << " terms: " << report.failure;
        EXPECT_LE(report.worst, 0.51) << n << " terms use more of the bound than rounding can";
      }
    }
  }
}

TYPED_TEST(Bound, LetsSumsOfOneSignPass) {
  // All terms positive: rounding errors of a long sum lean one way, the worst that orders can do.
  using T = TypeParam;
  Csr<double> ones = matrices::dense(1, 50'000);
  std::fill(ones.values.begin(), ones.values.end(), 1.1);
  const auto problem = make_spmv_problem("ones", share<T>(ones));
  SpmvOperands<T> in = make_operands(problem, ValueKind::real, 1);
  std::fill(in.x.data.begin(), in.x.data.end(), T(0.7));
  EXPECT_TRUE(judged(problem, in, row_product(problem, in, Order::forward)).passed());
}

/// The smallest relative error of a sum of n terms that is rejected.
template <class T>
double rejected_error(Index n) {
  const auto problem = make_spmv_problem("sum", share<T>(matrices::dense(1, n)));
  const auto in = make_operands(problem, ValueKind::real, 1);
  double magnitude = 0;
  for (Index k = 0; k < n; ++k)
    magnitude += std::abs(double{problem.a->values[static_cast<std::size_t>(k)]} * in.x(k, 0));
  for (double error = std::numeric_limits<T>::epsilon() / 4;; error *= 1.25) {
    auto y = row_product(problem, in, Order::pairwise);
    y(0, 0) += static_cast<T>(error * magnitude);
    if (!judged(problem, in, y).passed()) return error;
  }
}

TYPED_TEST(Bound, RejectsErrorsBeyondRounding) {
  const double eps = std::numeric_limits<TypeParam>::epsilon();
  for (const Index n : {1, 10, 100, 1000}) {
    EXPECT_LE(rejected_error<TypeParam>(n), 4 * n * eps) << n;
    EXPECT_GE(rejected_error<TypeParam>(n), n * eps) << n;
  }
}

struct SmallSpmv {
  SpmvProblem<double> problem = make_spmv_problem("m", share<double>(matrices::uneven(40, 30, 5)));
  SpmvOperands<double> in = make_operands(problem, ValueKind::real, 1);
  Dense<double> y = row_product(problem, in, Order::forward);
  std::string failure() const { return judged(problem, in, y).failure; }
};

TEST(Check, NamesTheFirstElementThatIsWrong) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e3}) {
    SmallSpmv s;
    s.y(31, 0) = s.y(17, 0) = bad;
    EXPECT_TRUE(has(s.failure(), "element (17, 0) is"));
  }
}

/// 3 rows of 20 entries, of which the rows in `huge` add up beyond the range of float.
SpmvProblem<float> with_huge_rows(std::initializer_list<Index> huge) {
  Csr<double> a = matrices::dense(3, 20);
  for (const Index i : huge) std::fill_n(a.values.begin() + 20 * i, 20, 3e38);
  return make_spmv_problem("huge", share<float>(a));
}

TEST(Check, SumsBeyondTheRangeAreCountedAndNotJudged) {
  const auto problem = with_huge_rows({1});
  const auto in = make_operands(problem, ValueKind::real, 1);
  auto y = row_product(problem, in, Order::forward);
  // Infinity or NaN, as the order of summation has it.
  for (const float any : {HUGE_VALF, -HUGE_VALF, std::nanf(""), 1.0F}) {
    y(1, 0) = any;
    const auto report = judged(problem, in, y);
    EXPECT_EQ(report.failure, "") << any;
    EXPECT_EQ(report.sums, 3);
    EXPECT_EQ(report.not_judged, 1);
    EXPECT_EQ(report.void_because(), "") << "two others were judged";
  }
  y(2, 0) += 1;
  EXPECT_TRUE(has(judged(problem, in, y).failure, "element (2, 0) is"));
  y(2, 0) = std::nanf("");
  EXPECT_TRUE(has(judged(problem, in, y).failure, "element (2, 0) is NaN"));
}

TEST(Check, ACheckThatJudgedNothingSaysSo) {
  const auto problem = with_huge_rows({0, 1, 2});
  const auto in = make_operands(problem, ValueKind::real, 1);
  EXPECT_TRUE(has(judged(problem, in, row_product(problem, in, Order::forward)).void_because(),
                  "each of the 3 sums add up beyond the range"));
  const auto empty = make_spmv_problem("empty", share<float>(matrices::dense(3, 0)));
  const Dense<float> y(3, 1, Layout::col_major);
  EXPECT_EQ(judged(empty, make_operands(empty, ValueKind::real, 1), y).void_because(), "");
}

TEST(Check, RefusesResultsOfAnotherShape) {
  SmallSpmv s;
  const auto expect_shape_failure = [&](Dense<double> y) {
    s.y = std::move(y);
    EXPECT_TRUE(has(s.failure(), "it must be 40 x 1, col-major, 40"));
  };
  expect_shape_failure(Dense<double>());
  expect_shape_failure(Dense<double>(39, 1, Layout::col_major));
  expect_shape_failure(Dense<double>(40, 2, Layout::col_major));
  expect_shape_failure(Dense<double>(40, 1, Layout::row_major));
  expect_shape_failure(Dense<double>(40, 1, Layout::col_major, 48));
  Dense<double> cut(40, 1, Layout::col_major);
  cut.data.resize(39);
  expect_shape_failure(cut);
}

TEST(Check, AChainIsJudgedStepByStep) {
  const auto problem =
      with_values(make_spmv_problem("chain", share<double>(matrices::uneven(30, 30, 5)), Mode::chain, 4),
                  ValueKind::real, 1);
  const auto in = make_operands(problem, ValueKind::real, 1);
  Dense<double> y(30, 4, Layout::col_major);
  const auto step = [&](Index j) {
    SpmvOperands<double> x = in;
    for (Index i = 0; j > 0 && i < 30; ++i) x.x(i, 0) = y(i, j - 1);
    const Dense<double> product = row_product(problem, x, Order::forward);
    for (Index i = 0; i < 30; ++i) y(i, j) = product(i, 0);
  };
  for (Index j = 0; j < 4; ++j) step(j);
  EXPECT_EQ(judged(problem, in, y).failure, "");
  y(3, 1) += 0.5;  // wrong in the second step; the later ones follow from it and are right
  step(2);
  step(3);
  EXPECT_TRUE(has(judged(problem, in, y).failure, "element (3, 1) is"));
}

TEST(Check, ASampleSaysSoAndIntegersStillSeeEveryRow) {
  const auto real = make_spmv_problem("large", share<double>(matrices::equal_rows(5000, 300, 10)));
  const auto problem = with_values(real, ValueKind::integer, 1);
  const auto in = make_operands(problem, ValueKind::integer, 1);
  const auto good = row_product(problem, in, Order::forward);
  const CheckOptions few{.budget = 1000};
  const auto report = verify(problem, in, good, ValueKind::integer, {}, few);
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(report.sampled());
  EXPECT_EQ(report.rows, 5000);
  EXPECT_GT(report.rows_checked, 50);
  EXPECT_LT(report.rows_checked, 150);
  EXPECT_FALSE(verify(problem, in, good, ValueKind::integer, {}).sampled());

  int caught_as_real = 0;
  for (Index row = 1; row < 4999; row += 173) {
    auto bad = good;
    bad(row, 0) += 1;
    const auto found = verify(problem, in, bad, ValueKind::integer, {}, few);
    EXPECT_TRUE(has(found.failure, std::to_string(row)));
    caught_as_real += !judged(problem, in, bad, few).passed();
  }
  EXPECT_LT(caught_as_real, 5) << "the rows tried here are meant to lie outside the sample";
  for (const Index row : {0, 4999}) {  // always in the sample
    auto bad = good;
    bad(row, 0) += 1;
    EXPECT_FALSE(judged(problem, in, bad, few).passed()) << row;
  }
}

TEST(Check, TheLongestRowIsAlwaysInTheSample) {
  const auto problem = make_spmv_problem("hub", share<double>(matrices::dense_row(3000, 400, 1234)));
  const auto in = make_operands(problem, ValueKind::real, 1);
  auto y = row_product(problem, in, Order::forward);
  y(1234, 0) += 1;
  EXPECT_TRUE(has(judged(problem, in, y, {.budget = 100}).failure, "(1234, 0)"));
}

TEST(Check, TheReferenceDoesNotDependOnThreads) {
  const auto problem =
      make_spmv_problem("large", share<float>(matrices::uneven(70'000, 50, 4)), Mode::stream, 3);
  const auto in = make_operands(problem, ValueKind::real, 1);
  Dense<float> y(70'000, 3, Layout::col_major);
  std::fill(y.data.begin(), y.data.end(), 0.25F);
  const auto one = judged(problem, in, y, {.threads = 1}), five = judged(problem, in, y, {.threads = 5});
  EXPECT_EQ(one.failure, five.failure);
  EXPECT_EQ(one.worst, five.worst);
}

/// By a plan without faults.
Csr<float> product(const SpgemmProblem<float>& problem, const SpgemmOperands<float>& in) {
  Exec exec;
  mutants::FaultyGustavson<float> plan(problem, exec, mutants::GustavsonFault::none);
  plan.load(in);
  plan.run();
  return plan.fetch();
}

TEST(Check, EntriesOfASparseResultBeyondTheRangeAreCounted) {
  const auto problem =
      make_spgemm_problem("c", share<float>(matrices::dense(4, 3)), share<float>(matrices::dense(3, 5)));
  auto in = make_operands(problem, ValueKind::real, 1);
  std::fill_n(in.a_values.begin(), 3, 3e38F);
  std::fill(in.b_values.begin(), in.b_values.end(), 2.0F);
  const auto report = judged(problem, in, product(problem, in));
  EXPECT_EQ(report.failure, "");
  EXPECT_EQ(report.sums, 20);
  EXPECT_EQ(report.not_judged, 5);
}

TEST(Check, NamesWhatIsWrongWithTheStructure) {
  const auto problem = make_spgemm_problem("c", share<float>(matrices::uneven(30, 40, 4)),
                                           share<float>(matrices::uneven(40, 25, 4)));
  const auto in = make_operands(problem, ValueKind::integer, 1);
  const auto expect = [&](const char* text, auto&& spoil) {
    Csr<float> c = product(problem, in);
    spoil(c);
    EXPECT_TRUE(has(verify(problem, in, c, ValueKind::integer, {}).failure, text));
  };
  expect("C is 29 x 25", [](auto& c) { c.rows = 29; });
  expect("row_ptr has 0 elements", [](auto& c) { c.row_ptr.clear(); });
  expect("column 25", [](auto& c) { c.col_idx.back() = 25; });
  expect("expected", [](auto& c) { c.values[3] += 1; });
  expect("is nan", [](auto& c) { c.values[3] = std::nanf(""); });
}

TEST(Check, IntegersSeeAWrongValueOutsideTheSample) {
  const auto problem = make_spgemm_problem("c", share<float>(matrices::uneven(3000, 40, 4)),
                                           share<float>(matrices::uneven(40, 25, 4)));
  const auto in = make_operands(problem, ValueKind::integer, 1);
  const Csr<float> good = product(problem, in);
  const CheckOptions few{.budget = 200};
  for (std::size_t k = 7; k < good.values.size(); k += 997) {
    Csr<float> bad = good;
    bad.values[k] += 1;
    EXPECT_FALSE(verify(problem, in, bad, ValueKind::integer, {}, few).passed()) << k;
  }
  const auto report = verify(problem, in, good, ValueKind::integer, {}, few);
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(report.sampled());
}

}  // namespace
}  // namespace stages
