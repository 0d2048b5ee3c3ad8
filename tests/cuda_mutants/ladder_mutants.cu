// What step 8's rungs do beyond a hash table in shared memory, with planted faults: long rows in batches, rows
// in bins, short rows sorted, long ones in bitmaps.

#include <algorithm>
#include <vector>

#include "common/gpu/cuda.hpp"
#include "tests/cuda_mutants/counted_plan.hpp"
#include "tests/cuda_mutants/hash_mutants.hpp"

namespace stages::cuda_mutants {
namespace {

constexpr unsigned kWarp = 32;
constexpr Index kColumns = 4096;    ///< no case has more
constexpr Offset kProducts = 2048;  ///< nor more products in a row
constexpr Index kBorder = 40;       ///< the bin of short rows goes up to here
constexpr std::size_t kAtOnce = 4;  ///< rows of a batch

template <class T>
struct Result {
  const Offset* row_ptr = nullptr;
  Index* col_idx = nullptr;
  T* values = nullptr;
};

/// The results of a row, by a bit for each column. A warp a row.
template <class T>
__global__ void count_rows(CsrView<T> a, CsrView<T> b, Index* counts) {
  __shared__ unsigned words[kColumns / 32];
  const Index row = static_cast<Index>(blockIdx.x);
  for (Index w = static_cast<Index>(threadIdx.x); w < kColumns / 32; w += Index{kWarp}) words[w] = 0;
  __syncwarp();
  for (Offset e = a.row_ptr[row]; e < a.row_ptr[row + 1]; ++e) {
    const Offset to = b.row_ptr[a.col_idx[e] + 1];
    for (Offset q = b.row_ptr[a.col_idx[e]] + threadIdx.x; q < to; q += kWarp)
      atomicOr(&words[b.col_idx[q] / 32], 1u << (b.col_idx[q] % 32));
  }
  __syncwarp();
  if (threadIdx.x > 0) return;
  Index found = 0;
  for (const unsigned word : words) found += __popc(word);
  counts[row] = found;
}

/// A row of the list, by one thread: products sorted by column and number, neighbours added.
template <class T>
__global__ void sort_rows(CsrView<T> a, CsrView<T> b, const Index* list, LadderFault fault, Result<T> c) {
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
    const T product = products[fault == LadderFault::unnumbered_keys ? i : keys[i] % kProducts];
    const bool cut = fault == LadderFault::runs_cut_at_lanes && i % 4 == 0;
    const bool is_first = i == 0 || keys[i - 1] / kProducts != column || cut;
    if (is_first && ++out == c.row_ptr[row + 1]) return;  // stay in the row's place
    c.col_idx[out] = static_cast<Index>(column);
    c.values[out] = is_first ? product : c.values[out] + product;
  }
}

/// A row of the list by a warp: a bitmap, the bits before each word, sums at the ranks of their columns.
template <class T>
__global__ void rank_rows(CsrView<T> a, CsrView<T> b, const Index* list, LadderFault fault, Result<T> c) {
  __shared__ unsigned words[kColumns / 32];
  __shared__ Index before[kColumns / 32];
  const Index row = list[blockIdx.x];
  const auto for_products = [&](auto visit) {
    for (Offset e = a.row_ptr[row]; e < a.row_ptr[row + 1]; ++e) {
      const Offset to = b.row_ptr[a.col_idx[e] + 1];
      for (Offset q = b.row_ptr[a.col_idx[e]] + threadIdx.x; q < to; q += kWarp) visit(b.col_idx[q], e, q);
      __syncwarp();
    }
  };
  for (Index w = static_cast<Index>(threadIdx.x); w < kColumns / 32; w += Index{kWarp}) words[w] = 0;
  __syncwarp();
  for_products([&](Index column, Offset, Offset) { atomicOr(&words[column / 32], 1u << (column % 32)); });
  if (threadIdx.x == 0) {
    Index bits = 0;
    Offset out = c.row_ptr[row];
    for (Index w = 0; w < kColumns / 32; ++w) {
      before[w] = bits;
      bits = fault == LadderFault::words_not_numbered ? __popc(words[w]) : bits + __popc(words[w]);
      for (unsigned left = words[w]; left != 0; left &= left - 1) {
        c.col_idx[out] = w * 32 + __ffs(static_cast<int>(left)) - 1;
        c.values[out++] = T{0};
      }
    }
  }
  __syncwarp();
  for_products([&](Index column, Offset e, Offset q) {
    const unsigned below = words[column / 32] & ((1u << (column % 32)) - 1u);
    c.values[c.row_ptr[row] + before[column / 32] + __popc(below)] += a.values[e] * b.values[q];
  });
}

template <class T>
class LadderPlan final : public CountedPlan<T> {
 public:
  LadderPlan(const SpgemmProblem<T>& problem, Exec& exec, LadderFault form, LadderFault fault)
      : CountedPlan<T>(problem, exec), form_(form), fault_(fault) {}

  void run() override {
    DeviceArray<Index> counts(static_cast<std::size_t>(this->a_.rows));
    launch(count_rows<T>, {.grid = blocks_for(this->a_.rows, 1), .block = kWarp, .stream = this->stream()},
           this->a_.view(), this->b_.view(), counts.data());
    const std::vector<Index> counted = counts.to_host();
    auto c = this->make_result(counted, false);
    std::vector<Index> shorter, longer;
    for (Index i = 0; i < this->a_.rows; ++i) {
      const Index size = counted[static_cast<std::size_t>(i)];
      const bool on_border = size == kBorder && fault_ == LadderFault::border_in_no_bin;
      if (!on_border) (size <= kBorder ? shorter : longer).push_back(i);
    }
    multiply(shorter, {c.row_ptr.data(), c.col_idx.data(), c.values.data()});
    multiply(longer, {c.row_ptr.data(), c.col_idx.data(), c.values.data()});
    this->exec().synchronize();
    this->c_ = std::move(c);
  }

 private:
  void multiply(const std::vector<Index>& rows, const Result<T>& c) {
    const bool sorts = form_ == LadderFault::unnumbered_keys || form_ == LadderFault::runs_cut_at_lanes;
    const DeviceArray<Index> list{std::span<const Index>(rows)};
    for (std::size_t first = 0; first < rows.size(); first += kAtOnce) {
      const std::size_t begin = fault_ == LadderFault::batch_begins_again ? 0 : first;
      const auto n = static_cast<Offset>(std::min(kAtOnce, rows.size() - first));
      launch(sorts ? sort_rows<T> : rank_rows<T>,
             {.grid = blocks_for(n, 1), .block = sorts ? 1 : kWarp, .stream = this->stream()},
             this->a_.view(), this->b_.view(), list.data() + begin, fault_, c);
    }
    this->exec().synchronize();  // before the list goes
  }

  LadderFault form_, fault_;
};

}  // namespace

Entry ladder_entry(LadderFault form, LadderFault fault) {
  return entry_with<LadderPlan>("mutant/ladder", form, fault);
}

}  // namespace stages::cuda_mutants
