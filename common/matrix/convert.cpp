#include "common/matrix/convert.hpp"

#include <numeric>
#include <utility>
#include <vector>

#include "common/matrix/error.hpp"
#include "common/matrix/memory.hpp"

namespace stages {
namespace {

std::size_t at(Offset k) { return static_cast<std::size_t>(k); }

/// Makes rows of placed entries canonical, in place: sorts each by column, and sums what repeats in the order
/// in which it was placed, or keeps the last of it.
template <class T>
void close_rows(Csr<T>& a, Repeats repeats) {
  std::vector<std::pair<Index, Offset>> order;  // the columns of a row, and where each stands in it
  std::vector<T> values;
  Offset begin = 0, out = 0;
  for (Index i = 0; i < a.rows; ++i) {
    const Offset end = std::exchange(a.row_ptr[at(i)], out);
    if (!std::is_sorted(a.col_idx.begin() + begin, a.col_idx.begin() + end)) {
      order.clear();
      for (Offset k = begin; k < end; ++k) order.emplace_back(a.col_idx[at(k)], k - begin);
      std::ranges::sort(order);
      values.assign(a.values.begin() + begin, a.values.begin() + end);
      for (Offset k = begin; const auto& [col, from] : order) {
        a.col_idx[at(k)] = col;
        a.values[at(k++)] = values[at(from)];
      }
    }
    for (const Offset first = out; begin < end; ++begin) {
      if (out > first && a.col_idx[at(out) - 1] == a.col_idx[at(begin)]) {
        T& value = a.values[at(out) - 1];
        value = repeats == Repeats::add ? value + a.values[at(begin)] : a.values[at(begin)];
      } else {
        a.col_idx[at(out)] = a.col_idx[at(begin)];
        a.values[at(out++)] = a.values[at(begin)];
      }
    }
  }
  a.row_ptr[at(a.rows)] = out;
  a.resize(out);
}

/// Whether entries come row by row, each in ascending order of its columns, and none twice.
template <class T>
bool in_order(const Coo<T>& a) {
  for (Offset k = 1; k < a.nnz(); ++k) {
    const Index before = a.row_idx[at(k - 1)], row = a.row_idx[at(k)];
    if (before > row || (before == row && a.col_idx[at(k - 1)] >= a.col_idx[at(k)])) return false;
  }
  return true;
}

}  // namespace

template <class T>
Csr<T> to_csr(Coo<T> a, Repeats repeats) {
  for (Offset k = 0; k < a.nnz(); ++k) {
    const Index i = a.row_idx[at(k)], j = a.col_idx[at(k)];
    if (i < 0 || i >= a.rows || j < 0 || j >= a.cols)
      fail(
          "entry {} lies at row {}, column {}, outside the {} x {} matrix (0-based); correct the entry or "
          "the dimensions",
          k, i, j, a.rows, a.cols);
  }
  Csr<T> out(a.rows, a.cols);
  // Counts become where each row starts; placing an entry moves that on, to the row's end at last. So no second
  // array of positions is needed.
  for (const Index i : a.row_idx) ++out.row_ptr[at(i)];
  Offset start = 0;
  for (Offset& place : out.row_ptr) start += std::exchange(place, start);
  if (in_order(a)) {
    out.col_idx = std::move(a.col_idx);
    out.values = std::move(a.values);
    return out;
  }
  out.resize(a.nnz());
  for (Offset k = 0; k < a.nnz(); ++k) {
    const Offset to = out.row_ptr[at(a.row_idx[at(k)])]++;
    out.col_idx[at(to)] = a.col_idx[at(k)];
    out.values[at(to)] = a.values[at(k)];
  }
  close_rows(out, repeats);
  return out;
}

template <class T>
Csc<T> to_csc(const Csr<T>& a) {
  Csr<T> t = transpose(a);
  return {a.rows, a.cols, std::move(t.row_ptr), std::move(t.col_idx), std::move(t.values)};
}

/// One counting sort. The input is read row by row, so each row of the output comes out in ascending order.
template <class T>
Csr<T> transpose(const Csr<T>& a) {
  require_memory(2.0 * sizeof(Offset) * a.cols +
                     static_cast<double>(sizeof(Index) + sizeof(T)) * static_cast<double>(a.nnz()),
                 fmt::format("the transpose, {} x {},", a.cols, a.rows));
  Csr<T> out(a.cols, a.rows);
  for (const Index j : a.col_idx) ++out.row_ptr[at(j) + 1];
  std::partial_sum(out.row_ptr.begin(), out.row_ptr.end(), out.row_ptr.begin());
  out.resize(a.nnz());
  Buffer<Offset> next(out.row_ptr.begin(), out.row_ptr.end() - 1);
  for (Index i = 0; i < a.rows; ++i) {
    for (Offset k = a.row_ptr[at(i)]; k < a.row_ptr[at(i) + 1]; ++k) {
      const Offset to = next[at(a.col_idx[at(k)])]++;
      out.col_idx[at(to)] = i;
      out.values[at(to)] = a.values[at(k)];
    }
  }
  return out;
}

template <class T>
Dense<T> to_dense(const Csr<T>& a, Layout layout, Offset ld) {
  Dense<T> out(a.rows, a.cols, layout, ld);
  std::fill(out.data.begin(), out.data.end(), T{0});
  for (Index i = 0; i < a.rows; ++i)
    for (Offset k = a.row_ptr[at(i)]; k < a.row_ptr[at(i) + 1]; ++k)
      out(i, a.col_idx[at(k)]) = a.values[at(k)];
  return out;
}

template <class T>
Csr<T> to_csr(const Dense<T>& a) {
  Csr<T> out(a.rows, a.cols);
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < a.cols; ++j) {
      if (a(i, j) == T{0}) continue;
      out.col_idx.push_back(j);
      out.values.push_back(a(i, j));
    }
    out.row_ptr[at(i) + 1] = out.nnz();
  }
  return out;
}

template <class T>
void require_canonical(const Csr<T>& a, const char* name) {
  if (std::ssize(a.row_ptr) != Offset{a.rows} + 1)
    fail("{}: row_ptr has {} elements for {} rows; it needs rows + 1", name, a.row_ptr.size(), a.rows);
  if (a.row_ptr.front() != 0 || a.row_ptr.back() != a.nnz() || std::ssize(a.values) != a.nnz())
    fail(
        "{}: row_ptr runs from {} to {} with {} column indices and {} values; it must run from 0 to their "
        "number",
        name, a.row_ptr.front(), a.row_ptr.back(), a.col_idx.size(), a.values.size());
  for (Index i = 0; i < a.rows; ++i) {
    const Offset begin = a.row_ptr[at(i)], end = a.row_ptr[at(i) + 1];
    if (begin < 0 || begin > end || end > a.nnz())
      fail("{}: row {} ends at {} before it begins at {}", name, i, end, begin);
    for (Offset k = begin; k < end; ++k) {
      const Index j = a.col_idx[at(k)];
      if (j < 0 || j >= a.cols) fail("{}: row {} has column {}, outside 0 .. {}", name, i, j, a.cols - 1);
      if (k > begin && j <= a.col_idx[at(k) - 1])
        fail("{}: row {} has column {} after column {}; columns must ascend strictly", name, i, j,
             a.col_idx[at(k) - 1]);
    }
  }
}

#define STAGES_INSTANTIATE(T)                                \
  template Csr<T> to_csr(Coo<T>, Repeats);                   \
  template Csc<T> to_csc(const Csr<T>&);                     \
  template Csr<T> transpose(const Csr<T>&);                  \
  template Dense<T> to_dense(const Csr<T>&, Layout, Offset); \
  template Csr<T> to_csr(const Dense<T>&);                   \
  template void require_canonical(const Csr<T>&, const char*);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)

}  // namespace stages
