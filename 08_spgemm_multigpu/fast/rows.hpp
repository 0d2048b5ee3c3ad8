#pragma once
// How kernels walk along the products of a row of C: for each non-zero of A's row, over a row of B.

#include <utility>

#include "08_spgemm_multigpu/product.hpp"

namespace stages::spgemm {

/// A matrix without its values.
template <class Ptr>
struct Structure {
  Index rows = 0;
  Index cols = 0;
  const Ptr* row_ptr = nullptr;
  const Index* col_idx = nullptr;
};

template <class Ptr>
struct Structures {
  Structure<Ptr> a;
  Structure<Ptr> b;
};

template <class T, class Ptr>
struct Factors {
  CsrView<T, Ptr> a;
  CsrView<T, Ptr> b;

  STAGES_HD Structures<Ptr> structures() const {
    return {{a.rows, a.cols, a.row_ptr, a.col_idx}, {b.rows, b.cols, b.row_ptr, b.col_idx}};
  }
};

/// The rows of C that one kernel computes, in device memory.
struct RowList {
  const Index* rows = nullptr;
  Index count = 0;                        ///< where the host does not know it, an upper bound
  const Index* size_on_device = nullptr;  ///< and here it stands
  unsigned most_blocks = ~0u;             ///< with a block a row, no more are launched

  __device__ unsigned size() const {
    return static_cast<unsigned>(size_on_device == nullptr ? count : *size_on_device);
  }
  /// -1: there are no more.
  __device__ Index row(unsigned number) const { return number < size() ? rows[number] : -1; }
};

/// Columns begin .. end - 1.
struct Slice {
  Index begin = 0;
  Index end = 0;
};

/// The first position in [from, to) whose column is not below `column`; `to` if there is none.
template <class Ptr>
__device__ Ptr first_not_below(const Index* col_idx, Ptr from, Ptr to, Index column) {
  while (from < to) {
    const Ptr middle = from + (to - from) / 2;
    if (col_idx[middle] < column) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return from;
}

/// The same where the position is expected to be near `from`: strides that double, then a search in the last.
template <class Ptr>
__device__ Ptr first_not_below_near(const Index* col_idx, Ptr from, Ptr to, Index column) {
  Ptr probe = from;
  for (Ptr stride = 1; probe < to && col_idx[probe] < column; stride *= 2) {
    from = probe + 1;
    probe += stride;
  }
  return first_not_below(col_idx, from, min(probe, to), column);
}

/// The part of a row of B that lies in a slice.
template <class Ptr>
struct Piece {
  Ptr from = 0;
  Ptr to = 0;
};

/// Part `number` of `count` about equal ones of what lies between two positions.
template <class Ptr>
__device__ Piece<Ptr> part_of(Piece<Ptr> whole, unsigned number, unsigned count) {
  const Offset length = whole.to - whole.from;
  return {static_cast<Ptr>(whole.from + length * number / count),
          static_cast<Ptr>(whole.from + length * (number + 1) / count)};
}

/// What of a piece lies in a slice.
template <class Ptr>
__device__ Piece<Ptr> cut_to(const Structure<Ptr>& b, Piece<Ptr> piece, Slice slice) {
  if (slice.begin > 0) piece.from = first_not_below(b.col_idx, piece.from, piece.to, slice.begin);
  if (slice.end < b.cols) piece.to = first_not_below_near(b.col_idx, piece.from, piece.to, slice.end);
  return piece;
}

template <bool kWhole, class Ptr>
__device__ Piece<Ptr> piece_of(const Structure<Ptr>& b, Index row, Slice slice) {
  const Piece<Ptr> whole{b.row_ptr[row], b.row_ptr[row + 1]};
  return kWhole ? whole : cut_to(b, whole, slice);
}

/// Bits of the lanes up to and with this one. (Of lane 31: all, as 2 << 31 is 0.)
__device__ inline unsigned lanes_up_to(unsigned lane) { return (2u << lane) - 1u; }

/// Up to 32 non-zeros of a row of A, one a lane, and what each is multiplied with. Lanes beyond the last
/// non-zero hold an empty piece.
template <class T, class Ptr>
struct Factor {
  Piece<Ptr> piece;
  T scale = 0;
  int count = 0;  ///< of all lanes
};

template <bool kWhole, class T, class Ptr>
__device__ Factor<T, Ptr> factor_of(const Factors<T, Ptr>& f, Ptr first, Ptr end, Slice slice,
                                    unsigned lane) {
  Factor<T, Ptr> factor;
  if (const Ptr e = first + static_cast<Ptr>(lane); e < end) {
    factor.piece = piece_of<kWhole>(f.structures().b, f.a.col_idx[e], slice);
    factor.scale = f.a.values[e];
  }
  factor.count = static_cast<int>(min(end - first, static_cast<Ptr>(kWarp)));
  return factor;
}

/// One row of B after the other. What the next one holds for this lane comes while the present one is added.
template <class T, class Ptr, class Visit>
__device__ void visit_by_rows(const CsrView<T, Ptr>& b, const Factor<T, Ptr>& factor, unsigned lane,
                              Visit visit) {
  const bool has_long = __any_sync(kAllLanes, factor.piece.to - factor.piece.from > static_cast<Ptr>(kWarp));
  Ptr next_at = __shfl_sync(kAllLanes, factor.piece.from, 0) + static_cast<Ptr>(lane);
  Ptr next_to = __shfl_sync(kAllLanes, factor.piece.to, 0);
  Index next_column = next_at < next_to ? b.col_idx[next_at] : 0;
  T next_value = next_at < next_to ? b.values[next_at] : T{0};
  for (int s = 0; s < factor.count; ++s) {
    const Ptr at = next_at, to = next_to;
    const Index column = next_column;
    const T value = next_value, scale = __shfl_sync(kAllLanes, factor.scale, s);
    const int following = min(s + 1, static_cast<int>(kWarp) - 1);
    next_at = __shfl_sync(kAllLanes, factor.piece.from, following) + static_cast<Ptr>(lane);
    next_to = __shfl_sync(kAllLanes, factor.piece.to, following);
    next_column = next_at < next_to ? b.col_idx[next_at] : 0;
    next_value = next_at < next_to ? b.values[next_at] : T{0};
    if (at < to) visit(column, scale * value);
    if (has_long) {
      for (Ptr q = at + static_cast<Ptr>(kWarp); q < to; q += static_cast<Ptr>(kWarp)) {
        visit(b.col_idx[q], scale * b.values[q]);
      }
    }
    __syncwarp();
  }
}

/// The products of a warp's non-zeros as one sequence, from as many rows of B as that takes.
template <class Ptr>
struct Together {
  Ptr up_to_here = 0;  ///< products of the lanes up to and with this one
  Ptr place = 0;       ///< product q of the sequence, if it is this lane's non-zero's, stands there + q
  Ptr total = 0;

  /// The lane whose non-zero product q comes from.
  __device__ unsigned owner_of(Ptr q) const {
    unsigned owner = 0;
    for (unsigned step = kWarp / 2; step > 0; step /= 2) {
      if (__shfl_sync(kAllLanes, up_to_here, static_cast<int>(owner + step - 1)) <= q) owner += step;
    }
    return owner;
  }

  /// For each lane the product number q of its own. Beyond the last: a column below 0, another for each lane.
  template <class T>
  __device__ void fetch(const CsrView<T, Ptr>& b, const Factor<T, Ptr>& factor, Ptr q, unsigned lane,
                        Index& column, T& product) const {
    const unsigned owner = owner_of(q);
    const Ptr at = __shfl_sync(kAllLanes, place, static_cast<int>(owner)) + q;
    const T scale = __shfl_sync(kAllLanes, factor.scale, static_cast<int>(owner));
    column = q < total ? b.col_idx[at] : -1 - static_cast<Index>(lane);
    product = q < total ? scale * b.values[at] : T{0};
  }
};

template <class Ptr>
__device__ Together<Ptr> together(const Piece<Ptr>& piece, unsigned lane) {
  const Ptr up_to_here = sum_up_to(piece.to - piece.from, lane);
  return {up_to_here, piece.to - up_to_here, __shfl_sync(kAllLanes, up_to_here, static_cast<int>(kWarp - 1))};
}

/// Adds up the values of lanes with the same key, and calls visit(sum) in the first of them, if the key is not
/// below 0. All lanes come, those without a key with numbers below 0 that differ. `next` is the next lane with
/// the same key; in each round a lane adds the sum of its next one, and takes over whose next that is (pointer
/// jumping, J. C. Wyllie). Of five:
///
///   a      b      c    d   e      next: 1 2 3 4 -
///   ab     bc     cd   de  e            2 3 4 - -
///   abcd   bcde   cde  de  e            4 - - - -
///   abcde                               -
///
/// So the lanes alone decide the order.
template <class T, class Visit>
__device__ void sum_equals(Index key, T value, unsigned lane, Visit visit) {
  const unsigned equals = __match_any_sync(kAllLanes, key);
  int next = __ffs(static_cast<int>(equals & ~lanes_up_to(lane))) - 1;  // below 0: none
  while (__any_sync(kAllLanes, next >= 0)) {
    const int from = next < 0 ? static_cast<int>(lane) : next;
    const T more = __shfl_sync(kAllLanes, value, from);
    const int after = __shfl_sync(kAllLanes, next, from);
    if (next < 0) continue;  // it still answers the others
    value += more;
    next = after;
  }
  if (key >= 0 && (equals & lanes_below(lane)) == 0) visit(value);
  __syncwarp();
}

/// 32 products at a time. Those of lanes that hold the same column are added up before.
template <class T, class Ptr, class Visit>
__device__ void visit_together(const CsrView<T, Ptr>& b, const Factor<T, Ptr>& factor,
                               const Together<Ptr>& all, unsigned lane, Visit visit) {
  Index next_column = 0;
  T next_product = 0;
  all.fetch(b, factor, static_cast<Ptr>(lane), lane, next_column, next_product);
  for (Ptr first = 0; first < all.total; first += static_cast<Ptr>(kWarp)) {
    const Index column = next_column;
    const T product = next_product;
    const Ptr following = first + static_cast<Ptr>(kWarp);
    if (following < all.total)
      all.fetch(b, factor, following + static_cast<Ptr>(lane), lane, next_column, next_product);
    sum_equals(column, product, lane, [&](T sum) { visit(column, sum); });
  }
}

/// Calls visit(column, product) for the products of row `row` of C that lie in the slice (kWhole: for all of
/// them), with all lanes of a warp. Lanes that visit at the same time hold different columns, and between two
/// visits of one column the warp meets, so visit may add to a place of its column without atomics, and each
/// sum runs in the order of A's non-zeros.
template <bool kWhole, class T, class Ptr, class Visit>
__device__ void walk_products(const Factors<T, Ptr>& f, Index row, Slice slice, unsigned lane, Visit visit) {
  const Ptr end = f.a.row_ptr[row + 1];
  for (Ptr first = f.a.row_ptr[row]; first < end; first += static_cast<Ptr>(kWarp)) {
    visit_by_rows(f.b, factor_of<kWhole>(f, first, end, slice, lane), lane, visit);
  }
}

/// As walk_products() for non-zeros [begin, end) of A, all of one row, whose rows of B may be short, or of
/// which the slice may leave little, so that many lanes would idle if they came one after another: then
/// products of several are visited together, and those of one column among 32 are added up before: visit() gets
/// their sum, and the row decides the order. Such a step takes about half as many instructions again.
template <bool kWhole, class T, class Ptr, class Visit>
__device__ void walk_products_of(const Factors<T, Ptr>& f, Ptr begin, Ptr end, Slice slice, unsigned lane,
                                 Visit visit) {
  for (Ptr first = begin; first < end; first += static_cast<Ptr>(kWarp)) {
    const auto factor = factor_of<kWhole>(f, first, end, slice, lane);
    const Ptr products = factor.piece.to - factor.piece.from;
    const auto all = together(factor.piece, lane);
    const unsigned further = products > 0 ? static_cast<unsigned>(products - 1) / kWarp : 0;
    const unsigned steps_by_rows = static_cast<unsigned>(factor.count) + sum_over_warp(further);
    const auto steps_together = static_cast<unsigned>((all.total + Ptr{kWarp} - 1) / Ptr{kWarp});
    if (3 * steps_together < 2 * steps_by_rows) {
      visit_together(f.b, factor, all, lane, visit);
    } else {
      visit_by_rows(f.b, factor, lane, visit);
    }
  }
}

/// The same for a whole row of A.
template <bool kWhole, class T, class Ptr, class Visit>
__device__ void walk_short_products(const Factors<T, Ptr>& f, Index row, Slice slice, unsigned lane,
                                    Visit visit) {
  walk_products_of<kWhole>(f, f.a.row_ptr[row], f.a.row_ptr[row + 1], slice, lane, visit);
}

/// How many lanes should share a row of B of that mean length: kLeast to 32.
template <unsigned kLeast>
__device__ unsigned team_for(unsigned mean) {
  const unsigned team = mean >= 24   ? 32u
                        : mean >= 12 ? 16u
                        : mean >= 6  ? 8u
                        : mean >= 3  ? 4u
                        : mean >= 2  ? 2u
                                     : 1u;
  return max(team, kLeast);
}

/// Calls visit(piece, entries, team) for groups of non-zeros of row `row` of A, with all lanes of a warp: the
/// lane's piece, of those that piece_of_row(k) gives of the rows of B (an empty one beyond the last of the
/// non-zeros), and how many lanes should share a row of B. A warp of `warps` takes every warps-th group: of 32
/// non-zeros, or so few that all warps have some.
template <unsigned kLeastTeam, class Ptr, class PieceOf, class Visit>
__device__ void walk_groups(const Structure<Ptr>& a, Index row, unsigned warp, unsigned warps, unsigned lane,
                            PieceOf piece_of_row, Visit visit) {
  const Ptr begin = a.row_ptr[row], end = a.row_ptr[row + 1];
  const Ptr group = min((end - begin + static_cast<Ptr>(warps) - 1) / static_cast<Ptr>(warps), Ptr{kWarp});
  const Ptr step = static_cast<Ptr>(warps) * group;
  const auto piece_at = [&](Ptr first) {
    const Ptr e = first + static_cast<Ptr>(lane);
    return e < min(end, first + group) ? piece_of_row(a.col_idx[e]) : Piece<Ptr>{};
  };
  Piece<Ptr> next = piece_at(begin + static_cast<Ptr>(warp) * group);
  for (Ptr first = begin + static_cast<Ptr>(warp) * group; first < end; first += step) {
    const Piece<Ptr> piece = next;
    next = piece_at(first + step);
    const unsigned entries = static_cast<unsigned>(min(end - first, group));
    const Ptr columns = min(piece.to - piece.from, static_cast<Ptr>(kWarp));  // more need no larger team
    const unsigned total = sum_over_warp(static_cast<unsigned>(columns));
    visit(piece, entries, team_for<kLeastTeam>(total / entries));
  }
}

/// Calls visit(column) for the products of a row of C in the slice, in any order, several rows of B at once.
template <class Ptr, class Visit>
__device__ void walk_columns(const Structures<Ptr>& f, Index row, Slice slice, unsigned warp, unsigned warps,
                             unsigned lane, Visit visit) {
  walk_groups<4>(
      f.a, row, warp, warps, lane, [&](Index k) { return piece_of<false>(f.b, k, slice); },
      [&](const Piece<Ptr>& piece, unsigned entries, unsigned team) {
        for (unsigned s = 0; s < entries; s += kWarp / team) {
          const int source = static_cast<int>(s + lane / team);
          const Ptr to = __shfl_sync(kAllLanes, piece.to, source);
          Ptr q = __shfl_sync(kAllLanes, piece.from, source) + static_cast<Ptr>(lane % team);
          for (; q < to; q += static_cast<Ptr>(team)) visit(f.b.col_idx[q]);
        }
      });
}

/// Launches a kernel that may want much dynamic shared memory; what every kernel may have is not asked for.
template <class... P, class... Args>
void launch_with_memory(void (*kernel)(P...), const LaunchConfig& config, Args&&... args) {
  constexpr std::size_t kAlways = 40 * 1024;  // with some static memory, 48 KiB
  if (config.shared_bytes > kAlways) allow_shared_bytes(kernel, config.shared_bytes, config.where);
  launch(kernel, config, std::forward<Args>(args)...);
}

}  // namespace stages::spgemm
