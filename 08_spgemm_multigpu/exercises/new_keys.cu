// Task: fill in the search for a column's slot so that only new columns cost an atomic: a warp has a row of B.
// Reference: 08_spgemm_multigpu/rows_of_b
// At most: 2,800 requests in atomics
// At least: 600 requests in atomics
// Counted on: gen:uniform:n=100,per_row=30
//
// In hash_slot.cu each lane has a row of B of its own, and each product two atomics: one finds its slot, one
// adds to it. Here the 32 lanes go along one row of B together, then along the next. The columns of a row of
// B are different, so no two lanes bring the same one: each adds to a sum of its own, without an atomic. Two
// of them may still want one free slot in the same moment. But most columns have come before: they are in the
// table, and whoever has read his own column in a slot need not claim it. A slot that was read as free may be
// another's before it is claimed; atomicCAS(&keys[s], kFree, column) says whose it is. (Who claims by a plain
// store has no atomics at all, and is right only as long as two lanes are not that quick: hence the second
// demand.)
//
// Before you write: a slot never becomes free again while a row is made. Which of the three answers of seen()
// (free, this column, another one) can be old by the time you act on it, and which cannot?

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

/// What slot s held at some time not long ago: volatile says that others write there.
__device__ Index seen(const Index* keys, unsigned s) {
  return *static_cast<const volatile Index*>(&keys[s]);
}

/// The slot of `column`, which takes one if it has none yet. Lanes that call it at the same time bring
/// different columns.
__device__ unsigned slot_of(Index* keys, unsigned slots, Index column) {
  unsigned slot = __umulhi(static_cast<unsigned>(column) * 0x9E3779B1u, slots);
  // SOLUTION
  for (;; slot = (slot + 1) & (slots - 1)) {
    Index found = seen(keys, slot);
    if (found == kFree) found = atomicCAS(&keys[slot], kFree, column);
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
    for (Offset e = a.row_ptr[row]; e < a.row_ptr[row + 1]; ++e) {
      const Index k = a.col_idx[e];
      for (Offset q = b.row_ptr[k] + lane; q < b.row_ptr[k + 1]; q += kWarp)
        sums[slot_of(keys, tables.slots, b.col_idx[q])] += a.values[e] * b.values[q];
      __syncwarp();
    }
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
class MyNewKeys final : public DeviceSpgemmPlan<T> {
 public:
  MyNewKeys(const SpgemmProblem<T>& problem, Exec& exec)
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
  registry.add<MyNewKeys>({.name = "task/new_keys", .idea = "a row of B at a time", .needs = {.gpu = true}});
}

}  // namespace stages
