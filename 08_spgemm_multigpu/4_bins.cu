// SpGEMM by hashing, with rows in bins: each bin has tables of its size.
//
// The idea: rung 3 clears 64 KB to count a row of 10 results, and three such tables fill an SM. So rows are
// dealt to five bins by their size, and each bin is a launch of its own, with the kernels of rung 3:
//
//   bin    size of a row    table          floats    blocks that an SM of an H100 holds while it adds up
//     0    up to 64         128 slots      1 KB      32, the most that an SM takes
//     1    up to 512        1,024 slots    8 KB      25
//     2    up to 2,048      4,096 slots    32 KB     6
//     3    up to 4,096      8,192 slots    64 KB     3, as in rung 3 for all of these
//     4    more             in global memory
//
// Before counting a row's size is the number of its products, because no more is known then; before
// multiplying it is that of its results. (One launch has one size of shared memory for all of its blocks.)
//
// What remains: each launch has a block for every row, and most of them leave at once. A row of three results
// still takes a table, a warp and a sort.
//
// Input: any CSR matrices. Cost: as rung 3, but a row clears 128 slots, or up to 16 for each of its products
// (to multiply: results) if that is more. Memory: rung 3's.
//
// Source: two passes with bins by products and by results are Y. Nagasaka, A. Nukada and S. Matsuoka's
// ("High-performance and memory-saving sparse general matrix-matrix multiplication for NVIDIA Pascal GPU",
// ICPP 2017).

#include "08_spgemm_multigpu/bins.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages {
namespace spgemm {

template <class T>
void BinsPlan<T>::count(View<T> a, View<T> b, const Index* products, Index* counts) {
  Index more = 0;
  for (const Index slots : slots_) {
    this->count_in_shared(a, b, bin(products, more, slots / 2), slots, counts);
    more = slots / 2;
  }
  this->count_long(a, b, bin(products, more, Rows{}.most), counts);
}

template <class T>
void BinsPlan<T>::multiply(View<T> a, View<T> b, const Index* results, const Output<T>& c) {
  Index more = 0;
  for (const Index slots : slots_) {
    this->multiply_in_shared(a, b, bin(results, more, slots / 2), slots, c);
    more = slots / 2;
  }
  this->multiply_long(a, b, bin(results, more, Rows{}.most), c);
}

template class BinsPlan<float>;
template class BinsPlan<double>;

}  // namespace spgemm

void add_bins(Registry& registry, const std::string& name, const BinSlots& slots) {
  registry.add<spgemm::BinsPlan>({.name = name,
                                  .idea = "rows in five bins by their size, each with tables of its own size",
                                  .previous = "rows_of_b"},
                                 slots);
}

}  // namespace stages
