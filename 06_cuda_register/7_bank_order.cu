// One launch for all products, the non-zeros in an order that keeps reads of x apart.
//
// The idea: shared memory has 32 banks, and a read waits where lanes that are served together want different
// words of one bank. A batch of 16 bytes lies in 4 of them, so 8 lanes are served together, and there are 8
// places: column % 8 (the code calls each a bank). The order in which a lane takes its non-zeros is free. So
// prepare chooses it, by `by_bank`: in each step the 8 lanes take non-zeros of different banks. A lane that has
// none left for a free bank reads a zero behind x, if it has a step to spare; else two share a bank. (Two lanes
// that read the same column would be served at once; that is counted as a conflict here.)
//
// The steps to spare: an eighth more than there are non-zeros, rounded up to a size that is compiled, which is
// at most 64. If with a smaller size more blocks fit on an SM, that is taken. At n = 1024 a lane has 52
// non-zeros; 58 steps are wanted, 64 compiled, and on an H100 56 are taken. The kernel is that of
// 6_packed_shares.cu. The order is chosen in prepare, so the sums have the same bits in each run.
//
// Requires: as 6_packed_shares.cu.

#include <numeric>

#include "06_cuda_register/resident_plan.hpp"

namespace stages {

void by_bank(std::vector<Positions>& lanes, int steps, const Index* columns) {
  const std::size_t banks = lanes.size();
  std::vector<std::vector<Positions>> of_bank(
      banks, std::vector<Positions>(banks));        // of lane and bank: not yet taken
  std::vector<Offset> waiting(banks), left(banks);  // not yet taken: of a bank, of a lane
  std::vector<std::size_t> order(banks);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t l = 0; l < banks; ++l) {
    for (const Offset p : lanes[l]) {
      const std::size_t bank = static_cast<std::size_t>(columns[p]) % banks;
      of_bank[l][bank].push_back(p);
      ++waiting[bank];
    }
    left[l] = std::ssize(std::exchange(lanes[l], {}));
  }
  for (int step = 0; step < steps; ++step) {
    std::vector<bool> taken(banks);
    std::vector<std::size_t> idle;
    // Lanes with most left choose first: they have the fewest steps to spare.
    std::ranges::stable_sort(order, std::greater{}, [&](std::size_t l) { return left[l]; });
    for (const std::size_t l : order) {
      std::size_t best = banks;  // a free bank rather than a taken one, and that for which most wait
      for (std::size_t b = 0; b < banks; ++b) {
        if (of_bank[l][b].empty()) continue;
        if (best == banks || std::pair(!taken[b], waiting[b]) > std::pair(!taken[best], waiting[best]))
          best = b;
      }
      if (best == banks || (taken[best] && left[l] < steps - step)) {
        idle.push_back(l);
        continue;
      }
      lanes[l].push_back(of_bank[l][best].back());
      of_bank[l][best].pop_back();
      taken[best] = true;
      --left[l];
      --waiting[best];
    }
    for (const std::size_t l : idle) {
      const auto free = std::ranges::find(taken, false);
      lanes[l].push_back(-1 - (free - taken.begin()));
      *free = true;
    }
  }
}

namespace {

template <class T, int kSteps>
__global__ void __launch_bounds__(kResidentBlock)
    bank_order(ResidentView<T> a, const T* x, T* y, int products) {
  constexpr int kSize = Batch<T>::kSize;
  Batch<T>* const xs = dynamic_shared<Batch<T>>();  // and zeros behind them, one in each bank
  const Offset thread = Offset{blockIdx.x} * kResidentBlock + threadIdx.x;
  const Offset row = thread / a.lanes;
  const int lane = static_cast<int>(thread % a.lanes);
  Share<T, kSteps> share = {};
  share.load(a, thread);
  if (threadIdx.x < shared_banks(16)) xs[a.cols + static_cast<int>(threadIdx.x)] = {};

  const int copy = static_cast<int>(blockIdx.y), copies = static_cast<int>(gridDim.y);
  for (int first = copy * kSize; first < products; first += copies * kSize) {
    __syncthreads();  // the batches before have been read
    stage_batch<kResidentBlock>(xs, x, a.cols, first, products);
    __syncthreads();
    if (thread / 32 >= a.warps) continue;  // a warp behind the matrix
    Batch<T> sum = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const Batch<T> batch = xs[share.column(s)];
#pragma unroll
      for (int v = 0; v < kSize; ++v) sum.of[v] += share.value[s] * batch.of[v];
    }
#pragma unroll
    for (int v = 0; v < kSize; ++v) {
      const T total = sum_over_lanes(sum.of[v], a.lanes);
      if (row < a.rows && lane == 0 && first + v < products) y[Offset{first + v} * a.rows + row] = total;
    }
  }
}

}  // namespace

void add_bank_order(Registry& registry) {
  add_resident<by_bank>(
      registry,
      {.name = "06_cuda_register/bank_order",
       .idea = "the order of the non-zeros keeps reads of x from shared memory in different banks",
       .previous = "packed_shares"},
      []<class T, int kSteps>() { return bank_order<T, kSteps>; });
}

}  // namespace stages
