#pragma once
// The frame of step 8's exercises for C = A B on a GPU, with a hash table for each row of C. Nobody knows how
// long the rows of C are. So a first pass counts the results of each row, a prefix sum over the counts makes
// row pointers, and a second pass writes columns and values, which are then sorted. Here are the tables, what
// a warp does before and after the products of a row, and the order of all that. An exercise has the search
// for a slot, and the kernel.

#include <bit>

#include "common/gpu/scan.hpp"
#include "micro/gpu.hpp"

namespace stages::micro {

inline constexpr Index kFree = -1;                    ///< a slot without a column
inline constexpr std::uint64_t kMostSlots = 1 << 24;  ///< of all tables

/// Tables in device memory, one a block: number b at slots [b * slots, (b + 1) * slots). Slot s has the column
/// keys[s], or kFree, and sums[s] is what was added up for it.
template <class T>
struct Tables {
  Index* keys = nullptr;
  T* sums = nullptr;
  unsigned slots = 0;  ///< a power of two, at least 32
  unsigned count = 0;  ///< how many there are

  /// The table of this block.
  __device__ Tables mine() const {
    const std::size_t begin = std::size_t{blockIdx.x} * slots;
    return {keys + begin, sums + begin, slots, count};
  }
  /// Makes all slots of this table free. A warp does it together.
  __device__ void clear(unsigned lane) const {
    for (unsigned s = lane; s < slots; s += kWarp) {
      keys[s] = kFree;
      sums[s] = T{0};
    }
    __syncwarp();
  }
};

/// Where results go. The first pass has `counts` alone: how many results has row i? In the second pass row i is
/// at positions row_ptr[i] .. row_ptr[i + 1] - 1 of col_idx and values.
template <class T>
struct Results {
  Index* counts = nullptr;
  const Offset* row_ptr = nullptr;
  Index* col_idx = nullptr;
  T* values = nullptr;

  /// The results of a row, from the slots of its table that are taken, in their order. A warp does it together.
  __device__ void take(const Tables<T>& table, Offset row, unsigned lane) const {
    Offset out = values != nullptr ? row_ptr[row] : 0;
    for (unsigned s = lane; s < table.slots; s += kWarp) {
      const bool is_taken = table.keys[s] != kFree;
      const unsigned taken = __ballot_sync(kAllLanes, is_taken);
      if (is_taken && values != nullptr) {
        const Offset to = out + __popc(taken & ((1u << lane) - 1u));
        col_idx[to] = table.keys[s];
        values[to] = table.sums[s];
      }
      out += __popc(taken);
    }
    if (values == nullptr && lane == 0) counts[row] = static_cast<Index>(out);
    __syncwarp();
  }
};

/// Sorts n columns, and values with them if there are any. A warp does it together: bitonic, in the form in
/// which the smaller one always goes to the left, so that n need not be a power of two.
template <class T>
__device__ void sort_row(Index* columns, T* values, unsigned n, unsigned lane) {
  const auto compare = [=](unsigned apart) {
    for (unsigned i = lane; i < n; i += kWarp) {
      const unsigned j = i ^ apart;
      if (i > j || j >= n || columns[i] <= columns[j]) continue;
      const Index column = columns[i];
      columns[i] = columns[j];
      columns[j] = column;
      if (values == nullptr) continue;
      const T value = values[i];
      values[i] = values[j];
      values[j] = value;
    }
    __syncwarp();
  };
  for (unsigned half = 1; half < n; half *= 2) {
    compare(2 * half - 1);
    for (unsigned apart = half / 2; apart > 0; apart /= 2) compare(apart);
  }
}

/// A warp a row.
template <class T>
__global__ void sort_rows(Results<T> c) {
  const Offset begin = c.row_ptr[blockIdx.x], end = c.row_ptr[blockIdx.x + 1];
  sort_row(c.col_idx + begin, c.values + begin, static_cast<unsigned>(end - begin), threadIdx.x);
}

/// A frame (registry.hpp): multiply(a, b, tables, c, stream) launches the exercise's kernel with as many warps
/// as there are tables, a block each: block b has the rows b, b + gridDim.x, ... It is called for each of both
/// passes, with tables that have at least twice as many slots as any row has results.
template <class T>
class TableSpgemm : public DeviceSpgemmPlan<T> {
 public:
  using View = CsrView<T, Offset>;
  using Multiply = void(const View& a, const View& b, const Tables<T>& tables, const Results<T>& c,
                        cudaStream_t stream);

  TableSpgemm(const SpgemmProblem<T>& problem, Exec& exec)
      : DeviceSpgemmPlan<T>(problem, exec), a_(*problem.a), b_(*problem.b) {}

  void load(const SpgemmOperands<T>& operands) override {
    a_.values.upload(operands.a_values, this->stream());
    b_.values.upload(operands.b_values, this->stream());
    this->exec().synchronize();
  }

  void run() override {
    const auto rows = static_cast<std::size_t>(a_.rows);
    DeviceArray<Index> counts(rows);
    count(counts);
    DeviceCsr<T, Offset> c;
    c.row_ptr = DeviceArray<Offset>(rows + 1);
    PrefixSum<Index, Offset>().run(counts.data(), c.row_ptr.data(), a_.rows, this->stream());
    const auto results = static_cast<std::size_t>(c.row_ptr.to_host().back());
    c.col_idx = DeviceArray<Index>(results);
    c.values = DeviceArray<T>(results);
    if (results > 0) write({nullptr, c.row_ptr.data(), c.col_idx.data(), c.values.data()});
    this->exec().synchronize();
    this->c_ = std::move(c);
  }

 protected:
  virtual void multiply(const View& a, const View& b, const Tables<T>& tables, const Results<T>& c,
                        cudaStream_t stream) = 0;

  /// The first pass.
  virtual void count(DeviceArray<Index>& counts) {
    const SpgemmProblem<T>& p = this->problem();
    const Offset results = std::max<Offset>(16, std::min<Offset>(p.max_row_products, b_.cols));
    make_tables(std::bit_ceil(2 * static_cast<std::uint64_t>(results)));
    pass({.counts = counts.data()});
  }
  /// The second pass.
  virtual void write(const Results<T>& c) {
    pass(c);
    launch(sort_rows<T>, {.grid = blocks_for(a_.rows, 1), .block = kWarp, .stream = this->stream()}, c);
  }

  /// As many tables of `slots` slots as there are rows, or as there is room for.
  void make_tables(std::uint64_t slots) {
    const auto fit = static_cast<Offset>(kMostSlots / slots);
    const auto count = static_cast<unsigned>(std::min<Offset>(std::max<Offset>(1, fit), a_.rows));
    keys_ = DeviceArray<Index>(slots * count);
    sums_ = DeviceArray<T>(slots * count);
    tables_ = {keys_.data(), sums_.data(), static_cast<unsigned>(slots), count};
  }
  void pass(const Results<T>& c) { multiply(a_.view(), b_.view(), tables_, c, this->stream()); }
  unsigned blocks() const { return tables_.count; }  ///< for hand-ins with a class of their own

 private:
  DeviceCsr<T, Offset> a_, b_;
  DeviceArray<Index> keys_;
  DeviceArray<T> sums_;
  Tables<T> tables_;
};

}  // namespace stages::micro
