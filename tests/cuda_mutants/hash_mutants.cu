// SpGEMM by a hash table a row and by dense windows, with planted faults. The host counts and places rows.

#include <algorithm>

#include "common/gpu/cuda.hpp"
#include "tests/cuda_mutants/counted_plan.hpp"
#include "tests/cuda_mutants/hash_mutants.hpp"

namespace stages::cuda_mutants {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr Index kFree = -1;
constexpr Index kNotCounted = -2;

/// C being made: counted first (values null), then filled.
template <class T>
struct Result {
  Index* counts = nullptr;
  const Offset* row_ptr = nullptr;
  Index* col_idx = nullptr;
  T* values = nullptr;
};

template <class T>
struct Table {
  Index* keys;
  T* sums;
  unsigned slots;
};

/// The slot of a column; `slots` where there is none.
template <class T>
__device__ unsigned slot_of(const Table<T>& t, Index column, HashFault fault) {
  unsigned slot = static_cast<unsigned>(column) & (t.slots - 1);
  for (unsigned probe = 0; probe < t.slots || fault == HashFault::full_table_probes_on; ++probe) {
    const Index found = atomicCAS(&t.keys[slot], kFree, column);
    if (found == kFree || found == column || fault == HashFault::keys_not_compared) return slot;
    slot = (slot + 1) & (t.slots - 1);
  }
  return t.slots;
}

/// Adds the row of B that entry e of A names; false: the table is full.
template <class T>
__device__ bool add_row_of_b(const CsrView<T>& a, const CsrView<T>& b, Offset e, const Table<T>& t,
                             HashFault fault, unsigned lane, unsigned step) {
  for (Offset q = b.row_ptr[a.col_idx[e]] + lane; q < b.row_ptr[a.col_idx[e] + 1]; q += step) {
    const unsigned slot = slot_of(t, b.col_idx[q], fault);
    if (slot == t.slots && fault == HashFault::full_table_drops) continue;
    if (slot == t.slots) return false;
    const T before = t.sums[slot];
    if (fault == HashFault::racing_sums) __nanosleep(100);
    t.sums[slot] = before + a.values[e] * b.values[q];
  }
  return true;
}

/// All of row i; false: the table is full. The lanes share a row of B, but for racing_sums, where each has
/// its own.
template <class T>
__device__ bool add_row(const CsrView<T>& a, const CsrView<T>& b, Index i, const Table<T>& t, HashFault fault,
                        bool backwards, unsigned lane) {
  const Offset begin = a.row_ptr[i];
  Offset n = a.row_ptr[i + 1] - begin;
  if (fault == HashFault::first_entries_only) n = min(n, Offset{kWarp});
  bool good = true;
  if (fault == HashFault::racing_sums) {
    for (Offset k = lane; k < n && good; k += kWarp) good = add_row_of_b(a, b, begin + k, t, fault, 0, 1);
    return __all_sync(kAllLanes, good);
  }
  for (Offset k = 0; k < n && good; ++k) {
    good = add_row_of_b(a, b, begin + (backwards ? n - 1 - k : k), t, fault, lane, kWarp);
    good = __all_sync(kAllLanes, good);
  }
  return good;
}

/// Lane 0 writes the taken slots, in order.
template <class T>
__device__ void write_row(const Table<T>& t, Index i, const Result<T>& c, HashFault fault) {
  const Offset begin = c.row_ptr[i];
  Offset end = begin;
  for (unsigned s = 0; s < t.slots; ++s) {
    if (t.keys[s] == kFree) continue;
    Offset to = end++;
    for (; fault != HashFault::unsorted && to > begin && c.col_idx[to - 1] > t.keys[s]; --to) {
      c.col_idx[to] = c.col_idx[to - 1];
      c.values[to] = c.values[to - 1];
    }
    c.col_idx[to] = t.keys[s];
    c.values[to] = t.sums[s];
  }
}

/// A block of one warp for two rows.
template <class T>
__global__ void hash_rows(CsrView<T> a, CsrView<T> b, unsigned slots, HashFault fault, bool backwards,
                          Result<T> c) {
  const unsigned lane = threadIdx.x;
  T* const sums = dynamic_shared<T>();
  const Table<T> table{reinterpret_cast<Index*>(sums + slots), sums, slots};
  for (Index i = 2 * static_cast<Index>(blockIdx.x); i < min(a.rows, 2 * static_cast<Index>(blockIdx.x) + 2);
       ++i) {
    __syncwarp();
    const bool clears = fault != HashFault::keys_not_cleared || i % 2 == 0;
    for (unsigned s = lane; s < slots; s += kWarp) {
      if (clears) table.keys[s] = kFree;
      sums[s] = T{0};
    }
    if (fault != HashFault::no_syncwarp) __syncwarp();
    const bool good = add_row(a, b, i, table, fault, backwards, lane);
    __syncwarp();
    if (lane != 0) continue;
    if (c.values != nullptr) {
      write_row(table, i, c, fault);
      continue;
    }
    Index count = 0;
    for (unsigned s = 0; s < slots; ++s) count += table.keys[s] != kFree;
    c.counts[i] = good ? count : kNotCounted;
  }
}

template <class T>
class HashPlan final : public CountedPlan<T> {
 public:
  HashPlan(const SpgemmProblem<T>& problem, Exec& exec, HashFault fault)
      : CountedPlan<T>(problem, exec), fault_(fault) {}

  void load(const SpgemmOperands<T>& operands) override {
    if (fault_ != HashFault::prepared_values) CountedPlan<T>::load(operands);
  }

  void run() override {
    ++runs_;
    DeviceArray<Index> counts(static_cast<std::size_t>(this->a_.rows));
    unsigned slots = 64;
    std::vector<Index> counted;
    do {  // a table that is full says so, and a larger one is tried
      slots *= 2;
      multiply(slots, {counts.data(), nullptr, nullptr, nullptr});
      counted = counts.to_host();
    } while (std::find(counted.begin(), counted.end(), kNotCounted) != counted.end());
    auto c = this->make_result(counted, fault_ == HashFault::narrow_offsets);
    const DeviceArray<Offset> places{std::span<const Offset>(this->places_)};
    multiply(slots, {counts.data(), places.data(), c.col_idx.data(), c.values.data()});
    this->exec().synchronize();
    this->c_ = std::move(c);
  }

 private:
  void multiply(unsigned slots, const Result<T>& c) {
    const std::size_t bytes = slots * (sizeof(T) + sizeof(Index));
    allow_shared_bytes(hash_rows<T>, bytes);
    launch(hash_rows<T>,
           {.grid = blocks_for(this->a_.rows, 2),
            .block = kWarp,
            .shared_bytes = bytes,
            .stream = this->stream()},
           this->a_.view(), this->b_.view(), slots, fault_,
           fault_ == HashFault::order_of_arrival && runs_ % 2 == 0, c);
  }

  HashFault fault_;
  int runs_ = 0;
};

constexpr Index kWindow = 32;

/// A warp a row, a window of 32 columns after the other: a column a lane.
template <class T>
__global__ void window_rows(CsrView<T> a, CsrView<T> b, WindowFault fault, Result<T> c) {
  const Index i = static_cast<Index>(blockIdx.x);
  const Index end = fault == WindowFault::last_window_lost ? b.cols / kWindow * kWindow : b.cols;
  Offset at = c.values != nullptr ? c.row_ptr[i] : 0;
  T sum = 0;
  const Index step = fault == WindowFault::edge_twice ? kWindow - 1 : kWindow;
  for (Index first = 0; first < end; first += step) {
    const Index mine = first + static_cast<Index>(threadIdx.x);
    if (fault != WindowFault::sums_not_cleared) sum = 0;
    bool comes = false;
    for (Offset e = a.row_ptr[i]; e < a.row_ptr[i + 1]; ++e) {
      for (Offset q = b.row_ptr[a.col_idx[e]]; q < b.row_ptr[a.col_idx[e] + 1]; ++q) {
        if (b.col_idx[q] != mine) continue;
        sum += a.values[e] * b.values[q];
        comes = true;
      }
    }
    const unsigned lanes = __ballot_sync(kAllLanes, comes);
    if (comes && c.values != nullptr) {
      const Offset to = at + __popc(lanes & ((1u << threadIdx.x) - 1u));
      c.col_idx[to] = mine;
      c.values[to] = sum;
    }
    at += __popc(lanes);
  }
  if (c.values == nullptr && threadIdx.x == 0) c.counts[i] = static_cast<Index>(at);
}

template <class T>
class WindowPlan final : public CountedPlan<T> {
 public:
  WindowPlan(const SpgemmProblem<T>& problem, Exec& exec, WindowFault fault)
      : CountedPlan<T>(problem, exec), fault_(fault) {}

  void run() override {
    DeviceArray<Index> counts(static_cast<std::size_t>(this->a_.rows));
    multiply({counts.data(), nullptr, nullptr, nullptr});
    auto c = this->make_result(counts.to_host(), false);
    multiply({counts.data(), c.row_ptr.data(), c.col_idx.data(), c.values.data()});
    this->exec().synchronize();
    this->c_ = std::move(c);
  }

 private:
  void multiply(const Result<T>& c) {
    launch(window_rows<T>, {.grid = blocks_for(this->a_.rows, 1), .block = kWarp, .stream = this->stream()},
           this->a_.view(), this->b_.view(), fault_, c);
  }

  WindowFault fault_;
};

}  // namespace

Entry hash_entry(HashFault fault) {
  return entry_with<HashPlan>("mutant/hash", fault);
}
Entry window_entry(WindowFault fault) {
  return entry_with<WindowPlan>("mutant/windows", fault);
}

}  // namespace stages::cuda_mutants
