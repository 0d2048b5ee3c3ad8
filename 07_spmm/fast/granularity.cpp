// The rules of granularity.hpp.

#include "07_spmm/fast/granularity.hpp"

#include <algorithm>
#include <cmath>

#include "07_spmm/fast/kernels.hpp"
#include "07_spmm/fast/packed_b.hpp"
#include "common/gpu/facts.hpp"

namespace stages::spmm {
namespace {

constexpr Index kLongRows = 16;       ///< non-zeros of a mean row from which most batches of 8 end none
constexpr Index kVeryLongRows = 256;  ///< non-zeros of a mean row, twice the share of very long rows
constexpr Index kNearDenseRun = 64;   ///< non-zeros of a row, of whose columns the near-dense rule asks
constexpr double kMostBands = 64;     ///< of a near-dense matrix
constexpr double kLinesOfCopy = 7;    ///< of B that take as long to gather as to copy one

/// The columns of a strip.
template <class T>
Index strip_for(Index n_cols) {
  constexpr Index kWidest = 256 / sizeof(T);
  return n_cols <= 8 ? 8 : n_cols <= 16 ? 16 : n_cols <= 32 ? 32 : kWidest;
}

/// The lanes of a strip; `vectors`: they take vectors of B.
template <class T>
Index lanes_for(Index strip, bool vectors) {
  if (strip < kVectorStrip) return strip;
  return vectors ? strip / Index{16 / sizeof(T)} : Index{kWarp};
}

/// The non-zeros of a share; `block`: threads of a block.
Index share_for(const Shape& shape, const Residency& residency, Index block) {
  const DeviceFacts& device = device_facts();
  const double blocks = std::min<double>(residency.blocks, device.max_threads_per_sm / block);
  const double resident = static_cast<double>(device.sms) * residency.groups * blocks;
  const double even = static_cast<double>(shape.nnz) / (2 * resident);
  return (static_cast<Index>(std::clamp(even, 32.0, 256.0)) + 7) / 8 * 8;
}

/// How far the boundaries of such shares may move.
Index slack_for(Index share) {
  return std::min(std::max(share / 8, Index{16}), share - 1);
}

/// Whether a copy of B pays.
template <class T>
bool packing_pays(const Shape& shape, Index strip) {
  if (!can_pack<T>(strip)) return false;
  constexpr Index kLine = kLineBytes / sizeof(T);
  const Index at_once = rows_are_aligned<T>(shape.ld_of_b) ? strip : Index{kWarp};
  const double saved = lines_as_it_lies(shape.n_cols, shape.ld_of_b, at_once, kLine) -
                       lines_packed(pieces_of<T>(shape.n_cols, strip), kLine);
  const double lines_of_b = static_cast<double>(shape.rows_of_b) * shape.n_cols / kLine;
  return static_cast<double>(shape.nnz) * saved >= kLinesOfCopy * lines_of_b;
}

/// Whether so many columns of a row of B are few enough for a lane a non-zero.
template <class T>
bool are_few_columns(Index n_cols) {
  return n_cols * Offset{sizeof(T)} <= 16;
}

/// The granularity for a few columns.
template <class T>
Granularity a_lane_a_nonzero(Granularity g, const Shape& shape) {
  g.strip = 16 / sizeof(T);
  g.lanes = 1;
  g.loads = kThinAhead;
  g.block = kSmallBlock;
  if (g.bands == 0) g.bands = 1;
  if (g.share == 0) g.share = share_for(shape, kResidencyOfFewColumns, g.block);
  if (g.slack == 0) g.slack = slack_for(g.share);
  return g;
}

/// Whether one wide strip takes all columns.
template <class T>
bool is_one_wide_strip(const Shape& shape) {
  return sizeof(T) == 4 && rows_are_aligned<T>(shape.ld_of_b) && shape.n_cols > kWideStrip * 3 / 4 &&
         shape.n_cols < kWideStrip;
}

/// Whether a matrix is near-dense.
template <class T>
bool is_near_dense(const Shape& shape) {
  const double strip_bytes = 32.0 * sizeof(T) * shape.rows_of_b;
  const double l1_bytes = 0.75 * static_cast<double>(device_facts().shared_per_sm);
  const double density = static_cast<double>(shape.nnz) / (static_cast<double>(shape.rows) * shape.rows_of_b);
  return shape.n_cols >= 32 && strip_bytes > l1_bytes && kNearDenseRun / density * 32 * sizeof(T) <= l1_bytes;
}

/// The granularity for a near-dense matrix: so many bands that one of them takes half of an SM's shared
/// memory.
template <class T>
Granularity near_dense(Granularity g, const Shape& shape) {
  const double band_bytes = static_cast<double>(device_facts().shared_per_sm) / 2;
  const double strip_bytes = static_cast<double>(g.strip) * sizeof(T) * shape.rows_of_b;
  if (g.share == 0) g.share = 128;
  if (g.loads == 0) g.loads = 4;
  if (g.bands == 0) g.bands = static_cast<Index>(std::min(kMostBands, std::ceil(strip_bytes / band_bytes)));
  return g;
}

/// Whether rows are so long that shares in bands pay.
bool are_very_long(const Shape& shape) {
  return shape.n_cols >= 32 && shape.nnz >= Offset{kVeryLongRows} * shape.rows;
}

/// The granularity for very long rows.
Granularity in_bands(Granularity g) {
  g.strip = 32;
  if (g.share == 0) g.share = kVeryLongRows / 2;
  if (g.bands == 0) g.bands = 10;
  return g;
}

/// Of so many columns of a B that is not aligned, those beyond the last that a warp takes a column a lane, if
/// they are few enough for a lane a non-zero.
template <class T>
Index thin_rest(Index n_cols) {
  const Index over = n_cols % Index{kWarp};
  return n_cols > Index{kWarp} && are_few_columns<T>(over) ? over : 0;
}

}  // namespace

template <class T>
Shape shape_of(const SpmmProblem<T>& problem) {
  return {problem.a->nnz(), problem.a->rows, problem.a->cols, problem.n_cols, ld_of_b(problem)};
}

template <class T>
bool takes_vectors(const Granularity& g, const Shape& shape) {
  return g.packing == Packing::always || rows_are_aligned<T>(shape.ld_of_b);
}

template <class T>
Granularity resolve(Granularity g, const Shape& shape) {
  const bool by_rule = g.strip == 0;
  if (g.lanes == 1 && !are_few_columns<T>(shape.n_cols)) {
    fail("balanced: a lane a non-zero was asked for, but a lane has no more than {} columns, not {}",
         16 / sizeof(T), shape.n_cols);
  }
  if (by_rule) g.strip = strip_for<T>(shape.n_cols);
  if (g.packing == Packing::by_rule) {
    g.packing = by_rule && packing_pays<T>(shape, g.strip) ? Packing::always : Packing::never;
  }
  if (by_rule && g.packing == Packing::always && can_pack<T>(g.strip)) {
    g.strip = pieces_of<T>(shape.n_cols, g.strip).front().strip;  // 33 columns: 32 and 1
  }
  if (g.lanes == 1 || (by_rule && g.packing == Packing::never && are_few_columns<T>(shape.n_cols))) {
    return a_lane_a_nonzero<T>(g, shape);
  }
  const bool vectors = takes_vectors<T>(g, shape);
  if (by_rule && vectors && is_near_dense<T>(shape)) {
    g = near_dense<T>(g, shape);
  } else if (by_rule && vectors && are_very_long(shape)) {
    g = in_bands(g);
  } else if (by_rule && g.packing == Packing::never && is_one_wide_strip<T>(shape)) {
    g.strip = kWideStrip;
    g.lanes = 16;
    g.loads = 8;
  }
  if (g.block == 0) g.block = kSmallBlock;
  constexpr Index kVector = 16 / sizeof(T);
  if (g.lanes == 0) g.lanes = lanes_for<T>(g.strip, vectors);
  const bool a_vector_each = g.lanes * kVector == g.strip || g.strip < kVectorStrip;
  if (g.packing == Packing::always && !(can_pack<T>(g.strip) && a_vector_each)) {
    fail(
        "balanced: B was to be packed for strips of {} columns on {} lanes; give strips of {} or {} with a "
        "vector of {} a lane",
        g.strip, g.lanes, kLineBytes / sizeof(T), 2 * kLineBytes / sizeof(T), kVector);
  }
  if (g.loads == 0) g.loads = g.lanes > 4 && shape.nnz >= Offset{kLongRows} * shape.rows ? 8 : 4;
  if (g.bands == 0) g.bands = 1;
  const Residency residency = residency_of_strips<T>(g, vectors);
  if (g.share == 0) g.share = share_for(shape, residency, g.block);
  if (g.slack == 0) g.slack = slack_for(g.share);
  return g;
}

template <class T>
Division divide(Index n_cols, Index strip, bool aligned) {
  const Index few = aligned ? 0 : thin_rest<T>(n_cols);
  const Index wide = n_cols - few, over = wide % strip;
  Index rest = (wide > strip || few > 0) && over <= strip / 2 ? over : 0;
  if (rest > 0 && wide > strip && !aligned && strip >= kVectorStrip) rest += strip;
  return {.whole = wide - rest, .rest = rest, .few = few};
}

template <class T>
Granularity for_rest(Index columns, bool aligned) {
  const Index strip = columns <= 8 ? 8 : columns <= 16 ? 16 : columns <= 32 ? 32 : columns <= 64 ? 64 : 96;
  return {.strip = strip, .lanes = lanes_for<T>(strip, aligned), .loads = 4, .block = Index{kSmallBlock}};
}

#define STAGES_INSTANTIATE(T)                                       \
  template Shape shape_of(const SpmmProblem<T>&);                   \
  template bool takes_vectors<T>(const Granularity&, const Shape&); \
  template Granularity resolve<T>(Granularity, const Shape&);       \
  template Division divide<T>(Index, Index, bool);                  \
  template Granularity for_rest<T>(Index, bool);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)
#undef STAGES_INSTANTIATE

}  // namespace stages::spmm
