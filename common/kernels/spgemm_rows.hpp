// Gustavson's algorithm in one pass, with a choice for every row.
//
// The plain form (6_gustavson_dense.cpp of step 1) lets C's arrays grow and, for each row, scans a bitmap as
// long as the row is wide. Here every cost is matched to the row at hand:
//
//   Reserved. C never has more non-zeros than sum(min(products of the row, columns)), so C's arrays are
//   reserved at that size and written front to back. The operating system hands out memory by the page, at
//   the first write: what is reserved and never reached costs address space only, whereas counting first
//   costs a pass over all products (01_cpu_serial/measured.md has what each of these was worth).
//
//   A row of C with at most kTinyProducts products: they are inserted in order, without any accumulator.
//
//   Any other: the sums go to a dense accumulator and the columns to a bitmap, as before. Where the columns
//   lie close together, or the products are many, the words of the bitmap are scanned, eight at a time. Where
//   they are scattered over a wide matrix, a second bitmap with a bit for each word of the first says which
//   words to read.
//
//   Few columns (at most kNarrow) and many products: the columns are noted in bytes, which only have to be
//   stored, and the bytes become the bitmap at the end of the row.
//
//   A short row of B (at most kShortRow non-zeros): a loop over it ends after a few steps that nobody can
//   predict, and the mispredicted branch costs more than the products; besides, the sums that are stored keep
//   the processor from running ahead to the next row. So short rows are first copied, in blocks of eight
//   whatever their length, into a batch, and one long loop adds the batch up.
//
//   A row of B with several columns in each word of the bitmap (meshes, web pages): it is rewritten, once for
//   the whole product, as pairs (word number, mask), and one OR marks many columns.
//
//   Where B is larger than the second-level cache, its rows come late. So the rows that A names kAhead
//   non-zeros further on are asked for ahead of time.
//
// The terms of an element of C are added in the order of A's row, each by multiply_add, whichever way its row
// goes. So an element has the same bits in a product of the whole and in one of some rows, or columns.
//
// Input: any CSR matrices. Cost: one step a product; memory: C's bound, and columns x (sizeof(T) + 1/8)
// bytes, and up to 12 bytes a non-zero of B.
//
// One file, though long: the choices share one accumulator, and the compiler inlines them into one loop over
// rows.
//
// Sources: the dense accumulator is Gustavson's (ACM TOMS 4, 1978) and Gilbert, Moler and Schreiber's (SIAM
// J. Matrix Anal. Appl. 13, 1992); the compression of B into masks follows Deveci, Trott and Rajamanickam
// ("Multithreaded sparse matrix-matrix multiplication for many-core and GPU architectures", 2018).
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>

#include "common/kernels/bitmap.hpp"
#include "common/kernels/multiply_add.hpp"
#include "common/matrix/types.hpp"

namespace stages::kernels {

using bitmap::Word;

inline constexpr Offset kTinyProducts = 10;
inline constexpr Offset kShortRow = 64;
inline constexpr Offset kBlock = 8;     ///< non-zeros of B that are copied at once
inline constexpr Offset kBatch = 1024;  ///< products; 20 KB of them stay in the first-level cache
inline constexpr Offset kAhead = 32;    ///< non-zeros of A between fetching a row of B and adding it
inline constexpr Offset kSlack = 64;    ///< places of col_idx that listing a word may overshoot by

/// A row whose columns lie within kReadOut words of the bitmap a product is read out by scanning them. One
/// with a product for each kScanned words of the whole bitmap is not even asked where its columns lie.
inline constexpr std::size_t kReadOut = 8;
inline constexpr std::size_t kScanned = 2;

/// Up to so many columns, a row with a product for every eight of them is marked in bytes.
inline constexpr Index kNarrow = 1024;

/// How a row notes its columns while it is added up: a bit each; a bit each, and one for each word of those;
/// or a byte each, which is a store where a bit is a load, an OR and a store, but takes as long to read out
/// as there are columns.
enum class Marking { bits, bits_and_summary, bytes };

/// The columns of B as words of a bitmap: row k has the words position[s], mask[s] with
/// row_ptr[k] <= s < row_ptr[k + 1].
struct ColumnMasks {
  Buffer<Offset> row_ptr;
  Buffer<Index> position;
  Buffer<Word> mask;

  bool has_row(Index k) const {
    const auto row = static_cast<std::size_t>(k);
    return row_ptr[row] < row_ptr[row + 1];
  }
};

/// Writes sorted columns as words of a bitmap. Returns how many words.
inline Offset mask_row(std::span<const Index> columns, Index* position, Word* mask) {
  Offset count = 0;
  for (const Index j : columns) {
    const auto word = static_cast<Index>(bitmap::word_of(j));
    if (count == 0 || position[count - 1] != word) {
      position[count] = word;
      mask[count++] = 0;
    }
    mask[count - 1] |= bitmap::bit_of(j);
  }
  return count;
}

/// Whether to mark the columns of a row by its masks. One costs as much as one and a half columns marked
/// singly, or as five where the row is short enough for the batch; bytes in a batch are cheaper still.
inline bool masks_pay(Offset columns, Offset masks, bool narrow) {
  if (columns > kShortRow) return 3 * masks <= 2 * columns;
  return !narrow && 5 * masks <= columns;
}

/// Whether masks would serve a good part of B, by a sample of its rows. Where they do not, making them and
/// asking for them costs more than they save.
template <class T>
bool masks_serve(const CsrView<T>& b) {
  constexpr Index kEvery = 16;
  Offset sampled = 0, served = 0;
  for (Index sample = 0; sample < b.rows / kEvery; ++sample) {
    const Offset first = b.row_ptr[sample * kEvery], last = b.row_ptr[sample * kEvery + 1];
    Offset masks = first < last;
    for (Offset q = first + 1; q < last; ++q)
      masks += bitmap::word_of(b.col_idx[q]) != bitmap::word_of(b.col_idx[q - 1]);
    sampled += last - first;
    if (masks_pay(last - first, masks, b.cols <= kNarrow)) served += last - first;
  }
  return 16 * served > sampled;
}

/// Makes the masks of those rows of B where they pay; the others have none.
template <class T, class Ptr>
void build_masks(const CsrView<T, Ptr>& b, ColumnMasks& masks) {
  const auto rows = static_cast<std::size_t>(b.rows), nnz = static_cast<std::size_t>(b.row_ptr[b.rows]);
  masks.row_ptr.resize(rows + 1);
  masks.position.resize(nnz);
  masks.mask.resize(nnz);
  Offset count = 0;
  masks.row_ptr[0] = 0;
  for (std::size_t k = 0; k < rows; ++k) {
    const std::span<const Index> columns(b.col_idx + b.row_ptr[k], b.col_idx + b.row_ptr[k + 1]);
    const Offset made = mask_row(columns, masks.position.data() + count, masks.mask.data() + count);
    if (masks_pay(std::ssize(columns), made, b.cols <= kNarrow)) count += made;
    masks.row_ptr[k + 1] = count;
  }
}

/// What a row of C is made of, before it is made.
struct RowFacts {
  Offset products = 0;         ///< at least so many
  std::size_t word_begin = 0;  ///< words of the bitmap that the row may touch
  std::size_t word_end = 0;
  Marking marking = Marking::bits;
};

/// Looks at the rows of B that row i of C adds up, at both ends of each, and chooses how to mark. It stops as
/// soon as it has seen enough products for marking in bytes or for scanning the whole bitmap, because looking
/// costs memory accesses.
template <class T, class Ptr>
RowFacts look_at_row(const CsrView<T>& a, const CsrView<T, Ptr>& b, Index i) {
  const std::size_t words = bitmap::words(b.cols);
  const bool narrow = b.cols <= kNarrow;
  const Offset enough =
      std::max(static_cast<Offset>(narrow ? words * 8 : words / kScanned), kTinyProducts + 1);
  Offset products = 0;
  Index low = std::numeric_limits<Index>::max(), high = -1;
  for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
    const Offset first = b.row_ptr[a.col_idx[p]], last = b.row_ptr[a.col_idx[p] + 1];
    if (first == last) continue;
    products += last - first;
    if (products >= enough) return {products, 0, words, narrow ? Marking::bytes : Marking::bits};
    low = std::min(low, b.col_idx[first]);
    high = std::max(high, b.col_idx[last - 1]);
  }
  if (products == 0) return {};
  const std::size_t begin = bitmap::word_of(low), end = bitmap::word_of(high) + 1;
  const bool scattered = end - begin > kReadOut * static_cast<std::size_t>(products);
  return {products, begin, end, scattered ? Marking::bits_and_summary : Marking::bits};
}

/// No less than nnz(C). Adds up the rows' products, unless C would be mostly full anyway.
template <class T>
Offset result_bound(const CsrView<T>& a, const CsrView<T>& b) {
  const Offset elements = Offset{a.rows} * b.cols;
  if (elements <= a.row_ptr[a.rows]) return elements;
  Offset bound = 0;
  for (Index i = 0; i < a.rows; ++i) {
    Offset row = 0;
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p)
      row += b.row_ptr[a.col_idx[p] + 1] - b.row_ptr[a.col_idx[p]];
    bound += std::min(row, Offset{b.cols});
  }
  return bound;
}

/// The number of products, from a sample of A's non-zeros.
template <class T>
Offset about_products(const CsrView<T>& a, const CsrView<T>& b) {
  constexpr Offset kEvery = 16;
  Offset sampled = 0;
  for (Offset p = 0; p < a.row_ptr[a.rows]; p += kEvery)
    sampled += b.row_ptr[a.col_idx[p] + 1] - b.row_ptr[a.col_idx[p]];
  return kEvery * sampled;
}

/// The accumulator of a row: sums, their bitmap, the bitmap of its words, and where the columns are few a
/// byte for each. All zero between rows.
template <class T>
class Accumulator {
 public:
  explicit Accumulator(Index columns)
      : bits_(bitmap::words(columns), 0),
        summary_(bitmap::words(static_cast<Index>(bits_.size())), 0),
        sums_(static_cast<std::size_t>(columns), T{0}),
        bytes_(columns <= kNarrow ? bits_.size() * bitmap::kWordBits : 0, 0) {}

  /// Adds factor * row k of B, marking each column.
  template <Marking kMarking, class Ptr>
  void add_plain(const CsrView<T, Ptr> b, Index k, T factor) {
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
      const Index j = b.col_idx[q];
      T& sum = sums_[static_cast<std::size_t>(j)];
      sum = multiply_add(factor, b.values[q], sum);
      mark<kMarking>(j);
    }
  }

  /// The same for a row with masks: marks a word of columns at a time.
  template <Marking kMarking, class Ptr>
  void add_masked(const CsrView<T, Ptr> b, const ColumnMasks& masks, Index k, T factor) {
    T* sums = sums_.data();
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q)
      sums[b.col_idx[q]] = multiply_add(factor, b.values[q], sums[b.col_idx[q]]);
    const auto row = static_cast<std::size_t>(k);
    for (Offset s = masks.row_ptr[row]; s < masks.row_ptr[row + 1]; ++s) {
      const auto word = static_cast<std::size_t>(masks.position[static_cast<std::size_t>(s)]);
      bits_[word] |= masks.mask[static_cast<std::size_t>(s)];
      if constexpr (kMarking == Marking::bits_and_summary) summary_[word / 64] |= Word{1} << (word % 64);
    }
  }

  /// Adds `count` products that were written out before.
  template <Marking kMarking>
  void add_batch(const Index* columns, const T* factors, const T* values, Offset count) {
    for (Offset t = 0; t < count; ++t) {
      T& sum = sums_[static_cast<std::size_t>(columns[t])];
      sum = multiply_add(factors[t], values[t], sum);
      mark<kMarking>(columns[t]);
    }
  }

  /// Moves the row out, in ascending order of columns, and clears it. Returns its length.
  Offset take(const RowFacts& facts, Index* columns, T* values) {
    if (facts.marking == Marking::bytes) bytes_to_bits();
    const Index* end = facts.marking == Marking::bits_and_summary
                           ? list_by_summary(facts.word_begin, facts.word_end, columns)
                           : list_scanning(facts.word_begin, facts.word_end, columns);
    T* sums = sums_.data();
    for (const Index* column = columns; column < end; ++column) {
      *values++ = sums[*column];
      sums[*column] = T{0};
    }
    return end - columns;
  }

 private:
  /// Lists the columns of the words [begin, end), skipping eight at a time where there are none.
  Index* list_scanning(std::size_t begin, std::size_t end, Index* next) {
    std::size_t w = begin;
    for (; w + 8 <= end; w += 8) {
      Word any = 0;
      for (std::size_t u = 0; u < 8; ++u) any |= bits_[w + u];
      if (any == 0) continue;
      for (std::size_t u = 0; u < 8; ++u) next = list_word(w + u, next);
    }
    for (; w < end; ++w) next = list_word(w, next);
    return next;
  }

  /// Lists the columns of the words that the summary names.
  Index* list_by_summary(std::size_t begin, std::size_t end, Index* next) {
    for (std::size_t s = begin / 64; s <= (end - 1) / 64; ++s) {
      bitmap::for_each_bit(summary_[s], s,
                           [&](Index word) { next = list_word(static_cast<std::size_t>(word), next); });
      summary_[s] = 0;
    }
    return next;
  }

  template <Marking kMarking>
  void mark(Index j) {
    if constexpr (kMarking == Marking::bytes) {
      bytes_[static_cast<std::size_t>(j)] = 1;
      return;
    }
    const std::size_t word = bitmap::word_of(j);
    bits_[word] |= bitmap::bit_of(j);
    if constexpr (kMarking == Marking::bits_and_summary) summary_[word / 64] |= Word{1} << (word % 64);
  }

  /// Writes the columns of word w to `out` and clears it. Bits are taken eight at a time, whether they are
  /// there or not, as their number cannot be predicted: up to kSlack places of `out` are overwritten.
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

  /// Eight bytes, each 0 or 1, become eight bits by one multiplication, which moves them next to each other.
  void bytes_to_bits() {
    for (std::size_t at = 0; at < bytes_.size(); at += 8) {
      Word bytes = 0;
      std::memcpy(&bytes, bytes_.data() + at, 8);
      bits_[at / 64] |= (bytes * 0x0102040810204080u >> 56) << at % 64;
    }
    std::fill(bytes_.begin(), bytes_.end(), std::uint8_t{0});
  }

  Buffer<Word> bits_;
  Buffer<Word> summary_;
  Buffer<T> sums_;
  Buffer<std::uint8_t> bytes_;
};

/// A row of few products: each is inserted into the sorted row, or added to the non-zero that is there.
template <class T, class Ptr>
Offset insert_row(const CsrView<T>& a, const CsrView<T, Ptr>& b, Index i, Index* columns, T* values) {
  Offset count = 0;
  for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
    const Index k = a.col_idx[p];
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
      const Index j = b.col_idx[q];
      Offset at = count;
      while (at > 0 && columns[at - 1] >= j) --at;
      if (at < count && columns[at] == j) {
        values[at] = multiply_add(a.values[p], b.values[q], values[at]);
        continue;
      }
      for (Offset t = count++; t > at; --t) {
        columns[t] = columns[t - 1];
        values[t] = values[t - 1];
      }
      columns[at] = j;
      values[at] = multiply_add(a.values[p], b.values[q], T{0});
    }
  }
  return count;
}

/// Rows of C = A B, one after the other. Holds what a row needs while it is made; B has `columns` columns.
template <class T>
class SpgemmRows {
 public:
  explicit SpgemmRows(Index columns) : row_(columns) {}

  /// Reserves C at its bound and prepares B: narrows its row pointers, which are looked up for every non-zero
  /// of A and so compete for the cache with B itself, and makes masks where they pay.
  void reserve(const CsrView<T>& a, const CsrView<T>& b, Csr<T>& c) {
    const Offset bound = result_bound(a, b);
    c.rows = a.rows;
    c.cols = b.cols;
    c.row_ptr.resize(static_cast<std::size_t>(a.rows) + 1);
    c.col_idx.resize(static_cast<std::size_t>(bound + kSlack));
    c.values.resize(static_cast<std::size_t>(bound));
    const Offset nnz_b = b.row_ptr[b.rows];
    narrow_.clear();
    if (nnz_b <= std::numeric_limits<Index>::max() && b.rows <= a.row_ptr[a.rows]) {
      narrow_.resize(static_cast<std::size_t>(b.rows) + 1);
      for (Index k = 0; k <= b.rows; ++k)
        narrow_[static_cast<std::size_t>(k)] = static_cast<Index>(b.row_ptr[k]);
    }
    // Rewriting B costs a few steps a non-zero, so each must be used a few times.
    masked_ = about_products(a, b) >= 8 * nnz_b && masks_serve(b);
    if (masked_) build_masks(b, masks_);
  }

  /// Fills the C that reserve() has sized for the same A and B, and cuts it to its length.
  void fill(const CsrView<T>& a, const CsrView<T>& b, Csr<T>& c) {
    if (narrow_.empty()) {
      fill_rows(a, b, c);
    } else {
      fill_rows(a, CsrView<T, Index>{b.rows, b.cols, narrow_.data(), b.col_idx, b.values}, c);
    }
  }

 private:
  template <class Ptr>
  void fill_rows(const CsrView<T>& a, const CsrView<T, Ptr>& b, Csr<T>& c) {
    Offset at = 0;
    c.row_ptr[0] = 0;
    for (Index i = 0; i < a.rows; ++i) {
      at += make_row(a, b, i, c.col_idx.data() + at, c.values.data() + at);
      c.row_ptr[static_cast<std::size_t>(i) + 1] = at;
    }
    c.col_idx.resize(static_cast<std::size_t>(at));
    c.values.resize(static_cast<std::size_t>(at));
  }

  template <class Ptr>
  Offset make_row(const CsrView<T>& a, const CsrView<T, Ptr>& b, Index i, Index* columns, T* values) {
    const RowFacts facts = look_at_row(a, b, i);
    if (facts.products == 0) return 0;
    if (facts.products <= kTinyProducts) return insert_row(a, b, i, columns, values);
    switch (facts.marking) {
      case Marking::bits: add_rows<Marking::bits>(a, b, i); break;
      case Marking::bits_and_summary: add_rows<Marking::bits_and_summary>(a, b, i); break;
      case Marking::bytes: add_rows<Marking::bytes>(a, b, i); break;
    }
    return row_.take(facts, columns, values);
  }

  /// Adds the rows of B that row i of C is made of, in the order of A's row.
  template <Marking kMarking, class Ptr>
  void add_rows(const CsrView<T> a, const CsrView<T, Ptr> b, Index i) {
    const Offset last_block = b.row_ptr[b.rows] - kBlock;
    const Offset nnz_a = a.row_ptr[a.rows];
    Offset count = 0;
    const auto add_batch = [&] {
      row_.template add_batch<kMarking>(batch_columns_.data(), batch_factors_.data(), batch_values_.data(),
                                        count);
      count = 0;
    };
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
      const Index k = a.col_idx[p];
      const Offset first = b.row_ptr[k], last = b.row_ptr[k + 1];
      if (p + kAhead < nnz_a) fetch(b, a.col_idx[p + kAhead]);
      const bool masked = masked_ && masks_.has_row(k);
      // A block would read past B's arrays beyond last_block.
      if (masked || last - first > kShortRow || last > last_block) {
        add_batch();
        masked ? row_.template add_masked<kMarking>(b, masks_, k, a.values[p])
               : row_.template add_plain<kMarking>(b, k, a.values[p]);
        continue;
      }
      if (count + (last - first) > kBatch) add_batch();
      for (Offset q = first, to = count; q < last; q += kBlock, to += kBlock)
        write_block(b.col_idx + q, b.values + q, a.values[p], static_cast<std::size_t>(to));
      count += last - first;
    }
    add_batch();
  }

  /// Starts to load row k of B: the lines that most short rows have.
  template <class Ptr>
  static void fetch(const CsrView<T, Ptr>& b, Index k) {
    const Ptr first = b.row_ptr[k];
    __builtin_prefetch(b.col_idx + first);
    __builtin_prefetch(b.values + first);
    __builtin_prefetch(b.values + first + 8);
  }

  void write_block(const Index* columns, const T* values, T factor, std::size_t to) {
    std::array<T, kBlock> factors;
    factors.fill(factor);
    std::memcpy(batch_columns_.data() + to, columns, kBlock * sizeof(Index));
    std::memcpy(batch_factors_.data() + to, factors.data(), sizeof(factors));
    std::memcpy(batch_values_.data() + to, values, kBlock * sizeof(T));
  }

  Accumulator<T> row_;
  ColumnMasks masks_;
  Buffer<Index> narrow_;  // B's row pointers; empty: not used
  bool masked_ = false;
  std::array<Index, kBatch + kBlock> batch_columns_;
  std::array<T, kBatch + kBlock> batch_factors_;
  std::array<T, kBatch + kBlock> batch_values_;
};

/// Bytes that a SpgemmRows holds for this B, beside A, B and C.
template <class T>
double spgemm_rows_bytes(const Csr<T>& b) {
  return b.cols * (sizeof(T) + 1.0 / 8) + static_cast<double>(b.nnz()) * (sizeof(Word) + sizeof(Index)) +
         12.0 * b.rows;
}

}  // namespace stages::kernels
