// What must hold whatever the matrices are, for every entry of the registry: products with the identity,
// (AB)x = A(Bx), (AB)^T = B^T A^T. Values are small integers, so that equality is exact. Entries are compared
// with themselves and each other here, not with the checker's reference: a fault of both would still show.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/battery/matrices.hpp"
#include "common/harness/entries.hpp"
#include "common/machines/devices.hpp"
#include "common/matrix/convert.hpp"

namespace stages {
namespace {

const Registry& registry() {
  static const Registry all = [] {
    Registry entries;
    add_entries(entries);
    return entries;
  }();
  return all;
}

const Machine& machine() {
  static const Devices devices;
  return devices.machine();
}

using Matrix = std::shared_ptr<const Csr<double>>;

/// `a` with integer values in -4 .. 4, without 0.
Matrix with_integers(Csr<double> a) {
  for (double& value : a.values) value = value < 0 ? std::floor(4 * value) : std::ceil(4 * value);
  return std::make_shared<const Csr<double>>(std::move(a));
}

Matrix transposed(const Matrix& a) {
  return std::make_shared<const Csr<double>>(transpose(*a));
}

/// What the entry makes of the problem; nothing where it refuses.
template <class Problem>
std::optional<typename Problem::Result> result_of(const Entry& entry, const Problem& problem,
                                                  const typename Problem::Operands& operands) {
  Exec& exec = machine().of(entry);
  const auto& implementation = entry.on<Problem>();
  if ((entry.needs.gpu && machine().gpu == nullptr) || implementation.refuse(problem, exec))
    return std::nullopt;
  const auto plan = implementation.prepare(problem, exec);
  plan->load(operands);
  plan->reset();
  plan->run();
  exec.synchronize();
  return plan->fetch();
}

std::optional<Csr<double>> multiply(const Entry& entry, const Matrix& a, const Matrix& b) {
  return result_of(entry, make_spgemm_problem("p", a, b), {a->values, b->values});
}

/// A times the columns of x, one by one: for entries that take no stream of vectors.
std::optional<Dense<double>> multiply_columns(const Entry& entry, const Matrix& a, const Dense<double>& x) {
  Dense<double> y(a->rows, x.cols, Layout::col_major);
  for (Index j = 0; j < x.cols; ++j) {
    Dense<double> column(x.rows, 1, Layout::col_major);
    for (Index i = 0; i < x.rows; ++i) column(i, 0) = x(i, j);
    const auto result = result_of(entry, make_spmv_problem("p", a), SpmvOperands<double>{column});
    if (!result) return std::nullopt;
    for (Index i = 0; i < a->rows; ++i) y(i, j) = (*result)(i, 0);
  }
  return y;
}

/// A times the columns of x in floats, which hold the integers here too: for entries that take no doubles.
std::optional<Dense<double>> multiply_floats(const Entry& entry, const Matrix& a, const Dense<double>& x) {
  const auto floats = std::make_shared<const Csr<float>>(convert_values<float>(*a));
  Dense<float> b(x.rows, x.cols, Layout::col_major);
  for (Index j = 0; j < x.cols; ++j)
    for (Index i = 0; i < x.rows; ++i) b(i, j) = static_cast<float>(x(i, j));
  SpmmProblem<float> wanted{.name = "p",
                            .a = floats,
                            .n_cols = x.cols,
                            .b_layout = Layout::col_major,
                            .c_layout = Layout::col_major};
  const auto c = result_of(entry, make_spmm_problem(wanted), SpmmOperands<float>{b, {}});
  if (!c) return std::nullopt;
  Dense<double> result(a->rows, x.cols, Layout::col_major);
  for (Index j = 0; j < x.cols; ++j)
    for (Index i = 0; i < a->rows; ++i) result(i, j) = (*c)(i, j);
  return result;
}

/// A times the columns of x.
std::optional<Dense<double>> multiply(const Entry& entry, const Matrix& a, const Dense<double>& x) {
  if (entry.op == Op::spmv) {
    auto y = result_of(entry, make_spmv_problem("p", a, Mode::stream, x.cols), SpmvOperands<double>{x});
    return y ? y : multiply_columns(entry, a, x);
  }
  SpmmProblem<double> wanted{
      .name = "p", .a = a, .n_cols = x.cols, .b_layout = Layout::col_major, .c_layout = Layout::col_major};
  const auto c = result_of(entry, make_spmm_problem(wanted), SpmmOperands<double>{x, {}});
  return c ? c : multiply_floats(entry, a, x);
}

/// Some small integers, column by column.
Dense<double> vectors(Index rows, Index cols) {
  Dense<double> x(rows, cols, Layout::col_major);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) x(i, j) = std::round(4 * matrices::value_at(i + 100, j));
  }
  return x;
}

Dense<double> identity_columns(Index n) {
  return to_dense(matrices::identity(n), Layout::col_major);
}

/// The same elements, ignoring explicit zeros (which an entry may have been allowed to drop).
void expect_same(const Csr<double>& a, const Csr<double>& b, const std::string& what) {
  EXPECT_EQ(a.rows, b.rows) << what;
  EXPECT_EQ(a.cols, b.cols) << what;
  const Csr<double> left = to_csr(to_dense(a)), right = to_csr(to_dense(b));
  EXPECT_EQ(left.row_ptr, right.row_ptr) << what;
  EXPECT_EQ(left.col_idx, right.col_idx) << what;
  EXPECT_EQ(left.values, right.values) << what;
}

struct Pair {
  const char* name;
  Matrix a, b;
};

/// Factors of different kinds. The last two have rows of equal length, for entries that take no others.
std::vector<Pair> pairs() {
  using namespace matrices;
  return {
      {"wide x tall", with_integers(uneven(23, 61, 7)), with_integers(uneven(61, 29, 5))},
      {"tall x wide", with_integers(uneven(61, 12, 3)), with_integers(uneven(12, 70, 5))},
      {"gaps", with_integers(gaps(40, 33)), with_integers(gaps(33, 50))},
      {"hub", with_integers(dense_row(30, 64, 29)), with_integers(dense_column(64, 31, 0))},
      {"equal rows", with_integers(equal_rows(64, 64, 13)), with_integers(equal_rows(64, 64, 7))},
      {"permutation", with_integers(permutation(64)), with_integers(equal_rows(64, 64, 32))},
  };
}

class EveryEntry : public testing::TestWithParam<const Entry*> {
 protected:
  void SetUp() override {
    if (GetParam()->needs.gpu && machine().gpu == nullptr)
      GTEST_SKIP() << "needs a GPU, and " << machine().no_gpu;
    if (GetParam()->needs.mpi) GTEST_SKIP() << "tests/mpi runs it, on 1 to 7 ranks";
  }
  void TearDown() override {
    if (!IsSkipped()) {
      EXPECT_GT(ran_, 0) << "the entry refused everything";
    }
  }
  int ran_ = 0;
};

TEST_P(EveryEntry, IdentityLeavesTheOtherFactor) {
  const Entry& entry = *GetParam();
  for (const Pair& p : pairs()) {
    if (entry.op == Op::spgemm) {
      const auto right = multiply(entry, p.a, with_integers(matrices::identity(p.a->cols)));
      const auto left = multiply(entry, with_integers(matrices::identity(p.a->rows)), p.a);
      if (!right || !left) continue;
      // The identity of with_integers is 4 I: 1 becomes 4.
      Csr<double> expected = *p.a;
      for (double& value : expected.values) value *= 4;
      expect_same(*right, expected, std::string("A I, ") + p.name);
      expect_same(*left, expected, std::string("I A, ") + p.name);
    } else {
      const auto c = multiply(entry, p.a, identity_columns(p.a->cols));
      if (!c) continue;
      EXPECT_EQ(c->data, to_dense(*p.a, Layout::col_major).data) << p.name;
    }
    ++ran_;
  }
}

TEST_P(EveryEntry, ProductOfProductsIsProductOfTheProduct) {
  // C = A B once, then C x = A (B x): with every entry in the role that it can play, and the first of its
  // kind in the others.
  const Entry& entry = *GetParam();
  const auto all = registry().entries();
  const auto first = [&](Op op) -> const Entry& {
    return *std::find_if(all.begin(), all.end(), [&](const Entry& e) { return e.op == op && !e.needs.gpu; });
  };
  const Entry& product = entry.op == Op::spgemm ? entry : first(Op::spgemm);
  const Entry& vector = entry.op == Op::spgemm ? first(Op::spmv) : entry;
  for (const Pair& p : pairs()) {
    const Dense<double> x = vectors(p.b->cols, 3);
    const auto c = multiply(product, p.a, p.b);
    const auto bx = multiply(vector, p.b, x);
    if (!c || !bx) continue;
    const auto abx = multiply(vector, p.a, *bx);
    const auto cx = multiply(first(Op::spmv), std::make_shared<const Csr<double>>(*c), x);
    if (!abx || !cx) continue;
    EXPECT_EQ(cx->data, abx->data) << p.name;
    ++ran_;
  }
}

TEST_P(EveryEntry, TransposeTurnsTheProductAround) {
  const Entry& entry = *GetParam();
  for (const Pair& p : pairs()) {
    if (entry.op == Op::spgemm) {
      const auto c = multiply(entry, p.a, p.b), ct = multiply(entry, transposed(p.b), transposed(p.a));
      if (!c || !ct) continue;
      expect_same(transpose(*c), *ct, p.name);
    } else {
      // y^T (A x) = (A^T y)^T x for all pairs of vectors.
      const Dense<double> x = vectors(p.a->cols, 2), y = vectors(p.a->rows, 2);
      const auto ax = multiply(entry, p.a, x), aty = multiply(entry, transposed(p.a), y);
      if (!ax || !aty) {
        ++ran_;  // an entry for rows of equal length cannot take the transposes here
        continue;
      }
      for (const Index i : {0, 1}) {
        for (const Index j : {0, 1}) {
          double left = 0, right = 0;
          for (Index k = 0; k < p.a->rows; ++k) left += y(k, i) * (*ax)(k, j);
          for (Index k = 0; k < p.a->cols; ++k) right += (*aty)(k, i) * x(k, j);
          EXPECT_EQ(left, right) << p.name;
        }
      }
    }
    ++ran_;
  }
}

TEST_P(EveryEntry, IsLinear) {
  // A (x + 3 y) = A x + 3 A y, and (A + A) B has twice the values of A B.
  const Entry& entry = *GetParam();
  for (const Pair& p : pairs()) {
    if (entry.op == Op::spgemm) {
      auto doubled = std::make_shared<Csr<double>>(*p.a);
      for (double& value : doubled->values) value *= 2;
      const auto c = multiply(entry, p.a, p.b), twice = multiply(entry, doubled, p.b);
      if (!c || !twice) continue;
      Csr<double> expected = *c;
      for (double& value : expected.values) value *= 2;
      expect_same(*twice, expected, p.name);
    } else {
      const Dense<double> x = vectors(p.a->cols, 3);
      Dense<double> mixed = x;
      for (Index i = 0; i < x.rows; ++i) mixed(i, 0) = x(i, 1) + 3 * x(i, 2);
      const auto ax = multiply(entry, p.a, x), amixed = multiply(entry, p.a, mixed);
      if (!ax || !amixed) continue;
      for (Index i = 0; i < p.a->rows; ++i)
        EXPECT_EQ((*amixed)(i, 0), (*ax)(i, 1) + 3 * (*ax)(i, 2)) << p.name;
    }
    ++ran_;
  }
}

std::vector<const Entry*> all_entries() {
  std::vector<const Entry*> all;
  for (const Entry& entry : registry().entries()) all.push_back(&entry);
  return all;
}

std::string name_of(const testing::TestParamInfo<const Entry*>& info) {
  std::string name = info.param->name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Properties, EveryEntry, testing::ValuesIn(all_entries()), name_of);

}  // namespace
}  // namespace stages
