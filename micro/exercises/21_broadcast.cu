// Task: fill in the broadcast: a lane has loaded an entry, and all lanes need it.
// Step: 07_spmm
// Reference: 07_spmm/warp_per_row
// At most: 10,000 requests in loads
//
// C = A B with a dense B. A warp has a row of C and 32 of its columns, a lane each. All lanes need all entries
// of the row of A. So the warp loads 32 entries at once, one by each lane and side by side, and then goes
// through them: __shfl_sync(kAllLanes, v, k) gives every lane the v of lane k. For each entry the lanes read 32
// neighbouring numbers of a row of B: one request, and 6,000 for 600 rows of 10 entries. Lanes that load each
// entry of A again take two more for each.
//
//   loaded       lane 0: (3, 1.5)   lane 1: (7, -2)   lane 2: (8, 4)   ...        (column, value)
//   k = 0        all lanes have (3, 1.5)       and read  B(3, first + lane)
//   k = 1        all lanes have (7, -2)        and read  B(7, first + lane)
//
// Hint: In step k, which lane holds the column and the value that lane 5 needs?
// Hint: Two shuffles from lane k, one for the column and one for the value. All lanes come to both of them.
// Hint: const Index from = __shfl_sync(kAllLanes, column, k); the same for the value; then, only where the lane
//   has a column of C (has_column): sum += factor * b(from, j).

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128, kWarp = 32, kAllLanes = 0xffffffffu;

template <class T>
__global__ void multiply(CsrView<T, std::int32_t> a, DenseView<const T> b, DenseView<T> c, T alpha, T beta) {
  const auto i = static_cast<Index>((blockIdx.x * kBlock + threadIdx.x) / kWarp);
  const auto lane = static_cast<Index>(threadIdx.x % kWarp),
             j = static_cast<Index>(blockIdx.y * kWarp) + lane;
  if (i >= a.rows) return;  // all lanes of the warp, or none
  const bool has_column = j < c.cols;
  T sum = 0;
  for (std::int32_t first = a.row_ptr[i]; first < a.row_ptr[i + 1]; first += 32) {
    const std::int32_t count = min(32, a.row_ptr[i + 1] - first);
    const Index column = lane < count ? a.col_idx[first + lane] : 0;
    const T value = lane < count ? a.values[first + lane] : T{0};
    for (std::int32_t k = 0; k < count; ++k) {
      // SOLUTION
      const Index from = __shfl_sync(kAllLanes, column, k);
      const T factor = __shfl_sync(kAllLanes, value, k);
      if (has_column) sum += factor * b(from, j);
      // STUDENT
      // Your code. Until then each lane takes its own entry, again and again.
      if (has_column) sum += value * b(column, j);
      // END
    }
  }
  if (has_column) c(i, j) = alpha * sum + (beta == T{0} ? T{0} : beta * c(i, j));
}

template <class T>
class Mine final : public DeviceSpmmPlan<T> {
 public:
  Mine(const SpmmProblem<T>& problem, Exec& exec) : DeviceSpmmPlan<T>(problem, exec), a_(*problem.a) {}

  static Cost cost(const SpmmProblem<T>& problem) { return problem_cost(problem); }

  void run() override {
    const auto strips = (static_cast<unsigned>(this->problem().n_cols) + kWarp - 1) / kWarp;
    if (a_.rows == 0 || strips == 0) return;
    launch(multiply<T>,
           {.grid = {blocks_for(a_.rows, kBlock / kWarp), strips}, .block = kBlock, .stream = this->stream()},
           a_.view(), this->b(), this->c(), this->problem().alpha, this->problem().beta);
  }

 private:
  DeviceCsr<T, std::int32_t> a_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Mine>(
      {.name = "micro/broadcast", .idea = "an entry from a lane to all", .needs = {.gpu = true}});
}

}  // namespace stages
