#pragma once
// What many tests expect, in one way: words in a text, the message of an error, two equal matrices.

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"

namespace stages {

/// The text has all these words.
inline testing::AssertionResult has_all(std::string_view text,
                                        std::initializer_list<std::string_view> words) {
  for (const std::string_view w : words)
    if (text.find(w) == text.npos) return testing::AssertionFailure() << "no '" << w << "' in: " << text;
  return testing::AssertionSuccess() << "in: " << text;
}
inline testing::AssertionResult has(std::string_view text, std::string_view words) {
  return has_all(text, {words});
}
inline testing::AssertionResult starts(std::string_view text, std::string_view words) {
  if (text.starts_with(words)) return testing::AssertionSuccess() << text;
  return testing::AssertionFailure() << "it does not begin with '" << words << "': " << text;
}

/// The message with which `action` fails, which is one line; empty where it does not.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_FALSE(has(error.what(), "\n"));
    return error.what();
  }
  return "";
}

/// The same shape, structure and values.
template <class T>
testing::AssertionResult same(const Csr<T>& a, const Csr<T>& b) {
  if (a.rows != b.rows || a.cols != b.cols) return testing::AssertionFailure() << "another shape";
  if (a.row_ptr != b.row_ptr) return testing::AssertionFailure() << "other row pointers";
  if (a.col_idx != b.col_idx) return testing::AssertionFailure() << "other columns";
  if (a.values != b.values) return testing::AssertionFailure() << "other values";
  return testing::AssertionSuccess();
}

template <class T>
Coo<T> coo(Index rows, Index cols, std::initializer_list<std::tuple<Index, Index, double>> entries) {
  Coo<T> a;
  a.rows = rows;
  a.cols = cols;
  for (const auto& [i, j, value] : entries) a.push(i, j, static_cast<T>(value));
  return a;
}

template <class T>
std::shared_ptr<const Csr<T>> share(const Csr<double>& a) {
  return std::make_shared<const Csr<T>>(convert_values<T>(a));
}

}  // namespace stages
