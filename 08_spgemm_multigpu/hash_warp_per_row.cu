// SpGEMM by hashing, a block of 32 threads a row.
//
// The idea: a row of C is the sum of rows of B. A table with an open place for each column collects it: the
// column is the key, the sum the value. How large C becomes is not known before, so all is done twice:
//
//   count      a block of one warp a row, the lanes over the row's entries of A, each walking along its row
//              of B; the keys go into a table of 16,384 slots in shared memory (64 KB, which a kernel must
//              ask for) with `column & (slots - 1)`, the next slot where that is taken, and atomicCAS. The
//              lanes' counts are added by shuffles. Then a prefix sum and the allocation of C
//   multiply   the same with values, added by atomicAdd. Rows with more than 4,096 results are listed and
//              have their values in global memory; all others use one size of table, the smallest power of
//              two that holds the longest of them
//   sort       the tables are written out in the order of the slots, so the columns of each row must be
//              sorted afterwards: a bitonic sort in place
//
// A table can be full. The original probed on for ever then; here a column that finds no slot within 256
// probes ends the count of its row, which goes to the next form: keys and values in global memory, in a table
// with twice the slots that any row needs. There a multiplicative hash finds the slot. `column & (slots - 1)`
// would not do: in a skewed graph the low columns are nearly all there, those a multiple of `slots` further
// on come on top of them, and a column walks over thousands of taken slots in a table that is not even full.
//
// It is kept as it was otherwise, for what it teaches: each row clears 64 KB to count, whatever its length;
// three such blocks of one warp fill an SM; one size of table is wrong for nearly all rows; lanes that walk
// along rows of B read far apart; sums by atomicAdd come out in another order, and with other last bits, in
// each run. binned.cu takes up each of them.
//
// Input: any CSR matrices. Cost: each product twice, with a probe or more each; 16,384 slots cleared a row.
// Memory: A, B, C, and for long rows at most 256 MiB of tables (or one table, where that is larger).
//
// Source: a course project on sparse x sparse products by hashing on several GPUs, with its faults mended.

#include <algorithm>
#include <bit>

#include "08_spgemm_multigpu/stage.hpp"
#include "08_spgemm_multigpu/tables.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"
#include "common/gpu/scan.hpp"

namespace stages {
namespace {

using spgemm::claim;
using spgemm::Factors;
using spgemm::home_of;
using spgemm::kAllLanes;
using spgemm::kFree;
using spgemm::kFull;
using spgemm::kWarp;
using spgemm::Output;
using spgemm::RowList;
using spgemm::Structures;

constexpr double kTableBytes = 256.0 * (1U << 20);  ///< of the tables in global memory

/// Where a column would like to be, in the original's tables.
struct Masked {
  static __device__ unsigned home(Index column, unsigned slots) {
    return static_cast<unsigned>(column) & (slots - 1);
  }
};

/// The same in tables that rows go to for which those will not do.
struct Multiplied {
  static __device__ unsigned home(Index column, unsigned slots) { return home_of(column, slots); }
};

/// Rows of two kinds of form beyond the first, in device memory.
struct Lists {
  Index* rows = nullptr;
  Index* count = nullptr;  ///< how many
};

/// Tables in global memory, one a block: number b at slots [b * slots, (b + 1) * slots).
template <class T>
struct Tables {
  Index* keys = nullptr;
  T* values = nullptr;
  Offset slots = 0;
};

/// Calls visit(column, entry of A, position in B) for the products of a row, a lane an entry of A, until one
/// of them returns false, which is returned in every lane.
template <class Ptr, class Visit>
__device__ bool walk_by_lanes(const Structures<Ptr>& f, Index row, unsigned lane, Visit visit) {
  bool good = true;
  const Ptr end = f.a.row_ptr[row + 1];
  for (Ptr e = f.a.row_ptr[row] + static_cast<Ptr>(lane); good && e < end; e += static_cast<Ptr>(kWarp)) {
    const Index k = f.a.col_idx[e];
    for (Ptr q = f.b.row_ptr[k]; good && q < f.b.row_ptr[k + 1]; ++q) good = visit(f.b.col_idx[q], e, q);
  }
  return __all_sync(kAllLanes, good);
}

/// Counts a row in a table; false: a column found no slot within so many probes.
template <class Hash, class Ptr>
__device__ bool count_row(const Structures<Ptr>& f, Index row, Index* keys, unsigned slots,
                          unsigned most_probes, unsigned lane, Index* counts) {
  for (unsigned s = lane; s < slots; s += kWarp) keys[s] = kFree;
  __syncwarp();
  Index found = 0;
  const bool good = walk_by_lanes(f, row, lane, [&](Index column, Ptr, Ptr) {
    bool is_new = false;
    const unsigned slot = claim(keys, slots, Hash::home(column, slots), column, is_new, most_probes);
    found += is_new;
    return slot != kFull;
  });
  for (unsigned d = kWarp / 2; d > 0; d /= 2) found += __shfl_down_sync(kAllLanes, found, d);
  if (lane == 0 && good) counts[row] = found;
  return good;
}

/// A block a row. Rows for which the table is too full go to the list `full`, and are marked.
template <class Ptr>
__global__ void __launch_bounds__(kWarp) count_rows(Structures<Ptr> f, unsigned slots, unsigned most_probes,
                                                    Index* counts, Lists full, unsigned char* is_full) {
  const Index row = static_cast<Index>(blockIdx.x);
  const bool good =
      count_row<Masked>(f, row, dynamic_shared<Index>(), slots, most_probes, threadIdx.x, counts);
  if (threadIdx.x > 0) return;
  is_full[row] = !good;
  if (!good) full.rows[atomicAdd(full.count, 1)] = row;
}

/// Those rows again, with keys in global memory.
template <class Ptr>
__global__ void __launch_bounds__(kWarp)
    count_full_rows(Structures<Ptr> f, RowList list, Index* keys, unsigned slots, Index* counts) {
  Index* const mine = keys + std::size_t{blockIdx.x} * slots;
  count_row<Multiplied>(f, list.rows[blockIdx.x], mine, slots, slots, threadIdx.x, counts);
}

/// Lists the rows with more than `most` results, and finds the longest of the others. A thread a row.
__global__ void list_long_rows(const Index* counts, Index rows, Index most, Lists lists, Index* longest) {
  const Offset row = Offset{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  if (counts[row] > most) {
    lists.rows[atomicAdd(lists.count, 1)] = static_cast<Index>(row);
  } else {
    atomicMax(longest, counts[row]);
  }
}

/// Adds up a row in a table that holds it, and writes it out in the order of the slots.
template <class Hash, class T, class Ptr>
__device__ void multiply_row(const Factors<T, Ptr>& f, Index row, Index* keys, T* values, unsigned slots,
                             unsigned lane, const Output<T>& c) {
  for (unsigned s = lane; s < slots; s += kWarp) {
    keys[s] = kFree;
    values[s] = T{0};
  }
  __syncwarp();
  walk_by_lanes(f.structures(), row, lane, [&](Index column, Ptr e, Ptr q) {
    bool is_new = false;
    const unsigned slot = claim(keys, slots, Hash::home(column, slots), column, is_new);
    atomicAdd(&values[slot], f.a.values[e] * f.b.values[q]);
    return true;
  });
  __syncwarp();
  Offset out = c.row_ptr[row];
  for (unsigned first = 0; first < slots; first += kWarp) {
    const unsigned s = first + lane;
    const Index column = s < slots ? keys[s] : kFree;
    const unsigned taken = __ballot_sync(kAllLanes, column != kFree);
    if (column != kFree) {
      const Offset to = out + __popc(taken & spgemm::lanes_below(lane));
      c.col_idx[to] = column;
      c.values[to] = values[s];
    }
    out += __popc(taken);
  }
}

/// A block a row, for rows with at most `most` results; the others leave at once.
template <class T, class Ptr>
__global__ void __launch_bounds__(kWarp)
    multiply_rows(Factors<T, Ptr> f, Index most, unsigned slots, Output<T> c) {
  const Index row = static_cast<Index>(blockIdx.x);
  const Offset results = c.row_ptr[row + 1] - c.row_ptr[row];
  if (results == 0 || results > most) return;
  T* const values = dynamic_shared<T>();
  multiply_row<Masked>(f, row, reinterpret_cast<Index*>(values + slots), values, slots, threadIdx.x, c);
}

/// A block a row of the list. Keys are in shared memory where that was enough to count them, values never.
/// `shared_slots` is not more than the slots of the tables.
template <class T, class Ptr>
__global__ void __launch_bounds__(kWarp)
    multiply_long_rows(Factors<T, Ptr> f, RowList list, const unsigned char* is_full, unsigned shared_slots,
                       Tables<T> tables, Output<T> c) {
  const Index row = list.rows[blockIdx.x];
  const std::size_t begin = std::size_t{blockIdx.x} * static_cast<std::size_t>(tables.slots);
  T* const values = tables.values + begin;
  if (is_full[row] == 0) {
    multiply_row<Masked>(f, row, dynamic_shared<Index>(), values, shared_slots, threadIdx.x, c);
  } else {
    multiply_row<Multiplied>(f, row, tables.keys + begin, values, static_cast<unsigned>(tables.slots),
                             threadIdx.x, c);
  }
}

/// A block a row: columns ascending, values with them.
template <class T>
__global__ void __launch_bounds__(kWarp) sort_rows(Output<T> c) {
  const Offset begin = c.row_ptr[blockIdx.x];
  const Index results = static_cast<Index>(c.row_ptr[blockIdx.x + 1] - begin);
  Index* const columns = c.col_idx + begin;
  T* const values = c.values + begin;
  spgemm::sort_ascending(
      results, threadIdx.x, kWarp,
      [=](unsigned i, unsigned j) {
        const Index low = columns[i], high = columns[j];
        if (low <= high) return;
        const T kept = values[i];
        columns[i] = high;
        columns[j] = low;
        values[i] = values[j];
        values[j] = kept;
      },
      [] { __syncwarp(); });
}

/// The smallest power of two that holds n.
Offset power_of_two(Offset n) {
  return static_cast<Offset>(std::bit_ceil(static_cast<std::uint64_t>(std::max<Offset>(n, 1))));
}

/// What no row of C exceeds.
template <class T>
Offset longest_row(const SpgemmProblem<T>& problem) {
  return std::min<Offset>(problem.max_row_products, problem.b->cols);
}

/// Slots of a table in global memory: it holds any row, and is half full at most (of more than 2^30 columns:
/// full).
template <class T>
Offset table_slots(const SpgemmProblem<T>& problem) {
  return std::min(power_of_two(2 * longest_row(problem)), Offset{1} << 31);
}

/// Whether a row may need one.
template <class T>
bool needs_tables(const SpgemmProblem<T>& problem, const HashSizes& sizes) {
  return longest_row(problem) > std::min({sizes.shared_results, sizes.count_slots, sizes.most_probes});
}

/// Sizes whose tables a block of this device can have.
template <class T>
HashSizes fitted(HashSizes sizes) {
  const auto room = static_cast<Offset>(device_facts().shared_per_block_optin);
  while (sizes.count_slots * Offset{sizeof(Index)} > room) sizes.count_slots /= 2;
  while (power_of_two(sizes.shared_results) * Offset{sizeof(Index) + sizeof(T)} > room)
    sizes.shared_results /= 2;
  return sizes;
}

template <class T>
class HashWarpPerRow final : public SpgemmPlan<T> {
 public:
  HashWarpPerRow(const SpgemmProblem<T>& problem, Exec& exec, const HashSizes& sizes)
      : exec_(as_gpu(exec)),
        sizes_(fitted<T>(sizes)),
        most_slots_(table_slots(problem)),
        a_(*problem.a),
        b_(*problem.b),
        counts_(static_cast<std::size_t>(a_.rows)),
        list_(static_cast<std::size_t>(a_.rows)),
        is_full_(static_cast<std::size_t>(a_.rows)),
        numbers_(2),
        read_(2),
        total_(1) {
    scan_.reserve(a_.rows);
    if (needs_tables(problem, sizes_)) make_tables();
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    const Csr<T>&a = *problem.a, &b = *problem.b;
    const HashSizes sizes;
    cost.work += static_cast<double>(sizes.count_slots) / kWarp * a.rows;
    const double entry = sizeof(Index) + sizeof(T);
    cost.memory +=
        entry * static_cast<double>(a.nnz() + b.nnz()) + 8.0 * (b.rows + 1.0) + 17.0 * (a.rows + 1.0);
    if (needs_tables(problem, sizes))
      cost.memory += std::max(kTableBytes, entry * static_cast<double>(table_slots(problem)));
    return cost;
  }

  void load(const SpgemmOperands<T>& operands) override {
    a_.values.upload(operands.a_values, stream());
    b_.values.upload(operands.b_values, stream());
    exec_.synchronize();
  }
  void reset() override { c_ = {}; }

  void run() override {
    c_ = {};
    count();
    {
      Phase phase(exec_, "allocation");
      c_.col_idx = DeviceArray<Index>(static_cast<std::size_t>(total_[0]));
      c_.values = DeviceArray<T>(static_cast<std::size_t>(total_[0]));
    }
    multiply();
    Phase phase(exec_, "sort");
    launch(sort_rows<T>, {.grid = blocks_for(a_.rows, 1), .block = kWarp, .stream = stream()}, output());
  }

  Csr<T> fetch() override {
    Csr<T> c(a_.rows, b_.cols);
    c.col_idx.resize(c_.col_idx.size());
    c.values.resize(c_.values.size());
    c_.row_ptr.download(c.row_ptr, stream());
    c_.col_idx.download(c.col_idx, stream());
    c_.values.download(c.values, stream());
    exec_.synchronize();
    return c;
  }

  std::vector<Metric> metrics() const override {
    return {{"rows_that_filled_the_table", static_cast<double>(full_rows_), ""},
            {"rows_in_global_memory", static_cast<double>(long_rows_), ""},
            {"slots", static_cast<double>(slots_), ""}};
  }

 private:
  cudaStream_t stream() const { return exec_.stream(); }
  Factors<T, Offset> factors() const { return {a_.view(), b_.view()}; }
  Output<T> output() { return {c_.row_ptr.data(), 0, c_.col_idx.data(), c_.values.data()}; }
  Lists lists() { return {list_.data(), numbers_.data()}; }

  void make_tables() {
    const double bytes = static_cast<double>(most_slots_) * static_cast<double>(sizeof(Index) + sizeof(T));
    const double at_once = std::clamp(kTableBytes / bytes, 1.0, std::max(1.0, double{1} * a_.rows));
    const auto slots = static_cast<std::size_t>(at_once) * static_cast<std::size_t>(most_slots_);
    table_keys_ = DeviceArray<Index>(slots);
    table_values_ = DeviceArray<T>(slots);
  }

  /// Calls with(rows) for parts of the list that the tables in global memory hold at once.
  template <class With>
  void by_tables(Index count, With&& with) {
    if (count == 0) return;
    const auto at_once = static_cast<Index>(table_keys_.size() / static_cast<std::size_t>(most_slots_));
    for (Index first = 0; first < count; first += std::min(at_once, count - first))
      with(RowList{list_.data() + first, std::min(at_once, count - first)});
  }

  /// Row pointers, and numbers_: how many rows are on the list of long ones, and the longest of the others.
  void count() {
    Phase phase(exec_, "symbolic");
    const auto f = factors().structures();
    const auto slots = static_cast<unsigned>(sizes_.count_slots);
    const std::size_t bytes = slots * sizeof(Index);
    numbers_.zero(stream());
    allow_shared_bytes(count_rows<Offset>, bytes);
    launch(count_rows<Offset>,
           {.grid = blocks_for(a_.rows, 1), .block = kWarp, .shared_bytes = bytes, .stream = stream()}, f,
           slots, static_cast<unsigned>(sizes_.most_probes), counts_.data(), lists(), is_full_.data());
    full_rows_ = read_numbers();
    by_tables(full_rows_, [&](RowList list) {
      launch(count_full_rows<Offset>, {.grid = blocks_for(list.count, 1), .block = kWarp, .stream = stream()},
             f, list, table_keys_.data(), static_cast<unsigned>(most_slots_), counts_.data());
    });
    c_.row_ptr = DeviceArray<Offset>(static_cast<std::size_t>(a_.rows) + 1);
    scan_.run(counts_.data(), c_.row_ptr.data(), a_.rows, stream());
    numbers_.zero(stream());
    launch(list_long_rows, {.grid = blocks_for(a_.rows, 256), .block = 256, .stream = stream()},
           counts_.data(), a_.rows, sizes_.shared_results, lists(), numbers_.data() + 1);
    STAGES_CUDA(cudaMemcpyAsync(total_.data(), c_.row_ptr.data() + a_.rows, sizeof(Offset),
                                cudaMemcpyDeviceToHost, stream()));
    long_rows_ = read_numbers();
    slots_ = power_of_two(read_[1]);  // at most that of sizes_.shared_results
  }

  void multiply() {
    Phase phase(exec_, "numeric");
    const std::size_t bytes = static_cast<std::size_t>(slots_) * (sizeof(Index) + sizeof(T));
    allow_shared_bytes(multiply_rows<T, Offset>, bytes);
    launch(multiply_rows<T, Offset>,
           {.grid = blocks_for(a_.rows, 1), .block = kWarp, .shared_bytes = bytes, .stream = stream()},
           factors(), sizes_.shared_results, static_cast<unsigned>(slots_), output());
    const auto key_slots = static_cast<unsigned>(sizes_.count_slots);
    const std::size_t key_bytes = key_slots * sizeof(Index);
    allow_shared_bytes(multiply_long_rows<T, Offset>, key_bytes);
    by_tables(long_rows_, [&](RowList list) {
      const Tables<T> tables{table_keys_.data(), table_values_.data(), most_slots_};
      launch(
          multiply_long_rows<T, Offset>,
          {.grid = blocks_for(list.count, 1), .block = kWarp, .shared_bytes = key_bytes, .stream = stream()},
          factors(), list, is_full_.data(), std::min(key_slots, static_cast<unsigned>(most_slots_)), tables,
          output());
    });
  }

  /// numbers_ on the host; the first of them.
  Index read_numbers() {
    numbers_.download(read_, stream());
    exec_.synchronize();
    return read_[0];
  }

  GpuExec& exec_;
  HashSizes sizes_;
  Offset most_slots_;  ///< of a table in global memory
  DeviceCsr<T, Offset> a_, b_, c_;
  DeviceArray<Index> counts_, list_;
  DeviceArray<unsigned char> is_full_;  ///< the table in shared memory would not do for the row
  DeviceArray<Index> table_keys_;
  DeviceArray<T> table_values_;
  DeviceArray<Index> numbers_;
  PinnedArray<Index> read_;
  PinnedArray<Offset> total_;
  PrefixSum<Index, Offset> scan_;
  Index full_rows_ = 0, long_rows_ = 0;
  Offset slots_ = 0;
};

}  // namespace

void add_hash_warp_per_row(Registry& registry, const std::string& name, const HashSizes& sizes) {
  registry.add<HashWarpPerRow>({.name = name,
                                .idea = "a block of 32 threads a row, one size of hash table, atomicAdd",
                                .claims = {.bitwise_reproducible = false},
                                .needs = {.gpu = true}},
                               sizes);
}

}  // namespace stages
