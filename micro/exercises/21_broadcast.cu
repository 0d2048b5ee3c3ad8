// Task: fill in the broadcast: a lane has loaded a non-zero, and all lanes need it.
// Step: 07_spmm
// Reference: 07_spmm/warp_per_row
// At most: 10,000 requests in loads
//
// C = A B with a dense B. A warp has a row of C and 32 of its columns, a lane each. All lanes need all
// non-zeros of the row of A. So the warp loads 32 non-zeros at once, one by each lane and side by side, and
// then goes through them: __shfl_sync(kAllLanes, v, k) gives every lane the v of lane k. For each non-zero the
// lanes read 32 neighbouring numbers of a row of B: one request, and 6,000 for 600 rows of 10 non-zeros. Lanes
// that load each non-zero of A again take two more for each.
//
//   loaded       lane 0: (3, 1.5)   lane 1: (7, -2)   lane 2: (8, 4)   ...        (column, value)
//   k = 0        all lanes have (3, 1.5)       and read  B(3, first + lane)
//   k = 1        all lanes have (7, -2)        and read  B(7, first + lane)
//
// Hint: In step k, which lane holds the column and the value that lane 5 needs?
// Hint: Two shuffles from lane k, one for the column and one for the value. All lanes come to both of them.
// Hint: const Index from = __shfl_sync(kAllLanes, column, k); the same for the value; then, only where the lane
//   has a column of C (has_column): sum += factor * b(from, j).

#include "micro/spmm.hpp"

namespace stages {
namespace {

using micro::DeviceRows, micro::kAllLanes, micro::kWarp;
constexpr unsigned kBlock = 128;

template <class T>
__global__ void multiply(DeviceRows<T> a, DenseView<const T> b, DenseView<T> c, T alpha, T beta) {
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
      // Your code. Until then each lane takes its own non-zero, again and again.
      if (has_column) sum += value * b(column, j);
      // END
    }
  }
  if (has_column) c(i, j) = alpha * sum + (beta == T{0} ? T{0} : beta * c(i, j));
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmm(registry, {.name = "micro/broadcast", .idea = "an entry from a lane to all"},
                  []<class T>(const micro::Spmm<T>& p) {
                    const LaunchConfig config{.grid = {blocks_for(p.a.rows, kBlock / kWarp), p.strips()},
                                              .block = kBlock,
                                              .stream = p.stream};
                    launch(multiply<T>, config, p.a, p.b, p.c, p.alpha, p.beta);
                  });
}

}  // namespace stages
