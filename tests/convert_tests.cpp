// Conversions between Coo, Csr, Csc and Dense, against a dense model that is too simple to be wrong.

#include "common/matrix/convert.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/matrix/error.hpp"
#include "common/matrix/random.hpp"

namespace stages {
namespace {

/// rows x cols numbers and a mark for each place that has an entry.
struct Model {
  Index rows, cols;
  std::vector<double> value;
  std::vector<bool> stored;

  Model(Index r, Index c)
      : rows(r),
        cols(c),
        value(static_cast<std::size_t>(r) * static_cast<std::size_t>(c), 0.0),
        stored(value.size(), false) {}
  std::size_t at(Index i, Index j) const {
    return static_cast<std::size_t>(i) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(j);
  }
};

template <class T>
Model model_of(const Coo<T>& a) {
  Model m(a.rows, a.cols);
  for (std::size_t k = 0; k < a.values.size(); ++k) {
    const std::size_t place = m.at(a.row_idx[k], a.col_idx[k]);
    m.value[place] += static_cast<double>(a.values[k]);
    m.stored[place] = true;
  }
  return m;
}

template <class T>
void expect_equals(const Csr<T>& a, const Model& m) {
  ASSERT_NO_THROW(require_canonical(a, "A"));
  ASSERT_EQ(a.rows, m.rows);
  ASSERT_EQ(a.cols, m.cols);
  std::vector<bool> seen(m.stored.size(), false);
  for (Index i = 0; i < a.rows; ++i) {
    const auto columns = row_columns(a, i);
    const auto values = row_values(a, i);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const std::size_t place = m.at(i, columns[k]);
      seen[place] = true;
      EXPECT_EQ(static_cast<double>(values[k]), m.value[place]) << "at " << i << ", " << columns[k];
    }
  }
  EXPECT_EQ(seen, m.stored);
}

/// Entries with small integer values (sums are exact), many of them at one place; some sums are zero.
template <class T>
Coo<T> random_coo(Index rows, Index cols, Index entries, random::Word seed) {
  Coo<T> a;
  a.rows = rows;
  a.cols = cols;
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

TYPED_TEST(Convert, AgreesWithTheDenseModelOnAnyShape) {
  const Index shapes[][3] = {{1, 1, 3}, {1, 40, 30}, {40, 1, 30}, {7, 31, 60}, {31, 7, 400}, {64, 64, 50}};
  for (const auto& [rows, cols, entries] : shapes) {
    for (random::Word seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols) + " seed " + std::to_string(seed));
      const Coo<TypeParam> coo = random_coo<TypeParam>(rows, cols, entries, seed);
      const Model model = model_of(coo);
      const Csr<TypeParam> csr = to_csr(coo);
      expect_equals(csr, model);

      const Csc<TypeParam> csc = to_csc(csr);
      ASSERT_EQ(csc.rows, rows);
      ASSERT_EQ(csc.cols, cols);
      ASSERT_EQ(csc.col_ptr.size(), static_cast<std::size_t>(cols) + 1);
      ASSERT_EQ(csc.nnz(), csr.nnz());
      expect_equals(to_csr(csc), model);

      Model flipped(cols, rows);
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) {
          flipped.value[flipped.at(j, i)] = model.value[model.at(i, j)];
          flipped.stored[flipped.at(j, i)] = model.stored[model.at(i, j)];
        }
      }
      expect_equals(transpose(csr), flipped);
      expect_equals(transpose(transpose(csr)), model);
    }
  }
}

TYPED_TEST(Convert, CscHoldsColumnsWithAscendingRows) {
  Coo<TypeParam> coo;
  coo.rows = 3;
  coo.cols = 4;
  coo.push(2, 1, TypeParam{5});
  coo.push(0, 3, TypeParam{7});
  coo.push(0, 1, TypeParam{6});
  const Csc<TypeParam> csc = to_csc(to_csr(coo));
  EXPECT_EQ(csc.col_ptr, (Buffer<Offset>{0, 0, 2, 2, 3}));
  EXPECT_EQ(csc.row_idx, (Buffer<Index>{0, 2, 0}));
  EXPECT_EQ(csc.values, (Buffer<TypeParam>{6, 5, 7}));
}

TYPED_TEST(Convert, DenseHasZerosWhereNothingIsStored) {
  for (const Layout layout : {Layout::row_major, Layout::col_major}) {
    const Coo<TypeParam> coo = random_coo<TypeParam>(9, 14, 50, 3);
    const Model model = model_of(coo);
    const Csr<TypeParam> csr = to_csr(coo);
    const Dense<TypeParam> dense = to_dense(csr, layout);
    Model without_zeros(9, 14);
    for (Index i = 0; i < 9; ++i) {
      for (Index j = 0; j < 14; ++j) {
        EXPECT_EQ(static_cast<double>(dense(i, j)), model.value[model.at(i, j)]);
        without_zeros.value[model.at(i, j)] = model.value[model.at(i, j)];
        without_zeros.stored[model.at(i, j)] = model.value[model.at(i, j)] != 0;
      }
    }
    expect_equals(to_csr(dense), without_zeros);
  }
}

TYPED_TEST(Convert, DenseReaderHonoursTheLeadingDimension) {
  Dense<TypeParam> dense(2, 3, Layout::row_major, 5);
  std::fill(dense.data.begin(), dense.data.end(), std::numeric_limits<TypeParam>::quiet_NaN());
  for (Index i = 0; i < 2; ++i) {
    for (Index j = 0; j < 3; ++j) dense(i, j) = static_cast<TypeParam>(i == j ? 0 : 10 * i + j);
  }
  const Csr<TypeParam> csr = to_csr(dense);
  EXPECT_EQ(csr.row_ptr, (Buffer<Offset>{0, 2, 4}));
  EXPECT_EQ(csr.col_idx, (Buffer<Index>{1, 2, 0, 2}));
  EXPECT_EQ(csr.values, (Buffer<TypeParam>{1, 2, 10, 12}));
  EXPECT_THROW(Dense<TypeParam>(2, 3, Layout::row_major, 2), Error);
}

TYPED_TEST(Convert, EmptyShapes) {
  const Index shapes[][2] = {{0, 0}, {0, 5}, {5, 0}, {3, 4}};
  for (const auto& [rows, cols] : shapes) {
    Coo<TypeParam> coo;
    coo.rows = rows;
    coo.cols = cols;
    const Csr<TypeParam> csr = to_csr(coo);
    expect_equals(csr, Model(rows, cols));
    expect_equals(to_csr(to_csc(csr)), Model(rows, cols));
    expect_equals(transpose(csr), Model(cols, rows));
    expect_equals(to_csr(to_dense(csr)), Model(rows, cols));
  }
}

TYPED_TEST(Convert, RepeatsAreSummedInInputOrder) {
  // big + small - big is 0 in this order, and small in another one.
  const TypeParam big = TypeParam{1} / std::numeric_limits<TypeParam>::epsilon() * 4;
  Coo<TypeParam> coo;
  coo.rows = coo.cols = 2;
  coo.push(1, 0, big);
  coo.push(0, 0, TypeParam{9});
  coo.push(1, 0, TypeParam{1});
  coo.push(1, 0, -big);
  const Csr<TypeParam> csr = to_csr(coo);
  EXPECT_EQ(csr.row_ptr, (Buffer<Offset>{0, 1, 2}));
  EXPECT_EQ(csr.values, (Buffer<TypeParam>{9, 0})) << "the sum that is zero stays as an explicit zero";
}

// Long rows, a row and a column that most entries lie in, and sums that depend on their order.
TYPED_TEST(Convert, RepeatsInLongRowsAreSummedInInputOrder) {
  Coo<TypeParam> coo;
  coo.rows = coo.cols = 3000;
  std::map<std::pair<Index, Index>, TypeParam> expected;
  random::Stream words(11, 0);
  for (int k = 0; k < 40000; ++k) {
    const Index row = k % 4 != 0 ? 17 : static_cast<Index>(words.below(3000));
    const Index col = k % 6 == 0 ? 4 : static_cast<Index>(words.below(3000));
    const TypeParam value = static_cast<TypeParam>(words.below(1'000'000)) / 7;
    coo.push(row, col, value);
    expected[{row, col}] += value;
  }
  const Csr<TypeParam> csr = to_csr(coo);
  ASSERT_NO_THROW(require_canonical(csr, "A"));
  ASSERT_EQ(csr.nnz(), std::ssize(expected));
  for (Offset k = 0; const auto& [place, sum] : expected) {
    EXPECT_EQ(csr.col_idx[static_cast<std::size_t>(k)], place.second);
    EXPECT_EQ(csr.values[static_cast<std::size_t>(k++)], sum);
  }
}

TYPED_TEST(Convert, EntryOutsideIsRefused) {
  for (const auto& [row, col] : {std::pair{-1, 0}, {2, 0}, {0, -1}, {0, 3}}) {
    Coo<TypeParam> coo;
    coo.rows = 2;
    coo.cols = 3;
    coo.push(0, 0, TypeParam{1});
    coo.push(row, col, TypeParam{1});
    try {
      to_csr(coo);
      FAIL() << "accepted " << row << ", " << col;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("entry 1"), std::string::npos) << e.what();
    }
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
    try {
      require_canonical(bad, "the matrix");
      ADD_FAILURE() << "accepted; expected: " << words;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
      EXPECT_EQ(std::string(e.what()).find("the matrix"), 0U) << e.what();
    }
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
  Coo<double> a;
  a.rows = 2;
  a.cols = std::numeric_limits<Index>::max();
  a.push(1, a.cols - 1, 1);
  a.push(0, 7, 2);
  a.push(1, 3, 3);
  a.push(1, a.cols - 1, 4);
  const Csr<double> c = to_csr(a);
  EXPECT_EQ(c.row_ptr, (Buffer<Offset>{0, 1, 3}));
  EXPECT_EQ(c.col_idx, (Buffer<Index>{7, 3, a.cols - 1}));
  EXPECT_EQ(c.values, (Buffer<double>{2, 3, 5}));
}

TEST(ConvertValues, KeepsTheStructure) {
  const Csr<double> a = to_csr(random_coo<double>(6, 8, 20, 1));
  const Csr<float> b = convert_values<float>(a);
  EXPECT_EQ(b.row_ptr, a.row_ptr);
  EXPECT_EQ(b.col_idx, a.col_idx);
  EXPECT_EQ(b.cols, a.cols);
  for (std::size_t k = 0; k < a.values.size(); ++k) EXPECT_EQ(static_cast<double>(b.values[k]), a.values[k]);
}

TEST(Narrow, RefusesWhatDoesNotFit) {
  EXPECT_EQ(narrow<std::int32_t>(std::int64_t{2147483647}), 2147483647);
  EXPECT_THROW(narrow<std::int32_t>(std::int64_t{2147483648}), Error);
  EXPECT_THROW(narrow<std::uint32_t>(-1), Error);
}

}  // namespace
}  // namespace stages
