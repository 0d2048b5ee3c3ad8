// Rows of y = A x, one after the other or grouped by length. The idea and what it costs are told in
// 01_cpu_serial/csr_spmv.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "common/matrix/types.hpp"

namespace stages::kernels {

/// Four sums, each of every fourth product: the order is fixed by the row's length alone.
template <class T>
T sparse_dot(const Index* columns, const T* values, Offset length, const T* x) {
  T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  Offset q = 0;
  for (; q + 4 <= length; q += 4) {
    s0 += values[q] * x[columns[q]];
    s1 += values[q + 1] * x[columns[q + 1]];
    s2 += values[q + 2] * x[columns[q + 2]];
    s3 += values[q + 3] * x[columns[q + 3]];
  }
  if (q < length) s0 += values[q] * x[columns[q]];
  if (q + 1 < length) s1 += values[q + 1] * x[columns[q + 1]];
  if (q + 2 < length) s2 += values[q + 2] * x[columns[q + 2]];
  return (s0 + s1) + (s2 + s3);
}

/// The row pointers in 32 bits where they fit, else as they are.
class RowPointers {
 public:
  explicit RowPointers(const Buffer<Offset>& row_ptr) {
    if (row_ptr.back() > std::numeric_limits<Index>::max()) {
      wide_ = row_ptr.data();
      return;
    }
    narrow_.resize(row_ptr.size());
    for (std::size_t i = 0; i < row_ptr.size(); ++i) narrow_[i] = static_cast<Index>(row_ptr[i]);
  }

  /// Calls use(pointer to the row pointers), of the one type or the other.
  template <class Use>
  void with(Use&& use) const {
    wide_ != nullptr ? use(wide_) : use(narrow_.data());
  }

 private:
  const Offset* wide_ = nullptr;  // those of A, which outlives the plan
  Buffer<Index> narrow_;
};

template <class T, class Ptr>
void multiply_rows(const Csr<T>& a, const Ptr* row_ptr, const T* x, T* y) {
  const Index* columns = a.col_idx.data();
  const T* values = a.values.data();
  for (Index i = 0; i < a.rows; ++i) {
    const Ptr first = row_ptr[i];
    y[i] = sparse_dot(columns + first, values + first, Offset{row_ptr[i + 1] - first}, x);
  }
}

inline constexpr Index kWindow = 512;
inline constexpr Index kUnrolled = 8;

/// Rows order[first .. first + count) all have `length` entries; length = kUnrolled + 1 stands for any more.
struct Group {
  Index first = 0;
  Index count = 0;
  Index length = 0;
};

/// The rows of each window by their length, and the groups of equal length.
template <class T>
void group_rows(const Csr<T>& a, Buffer<Index>& order, std::vector<Group>& groups) {
  order.resize(static_cast<std::size_t>(a.rows));
  Index placed = 0;
  for (Index begin = 0; begin < a.rows; begin += std::min(kWindow, a.rows - begin)) {
    const Index end = begin + std::min(kWindow, a.rows - begin);
    const auto length_class = [&](Index i) {
      return static_cast<Index>(std::min<Offset>(a.row_nnz(i), kUnrolled + 1));
    };
    for (Index length = 0; length <= kUnrolled + 1; ++length) {
      Group group{placed, 0, length};
      for (Index i = begin; i < end; ++i) {
        if (length_class(i) == length) order[static_cast<std::size_t>(placed++)] = i;
      }
      group.count = placed - group.first;
      if (group.count > 0) groups.push_back(group);
    }
    std::stable_sort(order.begin() + (placed - (end - begin)), order.begin() + placed,
                     [&](Index i, Index j) { return a.row_nnz(i) < a.row_nnz(j); });
  }
}

template <Index kLength, class T, class Ptr>
void multiply_group(const Csr<T>& a, const Ptr* row_ptr, const Index* rows, Index count, const T* x, T* y) {
  const Index* columns = a.col_idx.data();
  const T* values = a.values.data();
  for (Index r = 0; r < count; ++r) {
    const Ptr first = row_ptr[rows[r]];
    Offset length = kLength;
    if constexpr (kLength > kUnrolled) length = row_ptr[rows[r] + 1] - first;
    y[rows[r]] = sparse_dot(columns + first, values + first, length, x);
  }
}

template <class T, class Ptr>
void multiply_groups(const Csr<T>& a, const Ptr* row_ptr, const std::vector<Group>& groups,
                     const Index* order, const T* x, T* y) {
  using Multiply = void (*)(const Csr<T>&, const Ptr*, const Index*, Index, const T*, T*);
  constexpr auto kByLength = []<Index... kLengths>(std::integer_sequence<Index, kLengths...>) {
    return std::array<Multiply, sizeof...(kLengths)>{&multiply_group<kLengths, T, Ptr>...};
  }
  (std::make_integer_sequence<Index, kUnrolled + 2>());
  for (const Group& group : groups) {
    kByLength[static_cast<std::size_t>(group.length)](a, row_ptr, order + group.first, group.count, x, y);
  }
}

}  // namespace stages::kernels
