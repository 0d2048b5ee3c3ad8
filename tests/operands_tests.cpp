// The numbers that are multiplied: the same everywhere, and such that each test of a result means something.

#include "common/harness/operands.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "common/battery/matrices.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

/// FNV-1a over the bytes of the values.
template <class T>
std::uint64_t fingerprint(const Buffer<T>& values) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const T value : values)
    for (const unsigned char byte : std::bit_cast<std::array<unsigned char, sizeof(T)>>(value))
      hash = (hash ^ byte) * 0x100000001b3U;
  return hash;
}

TEST(Operands, AreTheSameOnEveryMachine) {
  const auto a = share<float>(matrices::uneven(40, 30, 5));
  const auto spmv = make_spmv_problem("m", a, Mode::stream, 3);
  EXPECT_EQ(fingerprint(make_operands(spmv, ValueKind::real, 7).x.data), 1926743951366883710U);
  EXPECT_EQ(fingerprint(make_operands(spmv, ValueKind::integer, 7).x.data), 3272169676066072581U);
  EXPECT_EQ(fingerprint(with_values(spmv, ValueKind::integer, 7).a->values), 6668105024053574155U);
  EXPECT_NE(fingerprint(make_operands(spmv, ValueKind::real, 7).x.data),
            fingerprint(make_operands(spmv, ValueKind::real, 8).x.data));
}

TEST(Operands, FloatAndDoubleGetTheSameNumbers) {
  const auto a = matrices::uneven(40, 30, 5);
  const auto x32 = make_operands(make_spmv_problem("m", share<float>(a)), ValueKind::real, 3).x.data;
  const auto x64 = make_operands(make_spmv_problem("m", share<double>(a)), ValueKind::real, 3).x.data;
  ASSERT_EQ(x32.size(), x64.size());
  for (std::size_t k = 0; k < x32.size(); ++k) {
    EXPECT_EQ(double{x32[k]}, x64[k]);
    EXPECT_NE(x32[k], 0);
    EXPECT_LE(std::abs(x32[k]), 1);
  }
}

TEST(Operands, IntegerSumsStayExactInFloat) {
  for (const Index n : {10, 1000, 200'000}) {
    SpmmProblem<float> wanted{
        .name = "m", .a = share<float>(matrices::dense(1, n)), .n_cols = 2, .alpha = 2.5F, .beta = -0.2F};
    const auto p = with_values(make_spmm_problem(wanted), ValueKind::integer, 1);
    EXPECT_EQ(p.alpha, 3);
    EXPECT_EQ(p.beta, -1);
    const auto in = make_operands(p, ValueKind::integer, 1);
    double sum = 0;
    for (Index k = 0; k < n; ++k) {
      EXPECT_NE(p.a->values[static_cast<std::size_t>(k)], 0);
      sum += std::abs(double{p.a->values[static_cast<std::size_t>(k)]} * in.b(k, 0));
    }
    EXPECT_LT(3 * sum + std::abs(in.c0(0, 0)), 1 << 24) << n;
  }
}

TEST(Operands, StoredZerosOfAProductStayZeroAmongRealValues) {
  const auto a = share<double>(matrices::stored_zeros(20, 20));
  const auto p = make_spgemm_problem("c", a, a);
  const auto real = make_operands(p, ValueKind::real, 1), integer = make_operands(p, ValueKind::integer, 1);
  for (std::size_t k = 0; k < a->values.size(); ++k) {
    EXPECT_EQ(real.a_values[k] == 0, a->values[k] == 0);
    EXPECT_EQ(real.b_values[k] == 0, a->values[k] == 0);
    EXPECT_NE(integer.a_values[k], 0);
  }
}

TEST(Operands, PaddingShowsWhoReadsIt) {
  SpmmProblem<float> wanted{
      .name = "m", .a = share<float>(matrices::dense(3, 4)), .n_cols = 2, .beta = 1, .ldb = 5, .ldc = 6};
  const auto p = make_spmm_problem(wanted);
  const auto real = make_operands(p, ValueKind::real, 1), integer = make_operands(p, ValueKind::integer, 1);
  for (std::size_t line = 0; line < 4; ++line) EXPECT_TRUE(std::isnan(real.b.data[line * 5 + 2]));
  for (std::size_t line = 0; line < 3; ++line) EXPECT_TRUE(std::isnan(real.c0.data[line * 6 + 5]));
  EXPECT_EQ(integer.b.data[2], integer.c0.data[5]);
  EXPECT_GT(integer.b.data[2], 1000) << "unlike any value";
}

TEST(Operands, AChainNeitherGrowsNorVanishes) {
  // With A's own signs x would lose a factor of 5 a product, and be zero in float after 60 of them.
  const auto p =
      with_values(make_spmv_problem("m", share<float>(matrices::equal_rows(200, 200, 25)), Mode::chain, 1000),
                  ValueKind::real, 1);
  for (Index i = 0; i < 200; ++i) {
    float magnitude = 0;
    for (const float a : row_values(*p.a, i)) magnitude += std::abs(a);
    EXPECT_NEAR(magnitude, 1, 1e-5);
  }
  auto in = make_operands(p, ValueKind::real, 1);
  for (int step = 0; step < 1000; ++step) {
    Dense<float> y(200, 1, Layout::col_major);
    for (Index i = 0; i < 200; ++i) {
      const auto columns = row_columns(*p.a, i);
      const auto values = row_values(*p.a, i);
      y(i, 0) = 0;
      for (std::size_t k = 0; k < values.size(); ++k) y(i, 0) += values[k] * in.x(columns[k], 0);
    }
    in.x = std::move(y);
  }
  float most = 0;
  for (const float x : in.x.data) {
    EXPECT_LE(std::abs(x), 1.0001);
    most = std::max(most, std::abs(x));
  }
  EXPECT_GT(most, 1e-4);
}

TEST(Operands, AChainOfIntegersKeepsOnePlaceARow) {
  const auto p =
      with_values(make_spmv_problem("m", share<float>(matrices::uneven(50, 50, 6)), Mode::chain, 9),
                  ValueKind::integer, 1);
  for (Index i = 0; i < 50; ++i) {
    const auto values = row_values(*p.a, i);
    const auto ones = std::count_if(values.begin(), values.end(), [](float v) { return std::abs(v) == 1; });
    const auto zeros = std::count(values.begin(), values.end(), 0.0F);
    EXPECT_EQ(ones, values.empty() ? 0 : 1);
    EXPECT_EQ(ones + zeros, std::ssize(values));
  }
}

}  // namespace
}  // namespace stages
