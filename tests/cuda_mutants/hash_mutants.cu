// SpGEMM by a hash table a row, with planted faults. The host places rows.

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/cuda_mutants/faulty_plan.hpp"

namespace stages::cuda_mutants {
namespace {

constexpr Index kFree = -1;
constexpr Index kNotCounted = -2;

/// C being made: counted first (row_ptr null), then filled.
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
__device__ unsigned slot_of(const Table<T>& t, Index column, Fault fault) {
  unsigned slot = static_cast<unsigned>(column) & (t.slots - 1);
  for (unsigned probe = 0; probe < t.slots || fault == Fault::full_table_probes_on; ++probe) {
    const Index found = atomicCAS(&t.keys[slot], kFree, column);
    if (found == kFree || found == column) return slot;
    slot = (slot + 1) & (t.slots - 1);
  }
  return t.slots;
}

/// Adds the row of B that entry e of A names; false: the table is full.
template <class T>
__device__ bool add_row_of_b(const CsrView<T>& a, const CsrView<T>& b, Offset e, const Table<T>& t,
                             Fault fault, unsigned lane, unsigned step) {
  for (Offset q = b.row_ptr[a.col_idx[e]] + lane; q < b.row_ptr[a.col_idx[e] + 1]; q += step) {
    const unsigned slot = slot_of(t, b.col_idx[q], fault);
    if (slot == t.slots) return false;
    const T before = t.sums[slot];
    if (fault == Fault::racing_sums) __nanosleep(100);
    t.sums[slot] = before + a.values[e] * b.values[q];
  }
  return true;
}

/// All of row i; false: the table is full. The lanes share a row of B, but for racing_sums, where each has
/// its own.
template <class T>
__device__ bool add_row(const CsrView<T>& a, const CsrView<T>& b, Index i, const Table<T>& t, Fault fault,
                        bool backwards, unsigned lane) {
  const Offset begin = a.row_ptr[i];
  const Offset n = a.row_ptr[i + 1] - begin;
  bool good = true;
  if (fault == Fault::racing_sums) {
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
__device__ void write_row(const Table<T>& t, Index i, const Result<T>& c, Fault fault) {
  const Offset begin = c.row_ptr[i];
  Offset end = begin;
  for (unsigned s = 0; s < t.slots; ++s) {
    if (t.keys[s] == kFree) continue;
    Offset to = end++;
    for (; fault != Fault::unsorted && to > begin && c.col_idx[to - 1] > t.keys[s]; --to) {
      c.col_idx[to] = c.col_idx[to - 1];
      c.values[to] = c.values[to - 1];
    }
    c.col_idx[to] = t.keys[s];
    c.values[to] = t.sums[s];
  }
}

/// A block of one warp for two rows.
template <class T>
__global__ void hash_rows(CsrView<T> a, CsrView<T> b, unsigned slots, Fault fault, bool backwards,
                          Result<T> c) {
  const unsigned lane = threadIdx.x;
  T* const sums = dynamic_shared<T>();
  const Table<T> table{reinterpret_cast<Index*>(sums + slots), sums, slots};
  for (Index i = 2 * static_cast<Index>(blockIdx.x); i < min(a.rows, 2 * static_cast<Index>(blockIdx.x) + 2);
       ++i) {
    __syncwarp();
    for (unsigned s = lane; s < slots; s += kWarp) {
      table.keys[s] = kFree;
      sums[s] = T{0};
    }
    __syncwarp();
    const bool good = add_row(a, b, i, table, fault, backwards, lane);
    __syncwarp();
    if (lane != 0) continue;
    if (c.row_ptr != nullptr) {
      write_row(table, i, c, fault);
      continue;
    }
    Index count = 0;
    for (unsigned s = 0; s < slots; ++s) count += table.keys[s] != kFree;
    c.counts[i] = good ? count : kNotCounted;
  }
}

/// The host adds up the counts, and makes C.
template <class T>
class HashPlan final : public FaultySpgemm<T> {
 public:
  HashPlan(const SpgemmProblem<T>& problem, Exec& exec, Fault fault)
      : FaultySpgemm<T>(problem, exec, fault), b_(*problem.b) {}

  void load(const SpgemmOperands<T>& operands) override {
    this->matrix_.values.upload(operands.a_values, this->stream());
    b_.values.upload(operands.b_values, this->stream());
    this->exec().synchronize();
  }

  void run() override {
    ++runs_;
    DeviceArray<Index> counts(static_cast<std::size_t>(this->matrix_.rows));
    unsigned slots = 64;
    std::vector<Index> counted;
    do {  // a table that is full says so, and a larger one is tried
      slots *= 2;
      multiply(slots, {.counts = counts.data()});
      counted = counts.to_host();
    } while (std::find(counted.begin(), counted.end(), kNotCounted) != counted.end());
    std::vector<Offset> row_ptr(counted.size() + 1, 0);
    std::partial_sum(counted.begin(), counted.end(), row_ptr.begin() + 1, std::plus<Offset>());
    DeviceCsr<T, Offset> c;
    c.rows = this->matrix_.rows;
    c.cols = b_.cols;
    c.row_ptr = DeviceArray<Offset>(std::span<const Offset>(row_ptr));
    c.col_idx = DeviceArray<Index>(static_cast<std::size_t>(row_ptr.back()));
    c.values = DeviceArray<T>(static_cast<std::size_t>(row_ptr.back()));
    c.values.fill_bytes(0xFF, this->stream());
    if (this->has(Fault::narrow_offsets))
      for (Offset& place : row_ptr) place = static_cast<std::uint16_t>(place);
    const DeviceArray<Offset> places{std::span<const Offset>(row_ptr)};  // where the kernel puts the rows
    multiply(slots, {nullptr, places.data(), c.col_idx.data(), c.values.data()});
    this->exec().synchronize();
    this->c_ = std::move(c);
  }

 private:
  void multiply(unsigned slots, const Result<T>& c) {
    const std::size_t bytes = slots * (sizeof(T) + sizeof(Index));
    allow_shared_bytes(hash_rows<T>, bytes);
    launch(hash_rows<T>,
           {.grid = blocks_for(this->matrix_.rows, 2),
            .block = kWarp,
            .shared_bytes = bytes,
            .stream = this->stream()},
           this->matrix_.view(), b_.view(), slots, this->fault_,
           this->has(Fault::order_of_arrival) && runs_ % 2 == 0, c);
  }

  DeviceCsr<T, Offset> b_;
  int runs_ = 0;
};

}  // namespace

Entry hash_entry(Fault fault) { return entry_with<HashPlan>("mutant/hash", fault); }

}  // namespace stages::cuda_mutants
