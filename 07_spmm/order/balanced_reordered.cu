// SpMM in equal shares of non-zeros, after the rows of A have been put into an order in which neighbours use
// the same rows of B.
//
// The idea: `balanced` (fast/balanced.cu) goes through the rows of A as they come. What a block gathers of B
// at one time, its SM can keep in L1; what all blocks under way gather, L2 can keep. So which rows of A are
// neighbours decides how often a row of B must come from further away. If the matrix has communities and is
// numbered without regard to them, prepare finds them (row_order.cpp), and the same kernels go through A
// community by community.
//
// The kernels know rows by a list of numbers, which prepare renumbers: each row is stored to its old place at
// once, and a product takes no step that `balanced` does not take. Columns keep their numbers, and B stays
// where it is. A row of B in a strip of 32 columns of floats is all of a cache line (of doubles two), so no
// numbering of the columns brings it in with another; and renumbering would have each run copy all of B. Only
// below 32 columns do rows of B share lines; this entry does nothing about that.
//
// Input: any CSR matrix, any number of columns of B. It pays if the order of the rows hides communities, if B
// is larger than the cache that it would come from, and if there are ten thousand products and more to earn
// back the ordering, which takes one thread of the CPU as long as the GPU thousands of products (notes.md,
// "pays after"). Without communities (R-MAT) the rows of B that most non-zeros ask for are in the caches in
// any order. Cost of a product: that of `balanced`. Sources: those of row_order.cpp.

#include <chrono>
#include <limits>
#include <numeric>

#include "07_spmm/fast/balanced.hpp"
#include "07_spmm/order/row_order.hpp"

namespace stages::spmm {
namespace {

/// Non-zeros over which locality is told: about what the groups of a block go through, and about what all
/// blocks do that are under way.
constexpr Offset kBlockWindow = 4096;
constexpr Offset kDeviceWindow = Offset{1} << 20;

template <class T>
class BalancedReordered final : public RowMajorPlan<T> {
 public:
  BalancedReordered(const SpmmProblem<T>& problem, Exec& exec, Granularity granularity)
      : RowMajorPlan<T>(problem, exec) {
    const Csr<T>& a = *problem.a;
    const auto start = std::chrono::steady_clock::now();
    order_ = community_order(a.cols, a.row_ptr, a.col_idx);
    const Csr<T> reordered = with_rows(a, order_);
    order_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

    a_ = to_device(reordered);
    const DeviceArray<Index> order{std::span<const Index>(order_)};
    Shape shape = shape_of(problem);
    shape.fresh = sampled_fresh_share(reordered);
    std::visit(
        [&](auto& on_device) {
          matrix_ = BalancedMatrix<T>(on_device, shape, resolve<T>(granularity, shape), this->stream());
          on_device.row_ptr = {};
        },
        a_);
    matrix_.renumber_rows(order, this->stream());
    this->exec().synchronize();  // before the order on the device is freed
  }

  static Cost cost(const SpmmProblem<T>& problem) {
    return RowMajorPlan<T>::cost(problem).plus_memory(balanced_bytes(problem) +
                                                      sizeof(Index) * static_cast<double>(problem.a->rows));
  }

  std::vector<Metric> metrics() const override {
    const Csr<T>& a = this->a();
    std::vector<Index> as_it_came(order_.size());
    std::iota(as_it_came.begin(), as_it_came.end(), Index{0});
    const auto fresh = [&](std::span<const Index> order, Offset window) {
      return fresh_share(a.cols, a.row_ptr, a.col_idx, order, window);
    };
    const PartitionView view = matrix_.partition().view();
    return {{"order_seconds", order_seconds_, "s"},
            {"fresh_in_block_before", fresh(as_it_came, kBlockWindow), ""},
            {"fresh_in_block", fresh(order_, kBlockWindow), ""},
            {"fresh_in_device_before", fresh(as_it_came, kDeviceWindow), ""},
            {"fresh_in_device", fresh(order_, kDeviceWindow), ""},
            {"shares", static_cast<double>(view.shares), ""},
            {"share_nonzeros", static_cast<double>(matrix_.granularity().share), ""},
            {"strip_columns", static_cast<double>(matrix_.granularity().strip), ""},
            {"rows_cut", static_cast<double>(view.cut_rows), ""},
            {"rows_empty", static_cast<double>(view.empty_rows), ""},
            {"partition_seconds",
             matrix_.partition().seconds().value_or(std::numeric_limits<double>::quiet_NaN()), "s"}};
  }

 protected:
  void multiply(const Product<T>& product) override { matrix_.multiply(product, this->stream()); }

 private:
  std::vector<Index> order_;
  double order_seconds_ = 0;  ///< what reordering adds to prepare: finding the order, and copying A in it
  AnyDeviceCsr<T> a_;         ///< in the new order; without its row pointers
  BalancedMatrix<T> matrix_;
};

}  // namespace

void add_balanced_reordered(Registry& registry, const std::string& name, Granularity granularity) {
  registry.add<BalancedReordered>(
      {.name = name,
       .idea = "balanced, with the rows of A in the order of the communities that prepare finds"},
      granularity);
}

}  // namespace stages::spmm
