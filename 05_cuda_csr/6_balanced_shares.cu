// SpMV from CSR, equal shares of the non-zeros, wherever rows begin and end.
//
// The idea: in 5_warp_per_row.cu a row is the unit of work, so the longest row decides. Here the unit is a
// share of 256 non-zeros, one for each warp. A warp multiplies its share, and leaves the products in shared
// memory. Then lane l takes row number l, l + 32, ... of those that *end* in this share, and adds up those of
// its products that are here. The last row goes on in the next share: what it has so far is the *carry*.
//
//   share              0                 1                  2
//   non-zeros          0 ........... 255 256 .......... 511 512 ...
//   rows of 200, 400   row 0    | row 1 ........................... | row 2
//   stored             y[0], carry: sum   carry: sum of      y[1]: sum of its last 88, and more rows
//                      of 56 of row 1     256 of row 1
//
// A second small kernel adds the carries to the rows that lie in several shares, in a fixed order, without
// atomics, so every run gives the same bits. The first row of each share is looked up once, in prepare (the
// plan's constructor).
//
// What is wrong with it: a warp waits for the lane with the longest piece of a row; where rows are long, one
// or two lanes add up to 256 products while the others have nothing to do. And there are two launches.
// fast/balanced.cu does without either. And rows without non-zeros are not counted as work: a share in which a
// million of them end keeps its warp busy. (A *merge path* counts rows, too.)
//
// Input: any CSR matrix of less than 2^31 non-zeros. Cost: the bytes of 4_full_warp_per_row.cu, and about 4 +
// 2 x sizeof(T) a share. Memory: 4 + sizeof(T) bytes a share.
//
// Sources: carries that are fixed up afterwards are in D. Merrill and M. Garland, "Merge-based parallel sparse
// matrix-vector multiplication" (SC 2016); rows summed from shared memory are CSR-Stream of J. L. Greathouse
// and M. Daga (SC 2014).

#include "05_cuda_csr/csr_plan.hpp"
#include "05_cuda_csr/stage.hpp"

namespace stages {
namespace {

constexpr unsigned kWarps = 8;    ///< of a block
constexpr unsigned kShare = 256;  ///< non-zeros of a warp

template <class T>
struct Shares {
  unsigned count = 0;
  const Index* first_row = nullptr;  ///< the first row that ends in the share or later; count + 1 of them
  T* carry = nullptr;                ///< of each share: the sum of the row that goes on
};

/// y = A x without the carries.
template <class T>
__global__ void balanced_shares(CsrView<T, LessonPtr> a, Shares<T> shares, const T* x, T* y) {
  __shared__ T all_products[kWarps][kShare];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const unsigned share = blockIdx.x * kWarps + warp;
  if (share >= shares.count) return;  // the whole warp leaves
  T* products = all_products[warp];
  const LessonPtr begin = LessonPtr(share * kShare);
  const LessonPtr end = begin + min(LessonPtr{kShare}, a.row_ptr[a.rows] - begin);
#pragma unroll 8  // a whole share: its loads are under way together
  for (LessonPtr p = begin + LessonPtr(lane); p < end; p += LessonPtr{kWarp}) {
    products[p - begin] = a.values[p] * x[a.col_idx[p]];
  }
  __syncwarp();
  const Index goes_on = shares.first_row[share + 1];  // a.rows after the last share
  for (Index row = shares.first_row[share] + Index(lane); row <= goes_on && row < a.rows; row += kWarp) {
    const LessonPtr from = max(begin, a.row_ptr[row]), to = min(end, a.row_ptr[row + 1]);
    T sum = 0;
    for (LessonPtr p = from; p < to; ++p) sum += products[p - begin];
    if (row < goes_on) {
      y[row] = sum;
    } else {
      shares.carry[share] = sum;
    }
  }
}

/// A warp a share: adds to the first row that ends there the carries of the shares before, from its beginning.
template <class T>
__global__ void add_carries(CsrView<T, LessonPtr> a, Shares<T> shares, T* y) {
  const unsigned share = blockIdx.x * kWarps + threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (share >= shares.count) return;  // the whole warp leaves
  const Index row = shares.first_row[share];
  if (row == shares.first_row[share + 1]) return;  // no row ends here
  const unsigned from = unsigned(a.row_ptr[row]) / kShare;
  T sum = 0;
  for (unsigned before = from + lane; before < share; before += kWarp) sum += shares.carry[before];
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d);
  if (lane == 0 && from < share) y[row] += sum;
}

/// Of each share the first row that ends in it or later; then the number of rows.
template <class T>
std::vector<Index> first_rows(const Csr<T>& a) {
  std::vector<Index> rows{0};
  for (Offset begin = kShare; begin < a.nnz(); begin += kShare) {
    const auto end = std::upper_bound(a.row_ptr.begin() + 1, a.row_ptr.end(), begin);
    rows.push_back(static_cast<Index>(end - a.row_ptr.begin() - 1));
  }
  rows.push_back(a.rows);
  return rows;
}

template <class T>
class BalancedShares final : public CsrSpmvPlan<T> {
 public:
  BalancedShares(const SpmvProblem<T>& problem, Exec& exec)
      : CsrSpmvPlan<T>(problem, exec),
        first_row_(std::span<const Index>(first_rows(*problem.a))),
        carry_(first_row_.size() - 1) {}

  static Cost cost(const SpmvProblem<T>& problem) {
    return CsrSpmvPlan<T>::cost(problem).plus_memory((sizeof(Index) + sizeof(T)) *
                                                     static_cast<double>(problem.a->nnz() / kShare + 2));
  }

 protected:
  void multiply(const CsrView<T, LessonPtr>& a, const T* x, T* y, cudaStream_t stream) override {
    const Shares<T> shares{static_cast<unsigned>(carry_.size()), first_row_.data(), carry_.data()};
    const LaunchConfig config{
        .grid = blocks_for(shares.count, kWarps), .block = kWarps * kWarp, .stream = stream};
    launch(balanced_shares<T>, config, a, shares, x, y);
    launch(add_carries<T>, config, a, shares, y);
  }

 private:
  DeviceArray<Index> first_row_;
  DeviceArray<T> carry_;
};

}  // namespace

void add_balanced_shares(Registry& registry) {
  registry.add<BalancedShares>(
      {.name = "05_cuda_csr/balanced_shares",
       .idea = "256 non-zeros per warp, whatever the rows; what goes on is carried by a second kernel",
       .previous = "warp_per_row"});
}

}  // namespace stages
