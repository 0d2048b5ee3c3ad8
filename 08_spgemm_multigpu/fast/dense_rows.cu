// The rows that dense_rows.hpp tells of.
//
// Input: rows of any length, where four warps' dense rows of C fit into a block's shared memory. Cost: a step a
// product, counting and multiplying; a row of C for each section, written and read. Memory: that.

#include "08_spgemm_multigpu/fast/dense_rows.hpp"

#include <algorithm>

#include "common/gpu/facts.hpp"
#include "common/gpu/launch.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kCountBlock = 256;
constexpr unsigned kLeastWarps = 4, kMostWarps = 8;  ///< of a block that multiplies
constexpr Offset kLeastSection = 256;                ///< non-zeros of A
constexpr unsigned kBlocksOfSm = 4;                  ///< in all, for each SM

Index words_for(Index cols) { return (cols + 31) / 32; }

/// As many warps as have room for a dense row of C each.
template <class T>
unsigned warps_for(Index cols) {
  const std::size_t rows =
      device_facts().shared_per_block_optin / (sizeof(T) * static_cast<std::size_t>(std::max(cols, 1)));
  return static_cast<unsigned>(std::min<std::size_t>(rows, kMostWarps));
}

/// Of each row.
unsigned sections_for(const RowsAsDense& rows) {
  const Offset at_once =
      Offset{kBlocksOfSm} * device_facts().sms / std::max<Offset>(1, std::ssize(rows.rows));
  return static_cast<unsigned>(
      std::clamp<Offset>(rows.most_entries / kLeastSection, 1, std::max<Offset>(1, at_once)));
}

/// The non-zeros of A that this block takes, of row rows[blockIdx.x].
template <class Ptr>
__device__ Piece<Ptr> section_of(const Ptr* row_ptr, Index row) {
  return part_of<Ptr>({row_ptr[row], row_ptr[row + 1]}, blockIdx.y, gridDim.y);
}

/// Marks the columns of a row, `words` of bits for each. A thread a non-zero of A.
template <class Ptr>
__global__ void __launch_bounds__(kCountBlock)
    mark_columns(Structures<Ptr> f, const Index* rows, Index words, unsigned* bits) {
  unsigned* const own = dynamic_shared<unsigned>();
  for (Index w = static_cast<Index>(threadIdx.x); w < words; w += Index{kCountBlock}) own[w] = 0;
  __syncthreads();
  const Piece<Ptr> section = section_of(f.a.row_ptr, rows[blockIdx.x]);
  for (Ptr e = section.from + static_cast<Ptr>(threadIdx.x); e < section.to; e += Ptr{kCountBlock}) {
    const Index k = f.a.col_idx[e];
    for (Ptr q = f.b.row_ptr[k]; q < f.b.row_ptr[k + 1]; ++q) {
      const auto column = static_cast<unsigned>(f.b.col_idx[q]);
      atomicOr(&own[column / 32], 1u << column % 32);
    }
  }
  __syncthreads();
  for (Index w = static_cast<Index>(threadIdx.x); w < words; w += Index{kCountBlock})
    if (own[w] != 0) atomicOr(&bits[Offset{blockIdx.x} * words + w], own[w]);
}

/// How many of a row's words before `end` have bits, over the warp.
__device__ inline Index bits_before(const unsigned* words, Index end, unsigned lane) {
  Index found = 0;
  for (Index w = static_cast<Index>(lane); w < end; w += Index{kWarp}) found += __popc(words[w]);
  return sum_over_warp(found);
}

/// A warp a row.
__global__ void __launch_bounds__(kWarp)
    count_columns(const Index* rows, Index words, const unsigned* bits, Index* counts) {
  const Index found = bits_before(bits + Offset{blockIdx.x} * words, words, threadIdx.x);
  if (threadIdx.x == 0) counts[rows[blockIdx.x]] = found;
}

/// A row of C from the sums of its sections: a word after the other, a lane a column, by one of `warps`.
template <class T>
__device__ void write_row(const unsigned* bits, Index words, const T* partial, Index cols, unsigned sections,
                          unsigned warp, unsigned warps, unsigned lane, Index* col_idx, T* values) {
  const Piece<Index> mine = part_of<Index>({0, words}, warp, warps);
  Index out = bits_before(bits, mine.from, lane);
  for (Index w = mine.from; w < mine.to; ++w) {
    const unsigned word = bits[w];
    if ((word >> lane & 1u) != 0) {
      const Index column = w * 32 + static_cast<Index>(lane), to = out + __popc(word & lanes_below(lane));
      T sum = 0;
      for (unsigned s = 0; s < sections; ++s)
        sum += __ldcg(&partial[Offset{s} * cols + column]);  // past the L1, which may hold an old one
      col_idx[to] = column;
      values[to] = sum;
    }
    out += __popc(word);
  }
}

/// A block for each section of a row; dynamic shared memory: a dense row of C for each warp.
template <class T, class Ptr>
__global__ void __launch_bounds__(kMostWarps* kWarp)
    add_sections(Factors<T, Ptr> f, const Index* rows, Index first_row, Index end_row, Index words,
                 const unsigned* bits, T* partial, unsigned* arrived, Output<T> c) {
  __shared__ bool is_last;
  T* const sums = dynamic_shared<T>();
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const Index row = rows[blockIdx.x], cols = f.b.cols;
  if (row < first_row || row >= end_row) return;  // the whole block leaves
  T* const own = sums + Offset{warp} * cols;
  for (Index k = static_cast<Index>(lane); k < cols; k += Index{kWarp}) own[k] = T{0};
  __syncwarp();
  const Piece<Ptr> mine = part_of(section_of(f.a.row_ptr, row), warp, warps);
  walk_products_of<true>(f, mine.from, mine.to, {}, lane,
                         [&](Index column, T product) { own[column] += product; });
  __syncthreads();
  T* const of_row = partial + Offset{blockIdx.x} * gridDim.y * cols;
  for (Index k = static_cast<Index>(threadIdx.x); k < cols; k += static_cast<Index>(blockDim.x)) {
    T sum = 0;
    for (unsigned w = 0; w < warps; ++w) sum += sums[Offset{w} * cols + k];
    of_row[Offset{blockIdx.y} * cols + k] = sum;
  }
  __threadfence();  // the sums are seen by whoever sees the counter
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&arrived[blockIdx.x], 1u) == gridDim.y - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  if (threadIdx.x == 0) arrived[blockIdx.x] = 0;
  const Offset to = c.row_ptr[row] - c.base;
  write_row(bits + Offset{blockIdx.x} * words, words, of_row, cols, gridDim.y, warp, warps, lane,
            c.col_idx + to, c.values + to);
}

}  // namespace

template <class T>
RowsAsDense rows_as_dense(const Csr<T>& a, const Csr<T>& b, const Rules& rules) {
  if (warps_for<T>(b.cols) < kLeastWarps || rules.most_long_rows == 0) return {};
  const Offset share = a.nnz() / (Offset{kBlocksOfSm} * device_facts().sms);
  RowsAsDense found{.longer_than = static_cast<Index>(std::max<Offset>(rules.long_dense_row, share))};
  Offset entries = 0, products = 0;
  for (Index row = 0; row < a.rows; ++row) {
    if (a.row_nnz(row) <= found.longer_than) continue;
    found.rows.push_back(row);
    found.most_entries = std::max(found.most_entries, a.row_nnz(row));
    entries += a.row_nnz(row);
    for (const Index k : row_columns(a, row)) products += b.row_nnz(k);
  }
  if (products > rules.long_row_products * entries) return {};
  return found;
}

template <class T>
double DenseRows<T>::bytes(const RowsAsDense& rows, Index cols) {
  return static_cast<double>(rows.rows.size()) *
         (8.0 + 4.0 * words_for(cols) + static_cast<double>(sizeof(T)) * sections_for(rows) * cols);
}

template <class T>
DenseRows<T>::DenseRows(const RowsAsDense& rows, Index cols)
    : sections_(sections_for(rows)),
      rows_(std::span<const Index>(rows.rows)),
      bits_(rows.rows.size() * static_cast<std::size_t>(words_for(cols))),
      partial_(rows.rows.size() * sections_ * static_cast<std::size_t>(cols)),
      arrived_(std::span<const unsigned>(std::vector<unsigned>(rows.rows.size(), 0))) {}

template <class T>
template <class Ptr>
void DenseRows<T>::count(const Structures<Ptr>& f, Index* counts, cudaStream_t stream) {
  if (empty()) return;
  const auto rows = static_cast<unsigned>(rows_.size());
  const Index words = words_for(f.b.cols);
  bits_.fill_bytes(0, stream);
  launch(mark_columns<Ptr>,
         {.grid = {rows, sections_},
          .block = kCountBlock,
          .shared_bytes = static_cast<std::size_t>(words) * sizeof(unsigned),
          .stream = stream},
         f, rows_.data(), words, bits_.data());
  launch(count_columns, {.grid = rows, .block = kWarp, .stream = stream}, rows_.data(), words, bits_.data(),
         counts);
}

template <class T>
template <class Ptr>
void DenseRows<T>::multiply(const Factors<T, Ptr>& f, Index first_row, Index end_row, const Output<T>& c,
                            cudaStream_t stream) {
  if (empty()) return;
  const unsigned warps = warps_for<T>(f.b.cols);
  launch_with_memory(add_sections<T, Ptr>,
                     {.grid = {static_cast<unsigned>(rows_.size()), sections_},
                      .block = warps * kWarp,
                      .shared_bytes = warps * static_cast<std::size_t>(f.b.cols) * sizeof(T),
                      .stream = stream},
                     f, rows_.data(), first_row, end_row, words_for(f.b.cols), bits_.data(), partial_.data(),
                     arrived_.data(), c);
}

#define STAGES_FOR_POINTERS(T, Ptr)                                                \
  template void DenseRows<T>::count(const Structures<Ptr>&, Index*, cudaStream_t); \
  template void DenseRows<T>::multiply(const Factors<T, Ptr>&, Index, Index, const Output<T>&, cudaStream_t);
#define STAGES_INSTANTIATE(T)                                                     \
  template RowsAsDense rows_as_dense(const Csr<T>&, const Csr<T>&, const Rules&); \
  template class DenseRows<T>;                                                    \
  STAGES_FOR_POINTERS(T, std::int32_t)                                            \
  STAGES_FOR_POINTERS(T, Offset)
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)

}  // namespace stages::spgemm
