// Conversions between Coo, Csr, Csc and Dense, against a model that is too simple to be wrong.

#include "common/matrix/convert.hpp"

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "common/matrix/random.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

/// What is stored at each place that has an entry.
using Model = std::map<std::pair<Index, Index>, double>;

template <class T>
Model model_of(const Coo<T>& a) {
  Model m;
  for (std::size_t k = 0; k < a.values.size(); ++k) m[{a.row_idx[k], a.col_idx[k]}] += double{a.values[k]};
  return m;
}

template <class T>
void expect_equals(const Csr<T>& a, Index rows, Index cols, const Model& model) {
  ASSERT_NO_THROW(require_canonical(a, "A"));
  EXPECT_EQ(a.rows, rows);
  EXPECT_EQ(a.cols, cols);
  Model found;
  for (Index i = 0; i < a.rows; ++i)
    for (std::size_t k = 0; k < row_columns(a, i).size(); ++k)
      found[{i, row_columns(a, i)[k]}] = double{row_values(a, i)[k]};
  EXPECT_EQ(found, model);
}

/// Entries with small integer values (sums are exact), many of them at one place; some sums are zero.
template <class T>
Coo<T> random_coo(Index rows, Index cols, Index entries, random::Word seed) {
  Coo<T> a = coo<T>(rows, cols, {});
  random::Stream words(seed, 0);
  for (Index k = 0; k < entries; ++k) {
    const auto row = static_cast<Index>(words.below(static_cast<random::Word>(rows)));
    const auto col = static_cast<Index>(words.below(static_cast<random::Word>(cols)));
    a.push(row, col, static_cast<T>(static_cast<int>(words.below(7)) - 3));
  }
  return a;
}

template <class T>
class Convert : public testing::Test {};
using ValueTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(Convert, ValueTypes);

TYPED_TEST(Convert, AgreesWithTheModelOnAnyShape) {
  const Index shapes[][3] = {{1, 1, 3},   {1, 40, 30}, {40, 1, 30}, {7, 31, 60}, {31, 7, 400}, {64, 64, 50},
                             {9, 14, 50}, {0, 0, 0},   {0, 5, 0},   {5, 0, 0},   {3, 4, 0}};
  for (const auto& [rows, cols, entries] : shapes) {
    for (random::Word seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols) + " seed " + std::to_string(seed));
      const Coo<TypeParam> drawn = random_coo<TypeParam>(rows, cols, entries, seed);
      const Model model = model_of(drawn);
      const Csr<TypeParam> csr = to_csr(drawn);
      expect_equals(csr, rows, cols, model);

      Model flipped;
      for (const auto& [place, value] : model) flipped[{place.second, place.first}] = value;
      const Csr<TypeParam> transposed = transpose(csr);
      expect_equals(transposed, cols, rows, flipped);
      const Csc<TypeParam> csc = to_csc(csr);  // lies by columns as the transposed matrix does by rows
      EXPECT_TRUE(csc.rows == rows && csc.cols == cols && csc.col_ptr == transposed.row_ptr &&
                  csc.row_idx == transposed.col_idx && csc.values == transposed.values);

      Model without_zeros = model;
      std::erase_if(without_zeros, [](const auto& entry) { return entry.second == 0; });
      for (const Layout layout : {Layout::row_major, Layout::col_major}) {
        const Dense<TypeParam> dense = to_dense(csr, layout);
        for (Index i = 0; i < rows; ++i)
          for (Index j = 0; j < cols; ++j)
            EXPECT_EQ(double{dense(i, j)}, model.contains({i, j}) ? model.at({i, j}) : 0) << i << ", " << j;
        expect_equals(to_csr(dense), rows, cols, without_zeros);
      }
    }
  }
}

TYPED_TEST(Convert, DenseReaderHonoursTheLeadingDimension) {
  Dense<TypeParam> dense(2, 3, Layout::row_major, 5);
  std::fill(dense.data.begin(), dense.data.end(), std::numeric_limits<TypeParam>::quiet_NaN());
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j) dense(i, j) = static_cast<TypeParam>(i == j ? 0 : 10 * i + j);
  const Csr<TypeParam> csr = to_csr(dense);
  EXPECT_EQ(csr.row_ptr, (Buffer<Offset>{0, 2, 4}));
  EXPECT_EQ(csr.col_idx, (Buffer<Index>{1, 2, 0, 2}));
  EXPECT_EQ(csr.values, (Buffer<TypeParam>{1, 2, 10, 12}));
  EXPECT_THROW(Dense<TypeParam>(2, 3, Layout::row_major, 2), Error);
}

// Long rows, a row and a column that most entries lie in, and sums that depend on their order.
TYPED_TEST(Convert, RepeatsAreSummedInInputOrder) {
  Coo<TypeParam> all = coo<TypeParam>(3000, 3000, {});
  std::map<std::pair<Index, Index>, TypeParam> expected;
  random::Stream words(11, 0);
  for (int k = 0; k < 40000; ++k) {
    const Index row = k % 4 != 0 ? 17 : static_cast<Index>(words.below(3000));
    const Index col = k % 6 == 0 ? 4 : static_cast<Index>(words.below(3000));
    const TypeParam value = static_cast<TypeParam>(words.below(1'000'000)) / 7;
    all.push(row, col, value);
    expected[{row, col}] += value;
  }
  const Csr<TypeParam> csr = to_csr(all);
  ASSERT_NO_THROW(require_canonical(csr, "A"));
  ASSERT_EQ(csr.nnz(), std::ssize(expected));
  for (Offset k = 0; const auto& [place, sum] : expected) {
    EXPECT_EQ(csr.col_idx[static_cast<std::size_t>(k)], place.second);
    EXPECT_EQ(csr.values[static_cast<std::size_t>(k++)], sum);
  }
}

TYPED_TEST(Convert, EntryOutsideIsRefused) {
  for (const auto& [row, col] : {std::pair{-1, 0}, {2, 0}, {0, -1}, {0, 3}}) {
    const auto outside = coo<TypeParam>(2, 3, {{0, 0, 1}, {row, col, 1}});
    EXPECT_TRUE(has(error_of([&] { to_csr(outside); }), "entry 1")) << row << ", " << col;
  }
}

TYPED_TEST(Convert, RequireCanonicalSeesEachFault) {
  Csr<TypeParam> good(2, 4);
  good.row_ptr = {0, 2, 3};
  good.col_idx = {1, 3, 0};
  good.values = {1, 2, 3};
  EXPECT_NO_THROW(require_canonical(good, "A"));
  const auto expect_refused = [&](const char* words, auto&& damage) {
    Csr<TypeParam> bad = good;
    damage(bad);
    const std::string message = error_of([&] { require_canonical(bad, "the matrix"); });
    EXPECT_TRUE(has(message, words));
    EXPECT_TRUE(starts(message, "the matrix"));
  };
  expect_refused("rows + 1", [](auto& a) { a.row_ptr.pop_back(); });
  expect_refused("row_ptr runs from", [](auto& a) { a.row_ptr.back() = 2; });
  expect_refused("row_ptr runs from", [](auto& a) { a.row_ptr.front() = 1; });
  expect_refused("row_ptr runs from", [](auto& a) { a.values.pop_back(); });
  expect_refused("before it begins", [](auto& a) { a.row_ptr[1] = 4; });
  expect_refused("outside", [](auto& a) { a.col_idx[1] = 4; });
  expect_refused("outside", [](auto& a) { a.col_idx[0] = -1; });
  expect_refused("ascend", [](auto& a) { a.col_idx[1] = 1; });
  expect_refused("ascend", [](auto& a) { a.col_idx[0] = 3, a.col_idx[1] = 1; });
}

TEST(ToCsr, FewEntriesInManyColumnsComeOutSortedAndAddedUp) {
  const Index last = std::numeric_limits<Index>::max() - 1;
  const Csr<double> c = to_csr(coo<double>(2, last + 1, {{1, last, 1}, {0, 7, 2}, {1, 3, 3}, {1, last, 4}}));
  EXPECT_EQ(c.row_ptr, (Buffer<Offset>{0, 1, 3}));
  EXPECT_EQ(c.col_idx, (Buffer<Index>{7, 3, last}));
  EXPECT_EQ(c.values, (Buffer<double>{2, 3, 5}));
}

TEST(Narrow, RefusesWhatDoesNotFit) {
  EXPECT_EQ(narrow<std::int32_t>(std::int64_t{2147483647}), 2147483647);
  EXPECT_THROW(narrow<std::int32_t>(std::int64_t{2147483648}), Error);
  EXPECT_THROW(narrow<std::uint32_t>(-1), Error);
}

}  // namespace
}  // namespace stages
