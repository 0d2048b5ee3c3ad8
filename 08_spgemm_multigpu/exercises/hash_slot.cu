// Task: fill in the search for a column's slot: C = A B, each row of C collected in a hash table.
// Reference: 08_spgemm_multigpu/hash_warp_per_row
// At most: 42,000 requests in atomics
// No race
//
// A table has an open place, a slot, for any column: keys[s] is the column that has slot s, or kFree, and
// sums[s] what was added up for it. A column looks first where its hash says; if another column has that slot
// it looks at the next one, and after the last at the first. The 32 lanes of a warp fill the table at the
// same time, each with a row of B of its own, so two of them may want one free slot in the same moment, or
// bring the same column. atomicCAS(&keys[s], kFree, column) puts the column there if the slot is free, and
// returns what was there before in any case.
//
// Before you write: the table has at least twice as many slots as the row has results. In how many places
// does the search rely on that? And what would `column & (slots - 1)` do to a matrix whose columns are all
// multiples of 1024?

#include <algorithm>
#include <bit>

#include "08_spgemm_multigpu/tables.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/gpu/scan.hpp"
#include "common/harness/registry.hpp"

namespace stages {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr Index kFree = -1;
constexpr Offset kMostSlots = 1 << 24;  ///< of all tables

/// Tables in device memory, one a block: number b at slots [b * slots, (b + 1) * slots).
template <class T>
struct Tables {
  Index* keys = nullptr;
  T* sums = nullptr;
  unsigned slots = 0;  ///< a power of two, at least 32
};

/// The slot of `column`, which takes one if it has none yet. Called by all lanes at the same time.
__device__ unsigned slot_of(Index* keys, unsigned slots, Index column) {
  unsigned slot = __umulhi(static_cast<unsigned>(column) * 0x9E3779B1u, slots);
  // SOLUTION
  for (;; slot = (slot + 1) & (slots - 1)) {
    const Index found = atomicCAS(&keys[slot], kFree, column);
    if (found == kFree || found == column) return slot;
  }
  // STUDENT
  // Your code: from this slot on, the first that is the column's or becomes it. Until then no column has one.
  static_cast<void>(keys);
  return slot;
  // END
}

/// Block b, a warp, has rows b, b + gridDim.x, ... Without values in c only counts how many results a row
/// has.
template <class T>
__global__ void multiply(CsrView<T, Offset> a, CsrView<T, Offset> b, Tables<T> tables, Index* counts,
                         spgemm::Output<T> c) {
  const unsigned lane = threadIdx.x;
  Index* const keys = tables.keys + std::size_t{blockIdx.x} * tables.slots;
  T* const sums = tables.sums + std::size_t{blockIdx.x} * tables.slots;
  for (Offset row = blockIdx.x; row < a.rows; row += gridDim.x) {
    for (unsigned s = lane; s < tables.slots; s += kWarp) {
      keys[s] = kFree;
      sums[s] = T{0};
    }
    __syncwarp();
    for (Offset e = a.row_ptr[row] + lane; e < a.row_ptr[row + 1]; e += kWarp) {
      const Index k = a.col_idx[e];
      for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q)
        atomicAdd(&sums[slot_of(keys, tables.slots, b.col_idx[q])], a.values[e] * b.values[q]);
    }
    __syncwarp();
    Offset out = c.values != nullptr ? c.row_ptr[row] : 0;
    for (unsigned s = lane; s < tables.slots; s += kWarp) {
      const bool is_taken = keys[s] != kFree;
      const unsigned taken = __ballot_sync(kAllLanes, is_taken);
      if (is_taken && c.values != nullptr) {
        const Offset to = out + __popc(taken & ((1u << lane) - 1u));
        c.col_idx[to] = keys[s];
        c.values[to] = sums[s];
      }
      out += __popc(taken);
    }
    if (c.values == nullptr && lane == 0) counts[row] = static_cast<Index>(out);
    __syncwarp();
  }
}

/// The results come in the order of the slots; a warp a row sorts them.
template <class T>
__global__ void sort_rows(spgemm::Output<T> c) {
  const Offset begin = c.row_ptr[blockIdx.x], end = c.row_ptr[blockIdx.x + 1];
  Index* const columns = c.col_idx + begin;
  T* const values = c.values + begin;
  const auto exchange = [=](unsigned i, unsigned j) {
    const Index low = columns[i], high = columns[j];
    if (low <= high) return;
    const T kept = values[i];
    columns[i] = high;
    columns[j] = low;
    values[i] = values[j];
    values[j] = kept;
  };
  spgemm::sort_ascending(static_cast<Index>(end - begin), threadIdx.x, kWarp, exchange, [] { __syncwarp(); });
}

template <class T>
class MyTables final : public DeviceSpgemmPlan<T> {
 public:
  MyTables(const SpgemmProblem<T>& problem, Exec& exec)
      : DeviceSpgemmPlan<T>(problem, exec), a_(*problem.a), b_(*problem.b) {
    const Offset results = std::max<Offset>(16, std::min<Offset>(problem.max_row_products, b_.cols));
    const Offset slots = std::bit_ceil(2 * static_cast<std::uint64_t>(results));
    blocks_ = static_cast<unsigned>(std::clamp<Offset>(kMostSlots / slots, 1, std::max<Index>(1, a_.rows)));
    keys_ = DeviceArray<Index>(static_cast<std::size_t>(slots) * blocks_);
    sums_ = DeviceArray<T>(static_cast<std::size_t>(slots) * blocks_);
    tables_ = {keys_.data(), sums_.data(), static_cast<unsigned>(slots)};
  }

  static Cost cost(const SpgemmProblem<T>& problem) { return problem_cost(problem); }

  void load(const SpgemmOperands<T>& operands) override {
    a_.values.upload(operands.a_values, this->stream());
    b_.values.upload(operands.b_values, this->stream());
    this->exec().synchronize();
  }

  void run() override {
    const auto rows = static_cast<std::size_t>(a_.rows);
    DeviceArray<Index> counts(rows);
    multiply_with(counts.data(), {});
    DeviceCsr<T, Offset> c;
    c.row_ptr = DeviceArray<Offset>(rows + 1);
    PrefixSum<Index, Offset>().run(counts.data(), c.row_ptr.data(), a_.rows, this->stream());
    const auto results = static_cast<std::size_t>(c.row_ptr.to_host().back());
    if (results > 0) {
      c.col_idx = DeviceArray<Index>(results);
      c.values = DeviceArray<T>(results);
      const spgemm::Output<T> out{c.row_ptr.data(), 0, c.col_idx.data(), c.values.data()};
      multiply_with(counts.data(), out);
      launch(sort_rows<T>, {.grid = blocks_for(a_.rows, 1), .block = kWarp, .stream = this->stream()}, out);
      this->exec().synchronize();
    }
    this->c_ = std::move(c);
  }

 private:
  void multiply_with(Index* counts, const spgemm::Output<T>& out) {
    if (a_.rows == 0) return;
    launch(multiply<T>, {.grid = blocks_, .block = kWarp, .stream = this->stream()}, a_.view(), b_.view(),
           tables_, counts, out);
  }

  DeviceCsr<T, Offset> a_, b_;
  DeviceArray<Index> keys_;
  DeviceArray<T> sums_;
  Tables<T> tables_;
  unsigned blocks_ = 0;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyTables>({.name = "task/hash_slot",
                          .idea = "a hash table a row",
                          .claims = {.bitwise_reproducible = false},
                          .needs = {.gpu = true}});
}

}  // namespace stages
