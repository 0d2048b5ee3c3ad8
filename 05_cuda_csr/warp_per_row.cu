// SpMV from CSR, a warp or a part of one per row.
//
// The idea: the entries of a row lie side by side, so let neighbouring threads take neighbouring entries. A
// row gets a team of W lanes; lane l takes entries l, l + W, l + 2W and so on, and in the end the team's
// partial sums are added by shuffles, in a fixed order. W = 32 is the warp per row of textbooks. On short
// rows most of its lanes would find nothing to do, so W is the power of two between 2 and 32 next below the
// mean row length, and a warp takes 32 / W rows at once.
//
// All lanes of the warp must come to the shuffles, those of teams beyond the last row too: they carry an
// empty row through.
//
// Input: any CSR matrix. Cost: as thread_per_row.cu, with coalesced loads; the longest row takes a W-th of
// the time that it took there. A row W times as long as the mean still keeps its team busy long after the
// others.
//
// Source: N. Bell and M. Garland, "Implementing sparse matrix-vector multiplication on throughput-oriented
// processors" (SC 2009), which has the thread and the warp per row; teams between the two are in CUSP.

#include <bit>

#include "05_cuda_csr/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 256;
constexpr unsigned kAllLanes = 0xffffffffu;

template <unsigned kTeam, class T, class Ptr>
__global__ void __launch_bounds__(kBlock) multiply(CsrView<T, Ptr> a, const T* x, T* y) {
  const unsigned row = blockIdx.x * (kBlock / kTeam) + threadIdx.x / kTeam;
  const unsigned lane = threadIdx.x % kTeam;
  const bool has_row = row < static_cast<unsigned>(a.rows);
  const Ptr begin = has_row ? a.row_ptr[row] : 0;
  const Ptr end = has_row ? a.row_ptr[row + 1] : 0;
  T sum = 0;
#pragma unroll 4
  for (Ptr p = begin + static_cast<Ptr>(lane); p < end; p += static_cast<Ptr>(kTeam)) {
    sum += __ldcs(a.values + p) * x[__ldcs(a.col_idx + p)];
  }
  for (unsigned d = kTeam / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d, kTeam);
  if (has_row && lane == 0) y[row] = sum;
}

/// The power of two between 2 and 32 next below the mean row length.
template <class T>
unsigned team_for(const Csr<T>& a) {
  const Offset mean = a.rows == 0 ? 0 : a.nnz() / a.rows;
  return static_cast<unsigned>(std::bit_floor(static_cast<std::uint64_t>(std::clamp<Offset>(mean, 2, 32))));
}

template <class T>
class WarpPerRow final : public DeviceSpmvPlan<T> {
 public:
  WarpPerRow(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec), matrix_(to_device(*problem.a)), team_(team_for(*problem.a)) {}

  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.memory += device_csr_bytes(*problem.a);
    return cost;
  }

  std::vector<Metric> metrics() const override { return {{"lanes_per_row", static_cast<double>(team_), ""}}; }

 protected:
  void product(const T* x, T* y) override {
    std::visit([&](const auto& a) { multiply_with(a.view(), x, y); }, matrix_);
  }

 private:
  template <class Ptr>
  void multiply_with(const CsrView<T, Ptr>& a, const T* x, T* y) {
    const auto with_team = [&](auto kernel) {
      launch(kernel, {.grid = blocks_for(a.rows, kBlock / team_), .block = kBlock, .stream = this->stream()},
             a, x, y);
    };
    switch (team_) {
      case 2:
        return with_team(multiply<2, T, Ptr>);
      case 4:
        return with_team(multiply<4, T, Ptr>);
      case 8:
        return with_team(multiply<8, T, Ptr>);
      case 16:
        return with_team(multiply<16, T, Ptr>);
      default:
        return with_team(multiply<32, T, Ptr>);
    }
  }

  AnyDeviceCsr<T> matrix_;
  unsigned team_;
};

}  // namespace

template <class T>
std::unique_ptr<SpmvPlan<T>> make_warp_per_row(const SpmvProblem<T>& problem, Exec& exec) {
  return std::make_unique<WarpPerRow<T>>(problem, exec);
}
template std::unique_ptr<SpmvPlan<float>> make_warp_per_row(const SpmvProblem<float>&, Exec&);
template std::unique_ptr<SpmvPlan<double>> make_warp_per_row(const SpmvProblem<double>&, Exec&);

void add_warp_per_row(Registry& registry) {
  registry.add<WarpPerRow>({.name = "05_cuda_csr/warp_per_row",
                            .idea = "2 to 32 lanes per row, by the mean row length; sums by shuffles",
                            .needs = {.gpu = true}});
}

}  // namespace stages
