// Gustavson's algorithm in one pass, with a choice for every row.
//
// The plain form (gustavson_dense.cpp of stage 01) walks through all products twice and, for each row, scans
// a bitmap as long as the row is wide. Here every cost is matched to the row at hand:
//
//   One pass. C never has more entries than sum(min(products of the row, columns)), so C's arrays are
//   reserved at that size and written front to back. The operating system hands out memory by the page, at
//   the first write: what is reserved and never reached costs address space only, whereas counting first
//   costs a pass over all products (measured: a third of the time on uniform input). At most kTinyProducts
//   products: they are inserted into C's row in order, without any accumulator. Otherwise the sums go to a
//   dense accumulator and the columns to a bitmap, as before. Where the columns of the row lie close
//   together, the words between the first and the last are scanned, eight at a time. Where they are scattered
//   over a wide matrix, a second bitmap with a bit for each word of the first says which words to read. Rows
//   of B short (on average at most kShortRow entries): the loop over one ends after a few steps that nobody
//   can predict, and the mispredicted branch costs more than the products. So the products are first written
//   out, in blocks of eight whatever the length, into a batch; one long loop then adds the batch up. Rows of
//   B long: if they hold several columns in one word of the bitmap (meshes, web pages), B's columns are first
//   rewritten as pairs (word number, mask), and one OR marks many columns. Result row full: once every column
//   between the first and the last is marked, marking stops.
//
// The order in which the terms of one element of C are added is that of A's row in every case, so the result
// does not depend on which way a row goes.
//
// Input: any CSR matrices. Cost: one step a product; memory: C's bound, and columns x (sizeof(T) + 1/8)
// bytes.
//
// Sources: the two-level accumulators are Gustavson's (ACM TOMS 4, 1978) and Gilbert, Moler and Schreiber's
// (SIAM J. Matrix Anal. Appl. 13, 1992); the compression of B into masks follows Deveci, Trott and
// Rajamanickam ("Multithreaded sparse matrix-matrix multiplication for many-core and GPU architectures",
// 2018).
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "common/kernels/bitmap.hpp"
#include "common/matrix/types.hpp"

namespace stages::kernels {

using bitmap::Word;

inline constexpr Offset kTinyProducts = 10;
inline constexpr Offset kShortRow = 20;
inline constexpr Offset kBlock = 8;     ///< products that are written out at once
inline constexpr Offset kBatch = 1024;  ///< 12 KB of products: the batch stays in the first-level cache
inline constexpr Offset kSlack =
    64;  ///< a word of the bitmap is listed in blocks that may overshoot by this much

inline constexpr Index kFewColumns =
    1024;  ///< so that kLanes copies of the sums fit into the first-level cache
inline constexpr Offset kLanes = 4;

/// How the rows of B are added up, the same for a whole product.
enum class Adding { batched, masked, plain };

/// The columns of B as words of a bitmap: row k has the words position[s], mask[s] with
/// row_ptr[k] <= s < row_ptr[k + 1].
struct ColumnMasks {
  Buffer<Offset> row_ptr;
  Buffer<Index> position;
  Buffer<Word> mask;
};

template <class T>
void build_masks(const CsrView<T>& b, ColumnMasks& masks) {
  const auto rows = static_cast<std::size_t>(b.rows), nnz = static_cast<std::size_t>(b.row_ptr[b.rows]);
  masks.row_ptr.resize(rows + 1);
  masks.position.resize(nnz);
  masks.mask.resize(nnz);
  std::size_t count = 0;
  masks.row_ptr[0] = 0;
  for (std::size_t k = 0; k < rows; ++k) {
    const std::size_t row_begin = count;
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
      const auto word = static_cast<Index>(bitmap::word_of(b.col_idx[q]));
      if (count == row_begin || masks.position[count - 1] != word) {
        masks.position[count] = word;
        masks.mask[count++] = 0;
      }
      masks.mask[count - 1] |= bitmap::bit_of(b.col_idx[q]);
    }
    masks.row_ptr[k + 1] = static_cast<Offset>(count);
  }
}

/// What a row of C is made of, before it is made.
struct RowFacts {
  Offset products = 0;
  std::size_t word_begin =
      std::numeric_limits<std::size_t>::max();  ///< words of the bitmap that it may touch
  std::size_t word_end = 0;
};

template <class T>
RowFacts look_at_row(const CsrView<T>& a, const CsrView<T>& b, Index i) {
  Offset products = 0;
  Index low = std::numeric_limits<Index>::max(), high = -1;
  for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
    const Offset first = b.row_ptr[a.col_idx[p]], last = b.row_ptr[a.col_idx[p] + 1];
    if (first == last) continue;
    products += last - first;
    low = std::min(low, b.col_idx[first]);
    high = std::max(high, b.col_idx[last - 1]);
  }
  if (products == 0) return {};
  return {products, bitmap::word_of(low), bitmap::word_of(high) + 1};
}

/// The accumulator of a row: sums, their bitmap, and the bitmap of its words. All zero between rows.
///
/// Where the columns are few, the accumulator has kLanes copies, used in turn by A's entries, and taken
/// together at the end. A processor keeps some hundred stores in flight, and a load that turns out to need
/// one of them waits, or is undone: with 512 columns and one copy that is one product in five.
template <class T>
class Accumulator {
 public:
  explicit Accumulator(Index columns)
      : words_(bitmap::words(columns)),
        lanes_(columns <= kFewColumns ? kLanes : 1),
        bits_(words_ * static_cast<std::size_t>(lanes_), 0),
        summary_(bitmap::words(static_cast<Index>(words_)), 0),
        sums_(bits_.size() * bitmap::kWordBits, T{0}) {}

  /// What to add to a column so that it lies in the copy for position p of A.
  Index lane(Offset p) const {
    return static_cast<Index>(p & (lanes_ - 1)) * static_cast<Index>(words_) * bitmap::kWordBits;
  }

  /// True where the bitmap is so short that the summary is not worth its while, nor kept for the copies.
  bool always_scans() const { return lanes_ > 1; }

  /// Adds factor * row k of B, marking each column.
  template <bool kSummary>
  void add_plain(const CsrView<T>& b, Index k, T factor, Index lane) {
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
      const Index j = b.col_idx[q] + lane;
      sums_[static_cast<std::size_t>(j)] += factor * b.values[q];
      mark<kSummary>(j);
    }
  }

  /// Adds factor * row k of B, marking nothing.
  void add_unmarked(const CsrView<T>& b, Index k, T factor, Index lane) {
    T* sums = sums_.data() + lane;
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) sums[b.col_idx[q]] += factor * b.values[q];
  }

  /// Marks the columns of row k of B a word at a time.
  template <bool kSummary>
  void mark_words(const ColumnMasks& masks, Index k, Index lane) {
    const auto row = static_cast<std::size_t>(k);
    const std::size_t first_word = bitmap::word_of(lane);
    for (Offset s = masks.row_ptr[row]; s < masks.row_ptr[row + 1]; ++s) {
      const auto word = static_cast<std::size_t>(masks.position[static_cast<std::size_t>(s)]);
      bits_[first_word + word] |= masks.mask[static_cast<std::size_t>(s)];
      if constexpr (kSummary) summary_[word / 64] |= Word{1} << (word % 64);
    }
  }

  /// Adds `count` products that were written out before.
  template <bool kSummary>
  void add_batch(const Index* columns, const T* products, Offset count) {
    for (Offset t = 0; t < count; ++t) {
      sums_[static_cast<std::size_t>(columns[t])] += products[t];
      mark<kSummary>(columns[t]);
    }
  }

  /// True if every column of the words [begin, end) is marked, in one copy or another.
  bool full(std::size_t begin, std::size_t end) const {
    for (std::size_t w = begin; w < end; ++w) {
      Word word = 0;
      for (std::size_t at = w; at < bits_.size(); at += words_) word |= bits_[at];
      if (word != ~Word{0}) return false;
    }
    return true;
  }

  /// Moves the row out, in ascending order of columns, and clears it. Scans the words [begin, end).
  Offset take_scanning(std::size_t begin, std::size_t end, Index* columns, T* values) {
    if (lanes_ > 1) join_lanes(begin, end);
    Index* next = columns;
    std::size_t w = begin;
    for (; w + 8 <= end; w += 8) {
      Word any = 0;
      for (std::size_t u = 0; u < 8; ++u) any |= bits_[w + u];
      if (any == 0) continue;
      for (std::size_t u = 0; u < 8; ++u) next = list_word(w + u, next);
    }
    for (; w < end; ++w) next = list_word(w, next);
    return take_values(columns, next - columns, values);
  }

  /// The same where the summary was kept: reads the words that it names.
  Offset take_by_summary(std::size_t begin, std::size_t end, Index* columns, T* values) {
    Index* next = columns;
    for (std::size_t s = begin / 64; s <= (end - 1) / 64; ++s) {
      bitmap::for_each_bit(summary_[s], s,
                           [&](Index word) { next = list_word(static_cast<std::size_t>(word), next); });
      summary_[s] = 0;
    }
    return take_values(columns, next - columns, values);
  }

 private:
  template <bool kSummary>
  void mark(Index j) {
    const std::size_t word = bitmap::word_of(j);
    bits_[word] |= bitmap::bit_of(j);
    if constexpr (kSummary) summary_[word / 64] |= Word{1} << (word % 64);
  }

  /// Writes the columns of word w to `out` and clears it. Bits are taken eight at a time, whether they are
  /// there or not, because how many there are cannot be predicted: up to kSlack places of `out` are
  /// overwritten.
  Index* list_word(std::size_t w, Index* out) {
    Word word = bits_[w];
    bits_[w] = 0;
    const Index base = static_cast<Index>(w) * bitmap::kWordBits;
    const int count = std::popcount(word);
    if (count == bitmap::kWordBits) {
      for (Index bit = 0; bit < bitmap::kWordBits; ++bit) out[bit] = base + bit;
      return out + count;
    }
    for (int done = 0; done < count; done += 8) {
      for (int u = 0; u < 8; ++u) {
        // The highest bit keeps the argument from being zero, which the compiler would branch on.
        out[done + u] = base + std::countr_zero(word | (Word{1} << 63));
        word &= word - 1;
      }
    }
    return out + count;
  }

  /// Adds up the copies into the first.
  void join_lanes(std::size_t begin, std::size_t end) {
    for (Offset lane = 1; lane < lanes_; ++lane) {
      const std::size_t other = static_cast<std::size_t>(lane) * words_;
      for (std::size_t w = begin; w < end; ++w) bits_[w] |= std::exchange(bits_[other + w], 0);
      T* to = sums_.data() + begin * bitmap::kWordBits;
      T* from = sums_.data() + (other + begin) * bitmap::kWordBits;
      for (std::size_t j = 0; j < (end - begin) * bitmap::kWordBits; ++j) {
        to[j] += from[j];
        from[j] = T{0};
      }
    }
  }

  Offset take_values(const Index* columns, Offset count, T* values) {
    T* sums = sums_.data();
    for (Offset t = 0; t < count; ++t) {
      values[t] = sums[columns[t]];
      sums[columns[t]] = T{0};
    }
    return count;
  }

  std::size_t words_;  // of one copy
  Offset lanes_;       // copies, a power of two
  Buffer<Word> bits_;
  Buffer<Word> summary_;
  Buffer<T> sums_;
};

/// A row of few products: each is inserted into the sorted row, or added to the entry that is there.
template <class T>
Offset insert_row(const CsrView<T>& a, const CsrView<T>& b, Index i, Index* columns, T* values) {
  Offset count = 0;
  for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
    const Index k = a.col_idx[p];
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
      const Index j = b.col_idx[q];
      const T product = a.values[p] * b.values[q];
      Offset at = count;
      while (at > 0 && columns[at - 1] >= j) --at;
      if (at < count && columns[at] == j) {
        values[at] += product;
        continue;
      }
      for (Offset t = count++; t > at; --t) {
        columns[t] = columns[t - 1];
        values[t] = values[t - 1];
      }
      columns[at] = j;
      values[at] = product;
    }
  }
  return count;
}

/// What decides how rows of B are added. A rank that multiplies a part of A, or by a part of B, gives the
/// numbers of the whole product, so that it rounds as one process that multiplies everything would.
struct ProductScale {
  Offset products = 0;
  Offset nnz_a = 0;
};

/// Rows of C = A B, one after the other. Holds what a row needs while it is made, for B with `columns`
/// columns.
template <class T>
class SpgemmRows {
 public:
  explicit SpgemmRows(Index columns) : row_(columns) {}

  /// Reserves C at its bound and chooses how rows of B are added; by the numbers of `whole` where it is
  /// given.
  void reserve(const CsrView<T>& a, const CsrView<T>& b, Csr<T>& c, const ProductScale* whole = nullptr) {
    Offset bound = 0, products = 0;
    for (Index i = 0; i < a.rows; ++i) {
      Offset row = 0;
      for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
        row += b.row_ptr[a.col_idx[p] + 1] - b.row_ptr[a.col_idx[p]];
      }
      products += row;
      bound += std::min(row, Offset{b.cols});
    }
    c.rows = a.rows;
    c.cols = b.cols;
    c.row_ptr.resize(static_cast<std::size_t>(a.rows) + 1);
    c.col_idx.resize(static_cast<std::size_t>(bound + kSlack));
    c.values.resize(static_cast<std::size_t>(bound));
    const bool batched = whole != nullptr ? whole->products <= kShortRow * whole->nnz_a
                                          : products <= kShortRow * a.row_ptr[a.rows];
    adding_ = batched ? Adding::batched : choose_marking(b, products);
  }

  /// Fills the C that reserve() has sized for the same A and B, and cuts it to its length.
  void fill(const CsrView<T>& a, const CsrView<T>& b, Csr<T>& c) {
    Offset at = 0;
    c.row_ptr[0] = 0;
    for (Index i = 0; i < a.rows; ++i) {
      at += make_row(a, b, i, c.col_idx.data() + at, c.values.data() + at);
      c.row_ptr[static_cast<std::size_t>(i) + 1] = at;
    }
    c.col_idx.resize(static_cast<std::size_t>(at));
    c.values.resize(static_cast<std::size_t>(at));
  }

 private:
  Adding choose_marking(const CsrView<T>& b, Offset products) {
    const Offset nnz_b = b.row_ptr[b.rows];
    // Rewriting B costs a few steps an entry, so each entry must be used a few times; and a mask costs as
    // much as one and a half columns.
    if (products < 4 * nnz_b) return Adding::plain;
    build_masks(b, masks_);
    return 3 * masks_.row_ptr.back() < 2 * nnz_b ? Adding::masked : Adding::plain;
  }

  Offset make_row(const CsrView<T>& a, const CsrView<T>& b, Index i, Index* columns, T* values) {
    const RowFacts facts = look_at_row(a, b, i);
    if (facts.products == 0) return 0;
    if (facts.products <= kTinyProducts) return insert_row(a, b, i, columns, values);
    if (row_.always_scans() ||
        facts.word_end - facts.word_begin <= 8 * static_cast<std::size_t>(facts.products)) {
      add_rows<false>(a, b, i, facts);
      return row_.take_scanning(facts.word_begin, facts.word_end, columns, values);
    }
    add_rows<true>(a, b, i, facts);
    return row_.take_by_summary(facts.word_begin, facts.word_end, columns, values);
  }

  template <bool kSummary>
  void add_rows(const CsrView<T>& a, const CsrView<T>& b, Index i, const RowFacts& facts) {
    if (adding_ == Adding::batched) return add_batched<kSummary>(a, b, i);
    const Offset width = static_cast<Offset>(facts.word_end - facts.word_begin) * bitmap::kWordBits;
    Offset until_check = 4 * width;  // by then a row that will be full is likely to be
    Offset p = a.row_ptr[i];
    for (; p < a.row_ptr[i + 1]; ++p) {
      const Index k = a.col_idx[p];
      if (adding_ == Adding::masked) {
        row_.add_unmarked(b, k, a.values[p], row_.lane(p - a.row_ptr[i]));
        row_.template mark_words<kSummary>(masks_, k, row_.lane(p - a.row_ptr[i]));
      } else {
        row_.template add_plain<kSummary>(b, k, a.values[p], row_.lane(p - a.row_ptr[i]));
      }
      until_check -= b.row_ptr[k + 1] - b.row_ptr[k];
      if (until_check > 0) continue;
      if (row_.full(facts.word_begin, facts.word_end)) break;
      until_check = 4 * width;
    }
    for (++p; p < a.row_ptr[i + 1]; ++p)
      row_.add_unmarked(b, a.col_idx[p], a.values[p], row_.lane(p - a.row_ptr[i]));
  }

  template <bool kSummary>
  void add_batched(const CsrView<T>& a, const CsrView<T>& b, Index i) {
    const Offset last_block = b.row_ptr[b.rows] - kBlock;
    Offset count = 0;
    const auto add_batch = [&] {
      row_.template add_batch<kSummary>(batch_columns_.data(), batch_products_.data(), count);
      count = 0;
    };
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
      const Index k = a.col_idx[p];
      const Offset first = b.row_ptr[k], last = b.row_ptr[k + 1];
      if (count + (last - first) > kBatch) add_batch();
      if (last - first > kBatch) {
        add_batch();
        row_.template add_plain<kSummary>(b, k, a.values[p], row_.lane(p - a.row_ptr[i]));
        continue;
      }
      if (last > last_block) {  // a block would read past B's arrays
        for (Offset q = first; q < last; ++q, ++count) {
          batch_columns_[static_cast<std::size_t>(count)] = b.col_idx[q] + row_.lane(p - a.row_ptr[i]);
          batch_products_[static_cast<std::size_t>(count)] = a.values[p] * b.values[q];
        }
        continue;
      }
      for (Offset q = first, to = count; q < last; q += kBlock, to += kBlock) {
        write_block(b.col_idx + q, b.values + q, a.values[p], row_.lane(p - a.row_ptr[i]),
                    static_cast<std::size_t>(to));
      }
      count += last - first;
    }
    add_batch();
  }

  void write_block(const Index* columns, const T* values, T factor, Index lane, std::size_t to) {
    std::array<Index, kBlock> places;
    for (std::size_t u = 0; u < kBlock; ++u) places[u] = columns[u] + lane;
    std::memcpy(batch_columns_.data() + to, places.data(), sizeof(places));
    std::array<T, kBlock> products;
    for (std::size_t u = 0; u < kBlock; ++u) products[u] = factor * values[u];
    std::memcpy(batch_products_.data() + to, products.data(), sizeof(products));
  }

  Accumulator<T> row_;
  ColumnMasks masks_;
  Adding adding_ = Adding::plain;
  std::array<Index, kBatch + kBlock> batch_columns_;
  std::array<T, kBatch + kBlock> batch_products_;
};

/// Bytes that a SpgemmRows holds for this B, beside A, B and C.
template <class T>
double spgemm_rows_bytes(const Csr<T>& b) {
  return b.cols * (sizeof(T) + 1.0 / 8) + static_cast<double>(b.nnz()) * (sizeof(Word) + sizeof(Index)) +
         8.0 * b.rows;
}

}  // namespace stages::kernels
