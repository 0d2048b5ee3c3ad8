#pragma once
// From entries in any order to compressed rows, for a reader that sees the entries twice: RowCounter counts
// each row's the first time, RowPlacer puts them into their places the second time, in the very arrays that
// are the result, then sorts the rows and sums repeats. Besides the result it takes two bytes an entry.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "common/matrix/types.hpp"

namespace stages {

/// Turns counts (of row i at ptr[i + 1]) into where each row starts (again at ptr[i + 1]): placing an entry
/// moves that position on, and when all are placed it has become the row's end, which is Csr's form. So no
/// second array of positions is needed. Returns the number of entries.
inline Offset counts_to_starts(Buffer<Offset>& ptr) {
  Offset next = 0;
  for (std::size_t i = 1; i < ptr.size(); ++i) {
    const Offset count = ptr[i];
    ptr[i] = next;
    next += count;
  }
  return next;
}

/// Counts the entries of each row, at row_ptr[i + 1]. Rows are collected first: a burst of nothing but
/// counting keeps many cache misses under way at once, where one count between two lines' parsing keeps few.
class RowCounter {
 public:
  explicit RowCounter(Buffer<Offset>& row_ptr) : counts_(row_ptr.data() + 1) {}

  void add(Index row) {
    rows_[pending_++] = row;
    if (pending_ == rows_.size()) flush();
  }
  /// To be called at the end.
  void flush() {
    for (std::size_t k = 0; k < pending_; ++k) ++counts_[rows_[k]];
    pending_ = 0;
  }

 private:
  Offset* counts_;
  std::size_t pending_ = 0;
  std::array<Index, 1024> rows_;
};

/// Sorts up to 16 entries by column, if no column repeats. Each entry's rank is the number of smaller
/// columns, found by comparing all with all: 16 x 16 comparisons, four to sixteen at a time, take less time
/// than the mispredicted branches of a sort that compares fewer.
template <class T>
class FewEntries {
 public:
  static constexpr std::size_t kMost = 16;

  /// A vector of the compilers (GCC and Clang): they use what registers there are. Left to themselves they
  /// make one comparison at a time of these loops.
  typedef Index Lanes __attribute__((vector_size(kMost * sizeof(Index))));

  /// Takes 1 to 16 entries. `readable` >= n entries may be read: where 16 may, the copy has a fixed length,
  /// which is no call. Returns whether all columns differ.
  bool load(const Index* cols, const T* values, std::size_t n, std::size_t readable) {
    n_ = n;
    col_ = Lanes{};
    std::memcpy(&col_, cols, (readable >= kMost ? kMost : n) * sizeof(Index));
    if (readable >= kMost) {
      std::copy_n(values, kMost, value_.begin());
    } else {
      std::copy_n(values, n, value_.begin());
    }
    constexpr Lanes kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const auto count = static_cast<Index>(n);
    col_ |= (kLane >= Lanes{} + count) & std::numeric_limits<Index>::max();  // behind all columns
    rank_ = Lanes{};
    for (std::size_t k = 0; k < n; ++k) rank_ -= Lanes{} + col_[k] < col_;  // a comparison that holds is -1
    // Equal columns share a rank and leave another free. What stands behind all has rank n.
    const Lanes taken_lanes = (Lanes{} + 1) << rank_;
    std::array<std::uint64_t, kMost / 2> pairs;
    std::memcpy(pairs.data(), &taken_lanes, sizeof pairs);
    std::uint64_t taken = 0;
    for (const std::uint64_t pair : pairs) taken |= pair;
    taken = (taken | taken >> 32) & 0xffffffffu;
    return taken == (n < kMost ? (2u << n) - 1 : 0xffffu);
  }

  /// Writes them in order, if load() returned true.
  void store(Index* cols, T* values) const {
    for (std::size_t k = 0; k < n_; ++k) {
      const auto to = static_cast<std::size_t>(rank_[k]);
      cols[to] = col_[k];
      values[to] = value_[k];
    }
  }

 private:
  Lanes col_;
  Lanes rank_;
  std::array<T, kMost> value_;
  std::size_t n_ = 0;
};

/// Sorts the entries of one row by column; those with the same column keep their order, so that repeated
/// entries are summed in file order. A merge sort that sets only the left half aside: extra memory is half of
/// the longest row.
template <class T>
class RowSorter {
 public:
  /// `readable` >= n: see FewEntries::load.
  void sort(Index* cols, T* values, std::size_t n, std::size_t readable) {
    if (std::is_sorted(cols, cols + n)) return;
    if (n <= FewEntries<T>::kMost) {
      if (few_.load(cols, values, n, readable)) {
        few_.store(cols, values);
      } else {
        insertion_sort(cols, values, n);
      }
      return;
    }
    const std::size_t half = n / 2;
    sort(cols, values, half, readable);
    sort(cols + half, values + half, n - half, readable - half);
    if (cols[half - 1] > cols[half]) merge(cols, values, half, n);
  }

 private:
  static void insertion_sort(Index* cols, T* values, std::size_t n) {
    for (std::size_t k = 1; k < n; ++k) {
      const Index col = cols[k];
      const T value = values[k];
      std::size_t to = k;
      for (; to > 0 && cols[to - 1] > col; --to) {
        cols[to] = cols[to - 1];
        values[to] = values[to - 1];
      }
      cols[to] = col;
      values[to] = value;
    }
  }

  void merge(Index* cols, T* values, std::size_t half, std::size_t n) {
    if (left_cols_.size() < half) {
      left_cols_.resize(half);
      left_values_.resize(half);
    }
    std::copy_n(cols, half, left_cols_.begin());
    std::copy_n(values, half, left_values_.begin());
    std::size_t left = 0, right = half;
    for (std::size_t to = 0; left < half; ++to) {
      const bool from_left = right == n || left_cols_[left] <= cols[right];
      cols[to] = from_left ? left_cols_[left] : cols[right];
      values[to] = from_left ? left_values_[left] : values[right];
      left += from_left ? 1 : 0;
      right += from_left ? 0 : 1;
    }
  }

  FewEntries<T> few_;
  Buffer<Index> left_cols_;
  Buffer<T> left_values_;
};

/// Puts entries into their rows, then sorts the rows and sums repeated entries.
///
/// An entry's place in a large matrix is far from the last one's, and writing four or eight bytes there moves
/// whole cache lines to and fro. So rows are taken together in bins of some 30,000 entries, whose borders
/// the counts of the first pass give. While the file is read, an entry goes to the next free place of its
/// bin, in the very arrays that are the result: a few hundred places to write to fit into the cache. With two
/// bytes an entry that say which row of the bin it belongs to, each bin is then put in order while it is in
/// the cache. The entries of a bin that is much longer than the others, which must hold long rows, go
/// straight to the next free place of their row.
template <class T>
class RowPlacer {
 public:
  /// `out` has room for the entries, and the rows' starts at row_ptr[i + 1].
  explicit RowPlacer(Csr<T>& out) : out_(out) {
    bin_end_[0] = out.nnz();
    next_in_bin_[0] = kNoBin;
    if (out.nnz() < kWorthBins) return;
    const Offset wanted = std::min<Offset>(out.nnz() / kEntriesInBin, kMostBins);
    shift_ = 0;
    while (((out.rows - 1) >> shift_) >= wanted) ++shift_;
    if (shift_ > kMostShift) {
      shift_ = kNoBins;
      return;
    }
    bins_ = ((out.rows - 1) >> shift_) + 1;
    const Offset longest = out.nnz() / 16 + kWorthBins;  // a bin is copied to be put in order
    Offset begin = 0;
    for (Index bin = 0; bin < bins_; ++bin) {
      const Offset end = bin + 1 < bins_ ? out.row_ptr[(at(bin + 1) << shift_) + 1] : out.nnz();
      const bool too_long = end - begin > longest;
      next_in_bin_[at(bin)] = too_long ? kNoBin : begin;
      bin_end_[at(bin)] = end;
      longest_bin_ = std::max(longest_bin_, too_long ? 0 : end - begin);
      begin = end;
    }
    row_in_bin_.resize(at(out.nnz()));
  }

  /// Where the first repeated entry stands; known after finish().
  std::optional<std::pair<Index, Index>> first_repeat;
  /// ... and the first place where entries add up to what is not finite.
  std::optional<std::pair<Index, Index>> first_overflow;

  void add(Index row, Index col, T value) {
    const std::size_t bin = at(row >> shift_);
    Offset to = next_in_bin_[bin];
    if (to == kNoBin) {
      to = out_.row_ptr[at(row) + 1]++;
      if (to >= out_.nnz()) {
        fits_ = false;
        return;
      }
    } else {
      if (to == bin_end_[bin]) {
        fits_ = false;
        return;
      }
      next_in_bin_[bin] = to + 1;
      row_in_bin_[at(to)] = static_cast<std::uint16_t>(row & ((1 << shift_) - 1));
    }
    out_.col_idx[at(to)] = col;
    out_.values[at(to)] = value;
  }

  /// To be called at the end: makes the matrix canonical. False if there were not the entries that had been
  /// counted: then the file was changed between the passes, and the matrix is worthless.
  bool finish() {
    Buffer<Index> cols(at(longest_bin_));
    Buffer<T> values(at(longest_bin_));
    Offset begin = 0;
    for (Index bin = 0; bin < bins_ && fits_; ++bin) {
      const Offset first = Offset{bin} << shift_;
      const Offset last = std::min<Offset>(first + (Offset{1} << shift_), out_.rows);
      const Offset end = bin_end_[at(bin)];
      if (next_in_bin_[at(bin)] == kNoBin) {
        close_rows(first, last, begin, end, out_.col_idx.data() + begin, out_.values.data() + begin);
      } else if (next_in_bin_[at(bin)] != end) {
        fits_ = false;
      } else {
        split_bin(first, begin, end, cols.data(), values.data());
        close_rows(first, last, begin, end, cols.data(), values.data());
      }
      begin = end;
    }
    out_.col_idx.resize(at(closed_));
    out_.values.resize(at(closed_));
    return fits_;
  }

 private:
  static std::size_t at(Offset k) { return static_cast<std::size_t>(k); }

  static constexpr Index kMostBins = 1024;
  static constexpr int kMostShift = 16;  ///< the rows of a bin are numbered with 16 bits
  static constexpr int kNoBins = 31;     ///< a shift that puts all rows into one bin, which is none
  static constexpr Offset kEntriesInBin = Offset{1} << 15;
  static constexpr Offset kWorthBins = Offset{1} << 16;  ///< fewer entries fit into the cache anyway
  static constexpr Offset kNoBin = -1;

  /// Copies a bin's entries, row after row, to `cols` and `values`.
  void split_bin(Offset first_row, Offset begin, Offset end, Index* cols, T* values) {
    Offset* const next = out_.row_ptr.data() + first_row + 1;
    for (Offset k = begin; k < end; ++k) {
      const Offset to = next[row_in_bin_[at(k)]]++ - begin;
      if (to >= end - begin) {
        fits_ = false;
        return;
      }
      cols[to] = out_.col_idx[at(k)];
      values[to] = out_.values[at(k)];
    }
  }

  /// Sorts rows first .. last - 1, whose entries, at positions begin .. end - 1 of the matrix, are at `cols`
  /// and `values`; sums repeats, and appends the rows to those that are finished.
  void close_rows(Offset first, Offset last, Offset begin, Offset end, Index* cols, T* values) {
    Offset from = begin;
    for (Offset i = first; i < last; ++i) {
      Offset& row_end = out_.row_ptr[at(i) + 1];
      if (row_end < from || row_end > end) {
        fits_ = false;
        return;
      }
      if (row_end > from) {
        close_row(static_cast<Index>(i), cols + (from - begin), values + (from - begin), row_end - from,
                  end - from);
      }
      from = row_end;
      row_end = closed_;
    }
  }

  /// One row of n > 0 entries, the first of `readable` ones. It may overlap its destination, or lie behind
  /// it.
  void close_row(Index row, Index* cols, T* values, Offset n, Offset readable) {
    if (n <= Offset{FewEntries<T>::kMost} && few_.load(cols, values, at(n), at(readable))) {
      few_.store(out_.col_idx.data() + closed_, out_.values.data() + closed_);
      closed_ += n;
      return;
    }
    sorter_.sort(cols, values, at(n), at(readable));
    append(row, cols, values, n);
  }

  void append(Index row, const Index* cols, const T* values, Offset n) {
    Index* const out_cols = out_.col_idx.data() + closed_;
    T* const out_values = out_.values.data() + closed_;
    bool repeats = false;
    for (Offset k = 1; k < n; ++k) repeats |= cols[k - 1] == cols[k];
    if (!repeats) {
      if (cols != out_cols) {
        std::copy_n(cols, n, out_cols);
        std::copy_n(values, n, out_values);
      }
      closed_ += n;
      return;
    }
    Offset kept = 0;
    for (Offset k = 0; k < n; ++k) {
      if (kept > 0 && out_cols[kept - 1] == cols[k]) {
        if (!first_repeat) first_repeat = {row, cols[k]};
        out_values[kept - 1] += values[k];
        if (!first_overflow && !std::isfinite(out_values[kept - 1])) first_overflow = {row, cols[k]};
      } else {
        out_cols[kept] = cols[k];
        out_values[kept] = values[k];
        ++kept;
      }
    }
    closed_ += kept;
  }

  Csr<T>& out_;
  int shift_ = kNoBins;  ///< row >> shift_ is its bin
  Index bins_ = 1;
  std::array<Offset, kMostBins> next_in_bin_;  ///< kNoBin: entries go straight to their row
  std::array<Offset, kMostBins> bin_end_;
  Buffer<std::uint16_t> row_in_bin_;
  Offset longest_bin_ = 0;
  Offset closed_ = 0;  ///< entries of finished rows
  FewEntries<T> few_;
  RowSorter<T> sorter_;
  bool fits_ = true;
};

}  // namespace stages
