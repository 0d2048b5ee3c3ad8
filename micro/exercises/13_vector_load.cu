// Task: fill in the walk of a warp along its row, with loads of 16 bytes.
// Step: 04_cuda_shared
// Reference: 04_cuda_shared/batched_loads
// At most: 16,000 requests in loads
// At most: 17 sectors a request in loads of values
//
// A thread can load 16 bytes by one instruction: four floats, or two doubles. The same bytes then take a
// quarter, or half, of the instructions, and more bytes are on their way at once. The address must be a
// multiple of 16: so the rows are filled up with zeros to whole packs. A pack is four floats or two doubles.
//
//   row      0 1 2 3 | 4 5 6 7 | 8 9 . .          kPack = 4
//   lane        0    |    1    |    2             lanes 0 .. 31 read 512 bytes side by side,
//                                                 then go on by 32 packs
//
// The last pack may reach beyond the columns: there are zeros in A, but there is no x. A Pack<T> that is read
// as a whole is one load: reinterpret_cast<const Pack<T>*> makes of an element's address that of a pack.
//
// Hint: Which is the first element of lane l's first pack? Of its second?
// Hint: A loop over packs: begin with lane * kPack, go on by 32 * kPack, until the end of the row, a.ld.
// Hint: const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(row + first); then for each of its kPack values
//   whose column first + u is below a.cols: sum += pack.value[u] * x[first + u].

#include "micro/gpu.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;

template <class T>
struct alignas(16) Pack {
  T value[16 / sizeof(T)];
};

/// y = A x with element (i, j) of A at a.data[i * a.ld + j]; a.ld is a multiple of a pack. A warp has a row.
template <class T>
__global__ void multiply(DenseView<const T> a, const T* x, T* y) {
  [[maybe_unused]] constexpr Index kPack = 16 / sizeof(T);
  const unsigned i = (blockIdx.x * kBlock + threadIdx.x) / micro::kWarp, lane = threadIdx.x % micro::kWarp;
  if (i >= static_cast<unsigned>(a.rows)) return;
  const T* const row = a.data + i * a.ld;
  T sum = 0;
  // SOLUTION
  for (Index first = static_cast<Index>(lane) * kPack; first < a.ld; first += 32 * kPack) {
    const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(row + first);
    for (Index u = 0; u < kPack; ++u) {
      if (first + u < a.cols) sum += pack.value[u] * x[first + u];
    }
  }
  // STUDENT
  // Your code. Until then lane 0 takes the first element, and nobody the others.
  if (lane == 0 && a.cols > 0) sum = row[0] * x[0];
  // END
  for (unsigned d = micro::kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(micro::kAllLanes, sum, d);
  if (lane == 0) y[i] = sum;
}

template <class T>
class Mine final : public DeviceSpmvPlan<T> {
 public:
  Mine(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec),
        elements_(std::span<const T>(to_dense(*problem.a, Layout::row_major, ld(*problem.a)).data)) {}

 protected:
  void product(const T* x, T* y) override {
    const Csr<T>& a = this->a();
    launch(multiply<T>,
           {.grid = blocks_for(a.rows, kBlock / micro::kWarp), .block = kBlock, .stream = this->stream()},
           DenseView<const T>{a.rows, a.cols, ld(a), Layout::row_major, elements_.data()}, x, y);
  }

 private:
  static Offset ld(const Csr<T>& a) {
    constexpr Offset kPack = 16 / sizeof(T);
    return (a.cols + kPack - 1) / kPack * kPack;
  }

  DeviceArray<T> elements_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Mine>({.name = "micro/vector_load", .idea = "16 bytes by one instruction"});
}

}  // namespace stages
