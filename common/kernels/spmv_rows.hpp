// Rows of y = A x, one after the other or grouped by length. The idea and what it costs are told in
// 01_cpu_serial/fast/csr_spmv.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "common/kernels/multiply_add.hpp"
#include "common/matrix/types.hpp"

namespace stages::kernels {

/// Places that sparse_dot_blocks may read beyond the end of a row.
inline constexpr Offset kOvershoot = 3;

/// Four sums, each of every fourth product: the order is fixed by the row's length alone.
template <class T, class Length>
T sparse_dot(const Index* columns, const T* values, Length length, const T* x) {
  std::array<T, 4> sums{};
  Length q = 0;
  for (; q + 4 <= length; q += 4) {
    for (std::size_t u = 0; u < 4; ++u) {
      const Length at = q + static_cast<Length>(u);
      sums[u] = multiply_add(values[at], x[columns[at]], sums[u]);
    }
  }
  for (std::size_t u = 0; u < 3 && q < length; ++u, ++q)
    sums[u] = multiply_add(values[q], x[columns[q]], sums[u]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// The same with the same bits, without a branch for the last one to three products: the block is read to its
/// end, and what belongs to the next row is replaced by zeros.
template <class T, class Length>
T sparse_dot_blocks(const Index* columns, const T* values, Length length, const T* x) {
  std::array<T, 4> sums{};
  for (Length q = 0; q < length; q += 4) {
    for (std::size_t u = 0; u < 4; ++u) {
      const Length at = q + static_cast<Length>(u);
      const bool inside = at < length;
      const T value = values[at], from_x = x[columns[at]];
      sums[u] = multiply_add(inside ? value : T{0}, inside ? from_x : T{0}, sums[u]);
    }
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
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

/// y = A x with one sum a row. The compiler may multiply and then add here, and does where a chain of
/// additions is faster than one of fused operations.
template <class T, class Ptr>
void multiply_short_rows(const Csr<T>& a, const Ptr* row_ptr, const T* x, T* y) {
  const Index* columns = a.col_idx.data();
  const T* values = a.values.data();
  const Index rows = a.rows;
  Ptr q = 0;
  for (Index i = 0; i < rows; ++i) {
    T sum = 0;
    for (const Ptr end = row_ptr[i + 1]; q < end; ++q) sum += values[q] * x[columns[q]];
    y[i] = sum;
  }
}

/// Rows [begin, end) of y = A x, each by `dot`.
template <class T, class Ptr, class Dot>
void multiply_rows_by(const Csr<T>& a, const Ptr* row_ptr, Index begin, Index end, const T* x, T* y,
                      Dot dot) {
  const Index* columns = a.col_idx.data();
  const T* values = a.values.data();
  Ptr first = row_ptr[begin];
  for (Index i = begin; i < end; ++i) {
    const Ptr last = row_ptr[i + 1];
    y[i] = dot(columns + first, values + first, last - first, x);
    first = last;
  }
}

/// Rows [begin, end) of y = A x, in their order. The last rows of A, where a block could read past its
/// arrays, go without blocks.
template <class T, class Ptr>
void multiply_rows(const Csr<T>& a, const Ptr* row_ptr, Index begin, Index end, const T* x, T* y) {
  Index blocks_end = end;
  while (blocks_end > begin && Offset{row_ptr[blocks_end]} > a.nnz() - kOvershoot) --blocks_end;
  multiply_rows_by(a, row_ptr, begin, blocks_end, x, y,
                   [](auto... row) { return sparse_dot_blocks<T>(row...); });
  multiply_rows_by(a, row_ptr, blocks_end, end, x, y, [](auto... row) { return sparse_dot<T>(row...); });
}

inline constexpr Index kWindow = 512;
inline constexpr Index kUnrolled = 8;

/// Rows order[first .. first + count). All have `length` non-zeros; kUnrolled + 1 stands for any more, and
/// kInOrder for consecutive rows of any length.
struct Group {
  Index first = 0;
  Index count = 0;
  Index length = 0;
};
inline constexpr Index kInOrder = kUnrolled + 2;

/// Of rows [first, last): those of each window by their length in order[first .. last), and the groups of equal
/// length, added to `groups`. Windows whose rows have more than kUnrolled non-zeros on average stay in order:
/// there a wrong guess costs little beside the row, and jumping about in A costs more.
template <class T>
void group_rows(const Csr<T>& a, Index first, Index last, Buffer<Index>& order, std::vector<Group>& groups) {
  order.resize(static_cast<std::size_t>(a.rows));
  std::iota(order.begin() + first, order.begin() + last, first);
  const auto length_class = [&](Index i) {
    return static_cast<Index>(std::min<Offset>(a.row_nnz(i), kUnrolled + 1));
  };
  for (Index begin = first; begin < last; begin += std::min(kWindow, last - begin)) {
    const Index end = begin + std::min(kWindow, last - begin);
    const Offset entries =
        a.row_ptr[static_cast<std::size_t>(end)] - a.row_ptr[static_cast<std::size_t>(begin)];
    if (entries > Offset{kUnrolled} * (end - begin)) {
      groups.push_back({begin, end - begin, kInOrder});
      continue;
    }
    std::stable_sort(order.begin() + begin, order.begin() + end,
                     [&](Index i, Index j) { return a.row_nnz(i) < a.row_nnz(j); });
    for (Index at = begin; at < end;) {
      Group group{at, 0, length_class(order[static_cast<std::size_t>(at)])};
      while (at < end && length_class(order[static_cast<std::size_t>(at)]) == group.length) ++at;
      group.count = at - group.first;
      groups.push_back(group);
    }
  }
}

template <Index kLength, class T, class Ptr>
void multiply_group(const Csr<T>& a, const Ptr* row_ptr, const Index* rows, Index count, const T* x, T* y) {
  if constexpr (kLength == kInOrder) return multiply_rows(a, row_ptr, rows[0], rows[0] + count, x, y);
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
  (std::make_integer_sequence<Index, kInOrder + 1>());
  for (const Group& group : groups)
    kByLength[static_cast<std::size_t>(group.length)](a, row_ptr, order + group.first, group.count, x, y);
}

}  // namespace stages::kernels
