// Task: fill in the search for a column's slot in a hash table that many threads fill.
// Step: 08_spgemm_multigpu
// Reference: 05_cuda_csr/thread_per_row
// No race
// At most: 800 requests in atomics
//
// A table collects the columns that occur in A, each once. keys[s] is the column that has slot s, or kFree. A
// column looks first at the slot that its hash says. If another column has it, it looks at the next one, and
// after the last at the first. Two threads may want one free slot in the same moment, or bring the same column:
// atomicCAS(&keys[s], kFree, column) writes the column if the slot is free, and returns what was there before
// in any case. There are at least twice as many slots as columns. Few steps from the hash are enough: a search
// that begins at slot 0 takes many more.
//
//   slot      2   3   4   5   6               column 6, whose hash says slot 3
//   keys      .   5   .   .   .
//   slot 3: 5 was there: another column       go on
//   slot 4: kFree was there: now it is 6      return 4          (5 or 6 come again: they find themselves)
//
// Hint: What may atomicCAS return, and which of these answers say that the slot is yours?
// Hint: A loop: ask for the slot; if there was nothing, or this column, it is the one; if not, the next.
// Hint: for (;; s = (s + 1) % slots) { const Index found = atomicCAS(...); if (found == kFree || ...)
//   return s; }

#include <algorithm>
#include <bit>
#include <set>

#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::DeviceRows;
constexpr unsigned kBlock = 128;
constexpr Index kFree = -1;

/// The slot of `column`, which takes one if it has none yet.
__device__ unsigned slot_of(Index* keys, unsigned slots, Index column) {
  // Its hash, a poor one: four neighbours have the same, and the first four have the last slot of all.
  unsigned s = (static_cast<unsigned>(column) / 4 * 4 + slots - 1) % slots;
  // SOLUTION
  for (;; s = (s + 1) % slots) {
    const Index found = atomicCAS(&keys[s], kFree, column);
    if (found == kFree || found == column) return s;
  }
  // STUDENT
  // Your code. Until then a column has the slot that its hash says, whoever else has it.
  static_cast<void>(keys);
  return s;
  // END
}

/// A thread a non-zero: the slot of its column.
__global__ void collect(const Index* col_idx, std::int32_t nnz, Index* keys, unsigned slots, unsigned* slot) {
  const auto p = static_cast<std::int32_t>(blockIdx.x * kBlock + threadIdx.x);
  if (p < nnz) slot[p] = slot_of(keys, slots, col_idx[p]);
}

template <class T>
__global__ void multiply(DeviceRows<T> a, const unsigned* slot, const Index* keys, const T* x, T* y) {
  const auto i = static_cast<Index>(blockIdx.x * kBlock + threadIdx.x);
  if (i >= a.rows) return;
  T sum = 0;
  for (std::int32_t p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) sum += a.values[p] * x[keys[slot[p]]];
  y[i] = sum;
}

/// Throws Error where not each column of A has one slot.
template <class T>
void require_one_each(const std::vector<Index>& keys, const Csr<T>& a) {
  const std::set<Index> columns(a.col_idx.begin(), a.col_idx.end());
  const auto taken = std::ssize(keys) - std::count(keys.begin(), keys.end(), kFree);
  if (taken != std::ssize(columns)) fail("{} slots are taken by {} columns", taken, columns.size());
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "micro/slot_by_cas", .idea = "a table that many fill"},
      []<class T>(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream, const Csr<T>& host) {
        const auto nnz = static_cast<std::int32_t>(host.nnz());
        const std::size_t slots = std::bit_ceil(2 * host.values.size() + 16);
        DeviceArray<Index> keys(slots);
        DeviceArray<unsigned> slot(host.values.size());
        keys.fill_bytes(0xFF, stream);  // kFree
        launch(collect, {.grid = blocks_for(nnz, kBlock), .block = kBlock, .stream = stream}, a.col_idx, nnz,
               keys.data(), static_cast<unsigned>(slots), slot.data());
        require_one_each(keys.to_host(), host);
        launch(multiply<T>, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a,
               slot.data(), keys.data(), x, y);
      });
}

}  // namespace stages
