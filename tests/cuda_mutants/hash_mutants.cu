// SpGEMM with planted faults: by a hash table a row, and by what step 8's rungs do beyond one: rows in bins and
// batches, short rows sorted, long ones in bitmaps and windows. The host places rows.

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

/// The host adds up the counts, and makes C.
template <class T>
class CountedPlan : public FaultySpgemm<T> {
 public:
  CountedPlan(const SpgemmProblem<T>& problem, Exec& exec, Fault fault)
      : FaultySpgemm<T>(problem, exec, fault), b_(*problem.b) {}

  void load(const SpgemmOperands<T>& operands) override {
    this->matrix_.values.upload(operands.a_values, this->stream());
    b_.values.upload(operands.b_values, this->stream());
    this->exec().synchronize();
  }

 protected:
  unsigned rows() const { return static_cast<unsigned>(this->matrix_.rows); }

  /// A C with these row lengths, and nothing in it.
  void make_result(const std::vector<Index>& counts) {
    std::vector<Offset> row_ptr(counts.size() + 1, 0);
    std::partial_sum(counts.begin(), counts.end(), row_ptr.begin() + 1, std::plus<Offset>());
    made_ = {};
    made_.rows = this->matrix_.rows;
    made_.cols = b_.cols;
    made_.row_ptr = DeviceArray<Offset>(std::span<const Offset>(row_ptr));
    made_.col_idx = DeviceArray<Index>(static_cast<std::size_t>(row_ptr.back()));
    made_.values = DeviceArray<T>(static_cast<std::size_t>(row_ptr.back()));
    made_.values.fill_bytes(0xFF, this->stream());
    if (this->has(Fault::narrow_offsets))
      for (Offset& place : row_ptr) place = static_cast<std::uint16_t>(place);
    places_ = DeviceArray<Offset>(std::span<const Offset>(row_ptr));
  }
  Result<T> to_fill() { return {nullptr, places_.data(), made_.col_idx.data(), made_.values.data()}; }
  void finish() {
    this->exec().synchronize();
    this->c_ = std::move(made_);
  }

  DeviceCsr<T, Offset> b_;

 private:
  DeviceCsr<T, Offset> made_;
  DeviceArray<Offset> places_;  ///< where the kernel puts the rows
};

// ---- a hash table a row -----------------------------------------------------------------------------------

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
    if (found == kFree || found == column || fault == Fault::keys_not_compared) return slot;
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
    if (slot == t.slots && fault == Fault::full_table_drops) continue;
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
  Offset n = a.row_ptr[i + 1] - begin;
  if (fault == Fault::first_entries_only) n = min(n, Offset{kWarp});
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
    const bool clears = fault != Fault::keys_not_cleared || i % 2 == 0;
    for (unsigned s = lane; s < slots; s += kWarp) {
      if (clears) table.keys[s] = kFree;
      sums[s] = T{0};
    }
    if (fault != Fault::no_syncwarp) __syncwarp();
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

template <class T>
class HashPlan final : public CountedPlan<T> {
 public:
  using CountedPlan<T>::CountedPlan;

  void load(const SpgemmOperands<T>& operands) override {
    if (!this->has(Fault::prepared_values)) CountedPlan<T>::load(operands);
  }

  void run() override {
    ++runs_;
    DeviceArray<Index> counts(this->rows());
    unsigned slots = 64;
    std::vector<Index> counted;
    do {  // a table that is full says so, and a larger one is tried
      slots *= 2;
      multiply(slots, {.counts = counts.data()});
      counted = counts.to_host();
    } while (std::find(counted.begin(), counted.end(), kNotCounted) != counted.end());
    this->make_result(counted);
    multiply(slots, this->to_fill());
    this->finish();
  }

 private:
  void multiply(unsigned slots, const Result<T>& c) {
    const std::size_t bytes = slots * (sizeof(T) + sizeof(Index));
    allow_shared_bytes(hash_rows<T>, bytes);
    launch(hash_rows<T>,
           {.grid = blocks_for(this->rows(), 2),
            .block = kWarp,
            .shared_bytes = bytes,
            .stream = this->stream()},
           this->matrix_.view(), this->b_.view(), slots, this->fault_,
           this->has(Fault::order_of_arrival) && runs_ % 2 == 0, c);
  }

  int runs_ = 0;
};

// ---- rows in bins: sorted, or in windows that move along them ---------------------------------------------

constexpr Offset kProducts = 2048;             ///< no case has more in a row
constexpr Index kBorder = 40;                  ///< the bin of short rows goes up to here
constexpr std::size_t kAtOnce = 4;             ///< rows of a batch
constexpr Index kWords = 4;                    ///< of a window's bitmap
constexpr Index kWindow = kWords * Index{32};  ///< columns

/// A row of the list, by one thread: products sorted by column and number, neighbours added.
template <class T>
__global__ void sort_rows(CsrView<T> a, CsrView<T> b, const Index* list, Fault fault, Result<T> c) {
  __shared__ Offset keys[kProducts];
  __shared__ T products[kProducts];
  const Index row = list[blockIdx.x];
  Offset n = 0;
  for (Offset e = a.row_ptr[row]; e < a.row_ptr[row + 1]; ++e) {
    for (Offset q = b.row_ptr[a.col_idx[e]]; q < b.row_ptr[a.col_idx[e] + 1]; ++q, ++n) {
      products[n] = a.values[e] * b.values[q];
      Offset to = n;
      const Offset key = b.col_idx[q] * kProducts + n;
      for (; to > 0 && keys[to - 1] > key; --to) keys[to] = keys[to - 1];
      keys[to] = key;
    }
  }
  Offset out = c.row_ptr[row] - 1;
  for (Offset i = 0; i < n; ++i) {
    const Offset column = keys[i] / kProducts;
    const T product = products[fault == Fault::unnumbered_keys ? i : keys[i] % kProducts];
    const bool cut = fault == Fault::runs_cut_at_lanes && i % 4 == 0;
    const bool is_first = i == 0 || keys[i - 1] / kProducts != column || cut;
    if (is_first && ++out == c.row_ptr[row + 1]) return;  // stay in the row's place
    c.col_idx[out] = static_cast<Index>(column);
    c.values[out] = is_first ? product : c.values[out] + product;
  }
}

/// A row of the list by a warp, a window after the other: a bitmap, and sums that go to the ranks of their
/// columns.
template <class T>
__global__ void window_rows(CsrView<T> a, CsrView<T> b, const Index* list, Fault fault, Result<T> c) {
  __shared__ unsigned words[kWords];
  __shared__ T sums[kWindow];
  const Index row = list[blockIdx.x], lane = static_cast<Index>(threadIdx.x);
  const bool fills = c.row_ptr != nullptr;
  const Index end = fault == Fault::last_window_lost ? b.cols / kWindow * kWindow : b.cols;
  const Offset begin = fills ? c.row_ptr[row] : 0;
  Offset at = begin;
  for (Index first = 0; first < end; first += fault == Fault::edge_twice ? kWindow - 1 : kWindow) {
    if (lane < kWords) words[lane] = 0;
    for (Index j = lane; j < kWindow; j += Index{kWarp})
      if (first == 0 || fault != Fault::sums_not_cleared) sums[j] = T{0};
    __syncwarp();
    for (Offset e = a.row_ptr[row]; e < a.row_ptr[row + 1]; ++e) {
      for (Offset q = b.row_ptr[a.col_idx[e]] + lane; q < b.row_ptr[a.col_idx[e] + 1]; q += kWarp) {
        const Index j = b.col_idx[q] - first;
        if (j < 0 || j >= kWindow) continue;
        atomicOr(&words[j / 32], 1u << (j % 32));
        sums[j] += a.values[e] * b.values[q];
      }
      __syncwarp();
    }
    Index before[kWords], bits = 0;
    Offset out = at;
    for (Index w = 0; w < kWords; ++w) {
      before[w] = bits;
      bits = fault == Fault::words_not_numbered ? __popc(words[w]) : bits + __popc(words[w]);
      for (unsigned left = words[w]; left != 0; left &= left - 1, ++out) {
        if (fills && lane == 0) c.col_idx[out] = first + w * 32 + __ffs(static_cast<int>(left)) - 1;
      }
    }
    for (Index j = lane; fills && j < kWindow; j += Index{kWarp}) {
      const unsigned bit = 1u << (j % 32);
      if ((words[j / 32] & bit) != 0)
        c.values[at + before[j / 32] + __popc(words[j / 32] & (bit - 1))] = sums[j];
    }
    at = out;
    __syncwarp();
  }
  if (!fills && lane == 0) c.counts[row] = static_cast<Index>(at - begin);
}

template <class T, bool kSorts>
class BinPlan final : public CountedPlan<T> {
 public:
  using CountedPlan<T>::CountedPlan;

  void run() override {
    std::vector<Index> all(this->rows()), shorter, longer;
    std::iota(all.begin(), all.end(), Index{0});
    DeviceArray<Index> counts(all.size());
    multiply<false>(all, all.size(), {.counts = counts.data()});
    const std::vector<Index> counted = counts.to_host();
    this->make_result(counted);
    for (const Index i : all) {
      const Index count = counted[static_cast<std::size_t>(i)];
      const bool on_border = count == kBorder && this->has(Fault::border_in_no_bin);
      if (!on_border) (count <= kBorder ? shorter : longer).push_back(i);
    }
    multiply<kSorts>(shorter, kAtOnce, this->to_fill());
    multiply<kSorts>(longer, kAtOnce, this->to_fill());
    this->finish();
  }

 private:
  template <bool kBySorting>
  void multiply(const std::vector<Index>& rows, std::size_t at_once, const Result<T>& c) {
    const DeviceArray<Index> list{std::span<const Index>(rows)};
    for (std::size_t first = 0; first < rows.size(); first += at_once) {
      const std::size_t begin = this->has(Fault::batch_begins_again) ? 0 : first;
      const auto n = static_cast<unsigned>(std::min(at_once, rows.size() - first));
      launch(kBySorting ? sort_rows<T> : window_rows<T>,
             {.grid = n, .block = kBySorting ? 1 : kWarp, .stream = this->stream()}, this->matrix_.view(),
             this->b_.view(), list.data() + begin, this->fault_, c);
    }
    this->exec().synchronize();  // before the list goes
  }
};

template <class T>
using SortingPlan = BinPlan<T, true>;
template <class T>
using WindowPlan = BinPlan<T, false>;

}  // namespace

Entry hash_entry(Fault fault) {
  return entry_with<HashPlan>("mutant/hash", fault);
}
Entry sorting_entry(Fault fault) {
  return entry_with<SortingPlan>("mutant/sorting", fault);
}
Entry window_entry(Fault fault) {
  return entry_with<WindowPlan>("mutant/windows", fault);
}

}  // namespace stages::cuda_mutants
