// SpGEMM by hashing, with rows in bins: each bin has tables of its size.
//
// The idea: rung 3 clears 64 KB to count a row of 10 results, and three such tables fill an SM. So rows are
// dealt to four bins, and each bin is a launch of its own (row_bins.hpp, row_tables.hpp):
//
//   bin    size of a row    table               blocks that an SM of an H100 holds while it counts
//     0    up to 64         128 slots           32, the most that an SM takes
//     1    up to 512        1,024 slots         32
//     2    up to 2,048      4,096 slots         13
//     3    more             as rung 3: 16,384 slots to count, then global memory: 3
//
// Before counting a row's size is the number of its products, because no more is known then; before
// multiplying it is that of its results. The kernels are rung 3's, for the rows of a list. (A table for each
// row's own size is not to be had: a kernel has one size of shared memory for all of its blocks.)
//
// Two more things are new (row_tables.hpp). Tables are half full at most (but not where bin 3 counts), so a
// probe or two find a slot; rung 3 multiplies in tables that can be full. And the multiplicative hash is in
// all. Where rows are nearly as long as rung 3's table, as on the 27-point stencil, that is a part of the gain.
//
// Input: any CSR matrices. Cost: as rung 3, but to count a row clears 128 slots, or up to 16 for each of its
// products if that is more; to multiply likewise for each result. Two waits of the host more, for the lengths
// of the lists. Memory: rung 3's, and 40 bytes a row.
//
// Source: two passes with bins by products and by results are Y. Nagasaka, A. Nukada and S. Matsuoka's
// ("High-performance and memory-saving sparse general matrix-matrix multiplication for NVIDIA Pascal GPU",
// ICPP 2017).

#include "08_spgemm_multigpu/row_tables.hpp"

namespace stages {
namespace {

using namespace spgemm;

template <class T>
class InBins final : public BinsWithTables<T> {
 public:
  using BinsWithTables<T>::BinsWithTables;

  std::vector<Metric> metrics() const override {
    std::vector<Metric> all;
    for (int k = 0; k < kBins; ++k)
      all.push_back({fmt::format("rows_in_bin_{}", k), static_cast<double>(this->by_results_[k].count), ""});
    return all;
  }

 protected:
  void count(const Structures<Offset>& f, Index* counts) override {
    this->bin_by_products(f, this->half_full());  // counts products, fills the lists (row_bins.hpp)
    this->count_in_bins(f, 0, counts);            // bin after bin (row_tables.hpp)
  }

  void multiply(const Factors<T, Offset>& f, const Index* counts, const Output<T>& c) override {
    this->bin_by_results(counts, this->half_full());  // fills the lists anew (row_bins.hpp)
    this->multiply_bins(f, c);                        // bin after bin (row_tables.hpp)
  }
};

}  // namespace

void add_bins(Registry& registry, const std::string& name, const BinSizes& sizes) {
  registry.add<InBins>({.name = name,
                        .idea = "rows in four bins by their size, each with tables of its own size",
                        .previous = "rows_of_b"},
                       sizes);
}

}  // namespace stages
