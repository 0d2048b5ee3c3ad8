// SpMV from CSR, a sub-warp a row.
//
// The idea: on short rows most lanes of 4_full_warp_per_row.cu find nothing to do. So a row gets a sub-warp
// of 2 to 32 lanes: the largest power of two not above the mean row length. A warp then takes 32 / lanes rows
// at once. The number of lanes is a template parameter, so that the compiler unrolls the shuffles.
//
// All lanes of the warp must come to the shuffles. Those of sub-warps beyond the last row come too: they
// carry an empty row through.
//
// Input: any CSR matrix of less than 2^31 non-zeros. Cost: as 4_full_warp_per_row.cu, with fewer idle lanes,
// where rows are alike. A row many times as long as the mean has no more lanes than others, and keeps them busy
// long after these have finished. On graphs with a few very long rows (youtube) this is therefore several times
// as slow as 4_full_warp_per_row.cu (README); where the mean is 32 or more (reddit) the two are the same.
//
// Source: sub-warps between a thread and a warp are in CUSP (S. Dalton and others).

#include "05_cuda_csr/csr_plan.hpp"
#include "05_cuda_csr/stage.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 256;

template <unsigned kLanes, class T>
__global__ void warp_per_row(CsrView<T, LessonPtr> a, const T* x, T* y) {
  const Offset row = (Offset{blockIdx.x} * kBlock + threadIdx.x) / kLanes;
  const unsigned lane = threadIdx.x % kLanes;
  const bool has_row = row < a.rows;
  const LessonPtr begin = has_row ? a.row_ptr[row] : 0, end = has_row ? a.row_ptr[row + 1] : 0;
  T sum = 0;
  for (LessonPtr p = begin + LessonPtr(lane); p < end; p += LessonPtr{kLanes}) {
    sum += a.values[p] * x[a.col_idx[p]];
  }
  for (unsigned d = kLanes / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d, kLanes);
  if (has_row && lane == 0) y[row] = sum;
}

template <class T>
class WarpPerRow final : public CsrSpmvPlan<T> {
 public:
  WarpPerRow(const SpmvProblem<T>& problem, Exec& exec)
      : CsrSpmvPlan<T>(problem, exec), lanes_(lanes_for_mean_row(*problem.a)) {}
  std::vector<Metric> metrics() const override {
    return {{"lanes_per_row", static_cast<double>(lanes_), ""}};
  }

 protected:
  void multiply(const CsrView<T, LessonPtr>& a, const T* x, T* y, cudaStream_t stream) override {
    const LaunchConfig config{.grid = blocks_for(a.rows, kBlock / lanes_), .block = kBlock, .stream = stream};
    if (lanes_ == 2) launch(warp_per_row<2, T>, config, a, x, y);
    if (lanes_ == 4) launch(warp_per_row<4, T>, config, a, x, y);
    if (lanes_ == 8) launch(warp_per_row<8, T>, config, a, x, y);
    if (lanes_ == 16) launch(warp_per_row<16, T>, config, a, x, y);
    if (lanes_ == 32) launch(warp_per_row<32, T>, config, a, x, y);
  }

 private:
  unsigned lanes_;
};

}  // namespace

void add_warp_per_row(Registry& registry) {
  registry.add<WarpPerRow>({.name = "05_cuda_csr/warp_per_row",
                            .idea = "2 to 32 lanes per row, by the mean row length; sums by shuffles",
                            .previous = "full_warp_per_row"});
}

}  // namespace stages
