// SpGEMM by hashing, one table of 2,048 slots a row.
//
// The idea: a row of C is the sum of rows of B. A hash table collects it: the column is the key, the sum is
// the value. How large C becomes is not known before, so all is done twice (two_passes.hpp):
//
//   count      a block of one warp a row. Each lane takes a non-zero of A and walks along its row of B. Keys go
//              into 2,048 slots in shared memory; where a slot is taken, the next one is tried (claim() in
//              tables.hpp, with an atomic compare-and-swap). A prefix sum over the rows' counts says where each
//              row begins in C, and C is allocated
//   multiply   the same with values, which are added by atomicAdd; the taken slots are the row
//   sort       the columns of a row must ascend: each row is sorted, in global memory
//
// It is the first form of a course project ("D4"), made safe. There a row with more than 2,048 results never
// ended: the probe looked for a free slot in a full table. Here a matrix with such a row is refused.
//
// Input: matrices A and B with at most 2,048 results in each row of C. Cost: each product twice, with one probe
// or more each; 2,048 slots cleared twice a row. Memory: A, B and C.

#include "08_spgemm_multigpu/stage.hpp"
#include "08_spgemm_multigpu/two_passes.hpp"

namespace stages {
namespace {

using namespace spgemm;

constexpr unsigned kSlots = 2048;

template <class T>
__global__ void __launch_bounds__(kWarp) count_rows(View<T> a, View<T> b, Index* counts) {
  __shared__ Index keys[kSlots];
  for (unsigned s = threadIdx.x; s < kSlots; s += kWarp) keys[s] = kFree;
  __syncwarp();
  Index found = 0;
  for (Offset e = a.row_ptr[blockIdx.x] + threadIdx.x; e < a.row_ptr[blockIdx.x + 1]; e += kWarp) {
    const Index k = a.col_idx[e];
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
      bool is_new;
      claim(keys, kSlots, b.col_idx[q], is_new);
      found += is_new;
    }
  }
  found = sum_over_warp(found);
  if (threadIdx.x == 0) counts[blockIdx.x] = found;
}

template <class T>
__global__ void __launch_bounds__(kWarp) multiply_rows(View<T> a, View<T> b, Output<T> c) {
  __shared__ Index keys[kSlots];
  __shared__ T values[kSlots];
  for (unsigned s = threadIdx.x; s < kSlots; s += kWarp) {
    keys[s] = kFree;
    values[s] = T{0};
  }
  __syncwarp();
  for (Offset e = a.row_ptr[blockIdx.x] + threadIdx.x; e < a.row_ptr[blockIdx.x + 1]; e += kWarp) {
    const Index k = a.col_idx[e];
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
      bool is_new;
      const unsigned slot = claim(keys, kSlots, b.col_idx[q], is_new);
      atomicAdd(&values[slot], a.values[e] * b.values[q]);
    }
  }
  __syncwarp();
  write_taken_slots(keys, values, kSlots, threadIdx.x, c.row_ptr[blockIdx.x], c);
}

/// The results of the longest row of C, or of the first that has more than the table has slots.
template <class T>
Offset longest_row(const Csr<T>& a, const Csr<T>& b) {
  std::vector<Index> seen_in(static_cast<std::size_t>(b.cols), -1);
  Offset longest = 0;
  for (Index i = 0; i < a.rows && longest <= Offset{kSlots}; ++i) {
    Offset results = 0;
    for (Offset e = a.row_ptr[i]; e < a.row_ptr[i + 1]; ++e) {
      for (const Index column : row_columns(b, a.col_idx[e]))
        results += std::exchange(seen_in[static_cast<std::size_t>(column)], i) != i;
    }
    longest = std::max(longest, results);
  }
  return longest;
}

template <class T>
class HashFixedTable final : public TwoPassPlan<T> {
 public:
  using TwoPassPlan<T>::TwoPassPlan;

  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec&) {
    if (problem.max_row_products <= Offset{kSlots}) return std::nullopt;
    const Offset longest = longest_row(*problem.a, *problem.b);
    if (longest <= Offset{kSlots}) return std::nullopt;
    return fmt::format("a row of C has {} results, and this lesson's table {} slots; see hash_warp_per_row",
                       longest, kSlots);
  }

 protected:
  void count(View<T> a, View<T> b, const Index*, Index* counts) override {
    launch(count_rows<T>, this->a_warp_a_row(), a, b, counts);
  }
  void multiply(View<T> a, View<T> b, const Index*, const Output<T>& c) override {
    launch(multiply_rows<T>, this->a_warp_a_row(), a, b, c);
  }
};

}  // namespace

void add_hash_fixed_table(Registry& registry) {
  registry.add<HashFixedTable>({.name = "08_spgemm_multigpu/hash_fixed_table",
                                .idea = "a warp a row, one table of 2,048 slots, sums by atomicAdd",
                                .claims = {.bitwise_reproducible = false}});
}

}  // namespace stages
