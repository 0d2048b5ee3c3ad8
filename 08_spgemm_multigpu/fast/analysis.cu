// The products of each row of C, the range of its columns, and the form that counts it.
//
// A team of 1 to 32 lanes looks at a row of A: at the lengths of the rows of B that it names, and, where there
// are many products, at their first and last columns. Rows of A that are long for their team wait until the
// block's other rows are done; then a warp takes each of them, or, beyond 1,024 non-zeros, the whole block,
// which always looks at the columns, too. A few rows that are long in the mean have a block each from the
// start: otherwise one block would have to look at several of them. Rows that are split (split_rows.hpp) have
// no product here.
//
// Input: any structures. Cost: a row pointer's pair, and for long rows two columns, for each non-zero of A.

#include "08_spgemm_multigpu/fast/bins.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "common/gpu/facts.hpp"
#include "common/gpu/launch.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = 256;
constexpr Index kLongRow = 1024;  ///< non-zeros of A: more are looked at by a whole block
constexpr int kAtOnce = 4;        ///< non-zeros of A that a thread asks for at once
constexpr int kTurns = 4;         ///< how often a team asks: longer rows are a warp's
constexpr Index kLastColumn = std::numeric_limits<Index>::max();

/// One thread's part of a row.
struct Sums {
  Offset products = 0;
  Index rows_of_b = 0, longest = 0;

  template <class Ptr>
  __device__ void add(Ptr from, Ptr to) {
    products += to - from;
    rows_of_b += to > from;
    longest = max(longest, static_cast<Index>(to - from));
  }
  __device__ RowFacts facts(Index width = 0) const { return {products, rows_of_b, width, longest}; }
};
struct Range {
  Index first = kLastColumn;
  Index last = -1;

  template <class Ptr>
  __device__ void add(const Index* columns, Ptr from, Ptr to) {
    if (from == to) return;
    first = min(first, columns[from]);
    last = max(last, columns[to - 1]);
  }
};

template <class Ptr>
__device__ Ptr entries_of(const Structure<Ptr>& a, Index row) {
  return a.row_ptr[row + 1] - a.row_ptr[row];
}
template <class Ptr>
__device__ bool is_split(const Structure<Ptr>& a, const Rules& rules, Index row) {
  return entries_of(a, row) > static_cast<Ptr>(rules.long_row);
}

/// Calls visit(from, to), where in B the row lies, for those non-zeros of a row of A that are this member's of
/// `members`. It asks for several before it visits the first.
template <class Ptr, class Visit>
__device__ void for_rows_of_b(const Structures<Ptr>& f, Index row, unsigned me, unsigned members,
                              Visit visit) {
  const Ptr end = f.a.row_ptr[row + 1], step = static_cast<Ptr>(members);
  for (Ptr first = f.a.row_ptr[row] + static_cast<Ptr>(me); first < end; first += step * kAtOnce) {
    Index k[kAtOnce];
    Ptr from[kAtOnce], to[kAtOnce];
#pragma unroll
    for (Ptr u = 0; u < kAtOnce; ++u) k[u] = first + u * step < end ? f.a.col_idx[first + u * step] : -1;
#pragma unroll
    for (Ptr u = 0; u < kAtOnce; ++u) {
      from[u] = k[u] < 0 ? 0 : f.b.row_ptr[k[u]];
      to[u] = k[u] < 0 ? 0 : f.b.row_ptr[k[u] + 1];
    }
#pragma unroll
    for (Ptr u = 0; u < kAtOnce; ++u) visit(from[u], to[u]);
  }
}

template <class Ptr>
__device__ Sums sum_products(const Structures<Ptr>& f, Index row, unsigned me, unsigned members) {
  Sums sums;
  for_rows_of_b(f, row, me, members, [&](Ptr from, Ptr to) { sums.add(from, to); });
  return sums;
}

template <class Ptr>
__device__ Range find_range(const Structures<Ptr>& f, Index row, unsigned me, unsigned members) {
  Range range;
  for_rows_of_b(f, row, me, members, [&](Ptr from, Ptr to) { range.add(f.b.col_idx, from, to); });
  return range;
}

/// Whether the rules ask for a row's range. A row that could be sorted needs it only if it is narrow, and for
/// most rows the first and the last row of B say that it is not.
template <class Ptr>
__device__ bool needs_range(const Structures<Ptr>& f, const Rules& rules, Index row, const Sums& sums) {
  if (form_by_products(rules, sums.facts()) == Form::windows) return true;
  const bool sortable = may_be_narrow(rules, sums.facts());
  if (!sortable && !may_be_band(rules, sums.facts())) return false;
  const Offset most = sortable ? sums.products : Offset{kBandColumns};
  const Index first = f.a.col_idx[f.a.row_ptr[row]], last = f.a.col_idx[f.a.row_ptr[row + 1] - 1];
  if (!sortable && last - first >= most) return false;  // of B, too, only neighbours share columns, mostly
  const Ptr from = f.b.row_ptr[first], to = f.b.row_ptr[last + 1];
  if (from == f.b.row_ptr[first + 1] || to == f.b.row_ptr[last]) return true;
  return f.b.col_idx[to - 1] - f.b.col_idx[from] < most;
}

/// Of `team` lanes side by side, in each of them.
__device__ inline Sums over_team(Sums sums, unsigned team) {
  for (unsigned d = team / 2; d > 0; d /= 2) {
    sums.products += __shfl_xor_sync(kAllLanes, sums.products, static_cast<int>(d));
    sums.rows_of_b += __shfl_xor_sync(kAllLanes, sums.rows_of_b, static_cast<int>(d));
    sums.longest = max(sums.longest, __shfl_xor_sync(kAllLanes, sums.longest, static_cast<int>(d)));
  }
  return sums;
}
__device__ inline Range over_team(Range range, unsigned team) {
  for (unsigned d = team / 2; d > 0; d /= 2) {
    range.first = min(range.first, __shfl_xor_sync(kAllLanes, range.first, static_cast<int>(d)));
    range.last = max(range.last, __shfl_xor_sync(kAllLanes, range.last, static_cast<int>(d)));
  }
  return range;
}

/// Writes the facts of a row; returns its form.
__device__ inline Form settle(const Rules& rules, const Facts& facts, Index row, const Sums& sums,
                              const Range& range) {
  const Index width = range.last < 0 ? 0 : range.last - range.first + 1;
  const Form form = counting_form(rules, sums.facts(width));
  facts.products[row] = sums.products;
  facts.first[row] = range.first;
  facts.width[row] = width;
  facts.form[row] = form;
  facts.slot[row] = -1;
  if (sums.rows_of_b <= 1) facts.counts[row] = static_cast<Index>(sums.products);
  return form;
}

/// A row of A by `team` lanes side by side; returns its form in the first of them. All lanes of the warp
/// come, those without a row with row < 0.
template <class Ptr>
__device__ int analyse_row(const Structures<Ptr>& f, const Rules& rules, const Facts& facts, Index row,
                           unsigned team) {
  const unsigned lane = threadIdx.x % team;
  const bool has_products = row >= 0 && !is_split(f.a, rules, row);
  const Sums sums = over_team(has_products ? sum_products(f, row, lane, team) : Sums{}, team);
  const Range range = over_team(
      row >= 0 && needs_range(f, rules, row, sums) ? find_range(f, row, lane, team) : Range{}, team);
  return row >= 0 && lane == 0 ? static_cast<int>(settle(rules, facts, row, sums, range)) : kNoForm;
}

/// A row of A by the whole block; returns its form in the first thread. Such rows are long, and nearly all need
/// their range, so each is found, and the non-zeros are looked at once.
template <class Ptr>
__device__ int analyse_by_block(const Structures<Ptr>& f, const Rules& rules, const Facts& facts, Index row) {
  __shared__ unsigned long long products;
  __shared__ Index rows_of_b, longest, first, last;
  if (threadIdx.x == 0) {
    products = 0;
    rows_of_b = longest = 0;
    first = kLastColumn;
    last = -1;
  }
  __syncthreads();
  Sums sums;
  Range range;
  for_rows_of_b(f, row, threadIdx.x, blockDim.x, [&](Ptr from, Ptr to) {
    sums.add(from, to);
    range.add(f.b.col_idx, from, to);
  });
  sums = over_team(sums, kWarp);
  range = over_team(range, kWarp);
  if (threadIdx.x % kWarp == 0) {
    atomicAdd(&products, static_cast<unsigned long long>(sums.products));
    atomicAdd(&rows_of_b, sums.rows_of_b);
    atomicMax(&longest, sums.longest);
    atomicMin(&first, range.first);
    atomicMax(&last, range.last);
  }
  __syncthreads();
  sums = {static_cast<Offset>(products), rows_of_b, longest};
  range = {first, last};
  __syncthreads();
  return threadIdx.x == 0 ? static_cast<int>(settle(rules, facts, row, sums, range)) : kNoForm;
}

/// `team` lanes a row; then a warp for each of the block's long rows, and the block for the longest.
template <class Ptr>
__global__ void __launch_bounds__(kBlock)
    analyse(Structures<Ptr> f, Rules rules, unsigned team, Facts facts, Index* tally) {
  __shared__ Index in_block[kForms], long_rows[kBlock], long_count;
  if (threadIdx.x < kForms) in_block[threadIdx.x] = 0;
  if (threadIdx.x == 0) long_count = 0;
  __syncthreads();
  // A block's warps have rows far apart: long ones often lie side by side.
  const Offset chunk = Offset{threadIdx.x / kWarp} * gridDim.x + blockIdx.x;
  const Offset number = chunk * (kWarp / team) + threadIdx.x % kWarp / team;
  Index row = number < f.a.rows ? static_cast<Index>(number) : -1;
  if (row >= 0 && entries_of(f.a, row) > static_cast<Ptr>(kTurns * kAtOnce * team) &&
      !is_split(f.a, rules, row)) {
    if (threadIdx.x % team == 0) long_rows[atomicAdd(&long_count, 1)] = row;
    row = -1;
  }
  place_of(analyse_row(f, rules, facts, row, team), in_block);
  __syncthreads();
  const Index listed = long_count;
  for (Index k = static_cast<Index>(threadIdx.x / kWarp); k < listed; k += Index{kBlock / kWarp}) {
    if (entries_of(f.a, long_rows[k]) > kLongRow) continue;
    place_of(analyse_row(f, rules, facts, long_rows[k], kWarp), in_block);
  }
  for (Index k = 0; k < listed; ++k) {
    if (entries_of(f.a, long_rows[k]) <= kLongRow) continue;
    place_of(analyse_by_block(f, rules, facts, long_rows[k]), in_block);
  }
  __syncthreads();
  add_tally(in_block, tally);
}

/// A block a row.
template <class Ptr>
__global__ void __launch_bounds__(kBlock)
    analyse_by_blocks(Structures<Ptr> f, Rules rules, Facts facts, Index* tally) {
  const auto row = static_cast<Index>(blockIdx.x);
  int form = kNoForm;
  if (!is_split(f.a, rules, row)) {
    form = analyse_by_block(f, rules, facts, row);
  } else if (threadIdx.x == 0) {
    form = static_cast<int>(settle(rules, facts, row, {}, {}));
  }
  if (form != kNoForm) atomicAdd(&tally[form], 1);
}

}  // namespace

/// The mean length of a row as a non-zero sees it, (sum of length^2) / (sum of length), over the non-zeros that
/// a lane asks for at once. In skewed matrices that is more than the mean length of a row. Rows that wait for a
/// warp whatever the team do not count there; but a block should have no more of them than it has warps. A
/// block a row, if the rows are so few that all may have one at the same time, and the mean row has a non-zero
/// for each of its threads.
template <class T>
unsigned lanes_for(const CsrView<T>& a, Index longest) {
  double squares = 0, short_sum = 0, sum = 0, rows = 0, waiting = 0;
  for (Index i = 0; i < a.rows; ++i) {
    const auto length = static_cast<double>(a.row_ptr[i + 1] - a.row_ptr[i]);
    if (length > longest) continue;
    sum += length;
    rows += 1;
    if (length > kTurns * kAtOnce * kWarp) {
      waiting += 1;
    } else {
      squares += length * length;
      short_sum += length;
    }
  }
  const double at_a_time = 8.0 * device_facts().sms;  // blocks
  if (rows > 0 && rows <= at_a_time && sum >= kBlock * rows) return kBlock;
  const double of_short = short_sum > 0 ? squares / short_sum / kAtOnce : 1;
  const double lanes = rows > 0 ? std::max(of_short, kWarp * waiting / rows) : 1;
  return std::bit_ceil(static_cast<unsigned>(std::clamp(std::ceil(lanes), 1.0, double{kWarp})));
}

template <class Ptr>
void analyse_rows(const Structures<Ptr>& f, const Rules& rules, unsigned lanes, const Facts& facts,
                  Index* tally, cudaStream_t stream) {
  if (lanes == kBlock)
    return launch(analyse_by_blocks<Ptr>,
                  {.grid = blocks_for(f.a.rows, 1), .block = kBlock, .stream = stream}, f, rules, facts,
                  tally);
  launch(analyse<Ptr>, {.grid = blocks_for(f.a.rows, kBlock / lanes), .block = kBlock, .stream = stream}, f,
         rules, lanes, facts, tally);
}

STAGES_FOR_VALUES(lanes_for)
STAGES_FOR_POINTERS(analyse_rows)

}  // namespace stages::spgemm
