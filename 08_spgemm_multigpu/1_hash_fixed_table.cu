// SpGEMM by hashing, one small table a row.
//
// The idea: a row of C is the sum of rows of B. A hash table collects it: the column is the key, the sum is
// the value. How large C becomes is not known before, so all is done twice:
//
//   count      a block of one warp a row. Each lane takes a non-zero of A and walks along its row of B. Keys go
//              into 2,048 slots in shared memory, to slot `column & 2047`, or to the next one if that is
//              taken; atomicCAS settles who gets it. A prefix sum over the rows' counts says where each row
//              begins in C, and C is allocated
//   multiply   the same with values, which are added by atomicAdd; the taken slots are the row
//   sort       the columns of a row must ascend: each row is sorted, in global memory
//
// It is the first form of a course project, made safe. There a row with more than 2,048 results never ended:
// the probe looked for a free slot in a full table. Here such a matrix is refused; the next file is for those.
// The project did not sort: what its form is worth is `symbolic` and `numeric` without `sort`.
//
// Input: matrices A and B with at most 2,048 results in each row of C. Cost: each product twice, with one
// probe or more each; 2,048 slots cleared twice a row. Memory: A, B and C.
//
// Source: a course project on sparse x sparse products by hashing on several GPUs, with its faults mended.
// `Structures`, `Factors` and `Output` are in rows.hpp, `claim` and `kFree` in tables.hpp.

#include <vector>

#include "08_spgemm_multigpu/stage.hpp"
#include "08_spgemm_multigpu/two_passes.hpp"
#include "08_spgemm_multigpu/walks.hpp"

namespace stages {
namespace {

using namespace spgemm;

constexpr unsigned kSlots = 2048;

__device__ unsigned slot_for(Index* keys, Index column, bool& is_new) {
  return claim(keys, kSlots, static_cast<unsigned>(column) & (kSlots - 1), column, is_new);
}

template <class Ptr>
__global__ void __launch_bounds__(kWarp) count_rows(Structures<Ptr> f, Index* counts) {
  __shared__ Index keys[kSlots];
  const Index row = static_cast<Index>(blockIdx.x);
  for (unsigned s = threadIdx.x; s < kSlots; s += kWarp) keys[s] = kFree;
  __syncwarp();
  Index found = 0;
  walk_by_lanes(f, row, threadIdx.x, [&](Index column) {
    bool is_new = false;
    slot_for(keys, column, is_new);
    found += is_new;
    return true;
  });
  found = sum_over_warp(found);
  if (threadIdx.x == 0) counts[row] = found;
}

template <class T, class Ptr>
__global__ void __launch_bounds__(kWarp) multiply_rows(Factors<T, Ptr> f, Output<T> c) {
  __shared__ Index keys[kSlots];
  __shared__ T values[kSlots];
  const Index row = static_cast<Index>(blockIdx.x);
  for (unsigned s = threadIdx.x; s < kSlots; s += kWarp) {
    keys[s] = kFree;
    values[s] = T{0};
  }
  __syncwarp();
  walk_by_lanes(f, row, threadIdx.x, [&](Index column, T product) {
    bool is_new = false;
    atomicAdd(&values[slot_for(keys, column, is_new)], product);
    return true;
  });
  __syncwarp();
  write_taken_slots(keys, values, kSlots, threadIdx.x, c.row_ptr[row], c);
}

/// A row of C that does not fit into the table, and how many results it has at least.
struct Unfit {
  Index row = -1;  ///< -1: there is none
  std::size_t results = 0;
};

/// The first of them. Only rows with many products are looked at, and each until it is too long.
template <class T>
Unfit first_that_does_not_fit(const Csr<T>& a, const Csr<T>& b) {
  std::vector<Index> seen_in(static_cast<std::size_t>(b.cols), -1);
  for (Index i = 0; i < a.rows; ++i) {
    Offset products = 0;
    for (Offset e = a.row_ptr[i]; e < a.row_ptr[i + 1]; ++e) products += b.row_nnz(a.col_idx[e]);
    if (products <= Offset{kSlots}) continue;
    std::size_t results = 0;
    for (Offset e = a.row_ptr[i]; e < a.row_ptr[i + 1] && results <= kSlots; ++e) {
      const Index k = a.col_idx[e];
      for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) {
        Index& seen = seen_in[b.col_idx[q]];
        results += seen != i;
        seen = i;
      }
    }
    if (results > kSlots) return {i, results};
  }
  return {};
}

template <class T>
class HashFixedTable final : public TwoPassPlan<T> {
 public:
  using TwoPassPlan<T>::TwoPassPlan;

  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec&) {
    if (std::min<Offset>(problem.max_row_products, problem.b->cols) <= Offset{kSlots}) return std::nullopt;
    const Unfit unfit = first_that_does_not_fit(*problem.a, *problem.b);
    if (unfit.row < 0) return std::nullopt;
    return fmt::format(
        "row {} of C has {} results or more, and this lesson's table {} slots; see "
        "hash_warp_per_row",
        unfit.row, unfit.results, kSlots);
  }

 protected:
  void count(const Structures<Offset>& f, Index* counts) override {
    launch(count_rows<Offset>, this->a_warp_a_row(this->rows()), f, counts);
  }
  void multiply(const Factors<T, Offset>& f, const Index*, const Output<T>& c) override {
    launch(multiply_rows<T, Offset>, this->a_warp_a_row(this->rows()), f, c);
  }
};

}  // namespace

void add_hash_fixed_table(Registry& registry) {
  registry.add<HashFixedTable>({.name = "08_spgemm_multigpu/hash_fixed_table",
                                .idea = "a warp a row, one table of 2,048 slots, sums by atomicAdd",
                                .claims = {.bitwise_reproducible = false}});
}

}  // namespace stages
