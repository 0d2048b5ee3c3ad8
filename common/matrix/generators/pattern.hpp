#pragma once
// From a rule to a canonical pattern, in linear memory and on any number of threads. Two kinds of rule:
//
//   draws  entry k of `count` is a pure function of k and may land anywhere, several may land at one place
//          (random graphs). Two passes over k: the first counts each row's entries, the second puts the
//          columns into their rows; then each row is sorted and repeats fall out. Computing each entry twice
//          costs less than storing it once: 4 bytes per entry of memory instead of 12.
//   rows   row i tells its columns in ascending order (stencils, bands). Also asked twice, to count and to
//          store.
//
// Threads put a row's columns down in any order; sorting makes the result the same.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "common/matrix/parallel.hpp"
#include "common/matrix/types.hpp"

namespace stages::recipes {

/// A canonical Csr without its values.
struct Pattern {
  Index rows = 0, cols = 0;
  Buffer<Offset> row_ptr;
  Buffer<Index> col_idx;
};

/// Where an entry lies.
struct Place {
  Index row, col;
};
template <class Row, class Col>
Place place_at(Row row, Col col) {
  return {static_cast<Index>(row), static_cast<Index>(col)};
}

inline constexpr Offset kDrawsPerBlock = 1 << 15;
inline constexpr Offset kRowsPerBlock = 1 << 8;

/// Sorts columns[0 .. count) and drops repeats; returns how many are left. `bits` is scratch, all zero before
/// and after. Rows that fill at least 1/64 of their width are sorted by a bitmap: linear time, where
/// std::sort took most of a dense twin's time.
inline Offset sort_unique(Index* columns, Offset count, Index cols, std::vector<std::uint64_t>& bits) {
  if (count < cols / 64) {
    std::sort(columns, columns + count);
    return std::unique(columns, columns + count) - columns;
  }
  bits.resize((static_cast<std::size_t>(cols) + 63) / 64);
  for (Offset k = 0; k < count; ++k) {
    const auto c = static_cast<std::uint32_t>(columns[k]);
    bits[c / 64] |= std::uint64_t{1} << (c % 64);
  }
  Index* out = columns;
  for (std::size_t w = 0; w < bits.size(); ++w) {
    for (std::uint64_t word = bits[w]; word != 0; word &= word - 1)
      *out++ = static_cast<Index>(w * 64) + std::countr_zero(word);
    bits[w] = 0;
  }
  return out - columns;
}

/// Sorts each row of `p` and drops repeats. If any were dropped, the rest is copied together.
inline void make_canonical(Pattern& p, int threads) {
  Buffer<Offset> new_ptr(p.row_ptr.size(), 0);
  std::vector<std::vector<std::uint64_t>> bits(static_cast<std::size_t>(thread_count(threads)));
  parallel_blocks(p.rows, kRowsPerBlock, threads, [&](int worker, Offset begin, Offset end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      new_ptr[i + 1] = sort_unique(p.col_idx.data() + p.row_ptr[i], p.row_ptr[i + 1] - p.row_ptr[i], p.cols,
                                   bits[static_cast<std::size_t>(worker)]);
    }
  });
  std::partial_sum(new_ptr.begin(), new_ptr.end(), new_ptr.begin());
  if (new_ptr.back() == p.row_ptr.back()) return;
  Buffer<Index> packed(static_cast<std::size_t>(new_ptr.back()));
  parallel_blocks(p.rows, kRowsPerBlock, threads, [&](int, Offset begin, Offset end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      std::copy_n(p.col_idx.data() + p.row_ptr[i], new_ptr[i + 1] - new_ptr[i], packed.data() + new_ptr[i]);
  });
  p.row_ptr = std::move(new_ptr);
  p.col_idx = std::move(packed);
}

/// The pattern of the entries draw(0) .. draw(count - 1), each a Place inside rows x cols.
template <class Draw>
Pattern pattern_from_draws(Index rows, Index cols, Offset count, int threads, const Draw& draw) {
  Pattern p{rows, cols, Buffer<Offset>(static_cast<std::size_t>(rows) + 1, 0), {}};
  parallel_blocks(count, kDrawsPerBlock, threads, [&](int, Offset begin, Offset end) {
    for (Offset k = begin; k < end; ++k) {
      std::atomic_ref length(p.row_ptr[static_cast<std::size_t>(draw(k).row) + 1]);
      length.fetch_add(1, std::memory_order_relaxed);
    }
  });
  std::partial_sum(p.row_ptr.begin(), p.row_ptr.end(), p.row_ptr.begin());
  p.col_idx.resize(static_cast<std::size_t>(count));
  {
    Buffer<Offset> free_place(p.row_ptr.begin(), p.row_ptr.end() - 1);
    parallel_blocks(count, kDrawsPerBlock, threads, [&](int, Offset begin, Offset end) {
      for (Offset k = begin; k < end; ++k) {
        const Place place = draw(k);
        std::atomic_ref next(free_place[static_cast<std::size_t>(place.row)]);
        p.col_idx[static_cast<std::size_t>(next.fetch_add(1, std::memory_order_relaxed))] = place.col;
      }
    });
  }
  make_canonical(p, threads);
  return p;
}

/// The pattern whose row i holds the columns that row(i, emit) passes to emit(column), in ascending order.
template <class Row>
Pattern pattern_from_rows(Index rows, Index cols, int threads, const Row& row) {
  Pattern p{rows, cols, Buffer<Offset>(static_cast<std::size_t>(rows) + 1, 0), {}};
  parallel_blocks(rows, kRowsPerBlock, threads, [&](int, Offset begin, Offset end) {
    for (Offset i = begin; i < end; ++i) {
      Offset length = 0;
      row(static_cast<Index>(i), [&](Index) { ++length; });
      p.row_ptr[static_cast<std::size_t>(i) + 1] = length;
    }
  });
  std::partial_sum(p.row_ptr.begin(), p.row_ptr.end(), p.row_ptr.begin());
  p.col_idx.resize(static_cast<std::size_t>(p.row_ptr.back()));
  parallel_blocks(rows, kRowsPerBlock, threads, [&](int, Offset begin, Offset end) {
    for (Offset i = begin; i < end; ++i) {
      Index* out = p.col_idx.data() + p.row_ptr[static_cast<std::size_t>(i)];
      row(static_cast<Index>(i), [&](Index column) { *out++ = column; });
    }
  });
  return p;
}

}  // namespace stages::recipes
