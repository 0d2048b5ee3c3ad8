// Independent vectors: the matrix stays, the vectors stream past.
//
// The idea. When products are launched one by one, every product reads the matrix again, at best from L2. A
// GPU has more registers than L2: 132 x 256 KB on an H200. So one launch does all products: each warp loads
// its share of A into registers once and keeps it while it takes vector after vector. D2's kernel did this
// with a thread per row, which ends where a row no longer fits into a thread's 255 registers
// (2_row_in_registers.cu shows the cliff); here up to 32 lanes share a row.
//
// The matrix needs only part of the chip (n = 1024 with 80 % zeros: about 8 of 132 SMs), so the chip holds it
// several times over, and each copy (a group of blocks) takes every groups-th batch of vectors.
//
// What limits it then is shared memory, which answers 128 bytes per SM and clock: every product of a non-zero
// reads one x. Two things follow. x is stored as batches of 16 bytes (4 floats: the same element of 4
// vectors), so one read of an index serves 4 products. And the order of the non-zeros is scheduled so that
// the reads of a phase lie in different banks (resident.hpp): at random they would meet 2.5-fold.
//
// Requires: 16-bit columns, rows of at most 32 x 64 non-zeros, a copy of the matrix that fits the chip's
// registers, two batches of x that fit a block's shared memory. Predicted for n = 1024, 205 per row: 210,000
// reads of 4 bytes a vector over 132 SMs x 128 bytes a clock: 50 clocks, 0.03 us a vector.

#include "06_cuda_register/share.hpp"
#include "06_cuda_register/stage.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"

namespace stages {
namespace {

constexpr int kBlock = 256;
constexpr int kWarpsPerBlock = kBlock / 32;

/// The same element of as many vectors as 16 bytes hold.
template <class T>
struct alignas(16) Batch {
  static constexpr int kSize = 16 / sizeof(T);
  T of[kSize];
};

/// Puts x[c] of vectors first .. first + kSize - 1 into batches in shared memory; zeros for vectors beyond
/// the last.
template <class T>
__device__ void stage_batch(Batch<T>* to, const T* x, int cols, int first, int products) {
  for (int c = static_cast<int>(threadIdx.x); c < cols; c += kBlock) {
    Batch<T> batch;
#pragma unroll
    for (int k = 0; k < Batch<T>::kSize; ++k) {
      batch.of[k] = first + k < products ? x[static_cast<std::int64_t>(first + k) * cols + c] : T{0};
    }
    to[c] = batch;
  }
}

/// Block b works for group b / blocks_per_copy on the warps of part b % blocks_per_copy of the matrix.
template <class T, int kSteps>
__global__ void __launch_bounds__(kBlock)
    stream_resident(ResidentView<T> a, const T* x, T* y, int rows, int cols, int products,
                    int blocks_per_copy, int groups) {
  constexpr int kSize = Batch<T>::kSize;
  Batch<T>* const staged =
      dynamic_shared<Batch<T>>();  // two buffers of cols batches and the zeros behind them
  const int buffer_size = cols + shared_banks(16);
  const int group = static_cast<int>(blockIdx.x) / blocks_per_copy,
            part = static_cast<int>(blockIdx.x) % blocks_per_copy;
  const int lane = static_cast<int>(threadIdx.x) % 32,
            warp = part * kWarpsPerBlock + static_cast<int>(threadIdx.x) / 32;
  const int row = warp * (32 / a.lanes) + lane / a.lanes;
  const bool has_share = warp < a.warps;

  Share<T, kSteps> share = {};
  if (has_share) share.load(a, warp, lane);
  for (int b = static_cast<int>(threadIdx.x); b < 2 * shared_banks(16); b += kBlock) {
    staged[(b % 2) * buffer_size + cols + b / 2] = {};
  }
  stage_batch(staged, x, cols, group * kSize, products);
  __syncthreads();

  int buffer = 0;
  for (int first = group * kSize; first < products; first += groups * kSize, buffer ^= 1) {
    stage_batch(staged + (buffer ^ 1) * buffer_size, x, cols, first + groups * kSize, products);
    if (has_share) {
      const Batch<T>* const xs = staged + buffer * buffer_size;
      Batch<T> sum = {};
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const Batch<T> batch = xs[share.column(s)];
#pragma unroll
        for (int k = 0; k < kSize; ++k) sum.of[k] += share.value[s] * batch.of[k];
      }
#pragma unroll
      for (int k = 0; k < kSize; ++k) {
        const T total = sum_over_lanes(sum.of[k], a.lanes);
        if (lane % a.lanes == 0 && row < rows && first + k < products) {
          y[static_cast<std::int64_t>(first + k) * rows + row] = total;
        }
      }
    }
    __syncthreads();  // the next batch is staged, and this one is read
  }
}

/// How the matrix lies on this device: what prepare decides and refuse() tells.
struct Shape {
  int lanes = 0;
  int steps = 0;
  int blocks_per_copy = 0;
  std::size_t shared_bytes = 0;
  int resident_blocks = 0;  ///< blocks that the chip holds at once
};

/// Blocks of the kernel of `steps` that the chip holds at once.
template <class T>
int resident_blocks(int steps, std::size_t shared_bytes) {
  return with_steps(steps, [&]<int kSteps>() {
    allow_shared_bytes(stream_resident<T, kSteps>, shared_bytes);
    return resident_blocks_per_sm(stream_resident<T, kSteps>, kBlock, shared_bytes) * device_facts().sms;
  });
}

template <class T>
Shape shape_for(const Csr<T>& a) {
  Shape shape;
  shape.lanes = lanes_for(a, kMostSteps);
  if (shape.lanes == 0) return shape;
  const int needed = resident_steps(a, shape.lanes);
  shape.steps = steps_for(needed);
  const int rows_per_block = kWarpsPerBlock * (32 / shape.lanes);
  shape.blocks_per_copy = static_cast<int>(blocks_for(a.rows, rows_per_block));
  shape.shared_bytes = 2 * sizeof(Batch<T>) * (static_cast<std::size_t>(a.cols) + shared_banks(16));
  if (shape.shared_bytes > device_facts().shared_per_block_optin) return shape;
  shape.resident_blocks = resident_blocks<T>(shape.steps, shape.shared_bytes);
  // Where a smaller share lets more blocks onto an SM, their warps hide more latency than the schedule loses
  // by the spare steps that it gives up.
  for (const int steps : kStepChoices) {
    if (steps < needed || steps >= shape.steps) continue;
    const int blocks = resident_blocks<T>(steps, shape.shared_bytes);
    if (blocks > shape.resident_blocks) {
      shape.steps = steps;
      shape.resident_blocks = blocks;
    }
  }
  return shape;
}

template <class T>
class StreamResident final : public DeviceSpmvPlan<T> {
 public:
  StreamResident(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec),
        shape_(shape_for(*problem.a)),
        groups_(std::max(1, shape_.resident_blocks / std::max(1, shape_.blocks_per_copy))),
        matrix_(*problem.a, shape_.lanes, shape_.steps, 16) {}

  void run() override {
    const Csr<T>& a = this->a();
    with_steps(shape_.steps, [&]<int kSteps>() {
      launch(stream_resident<T, kSteps>,
             {static_cast<unsigned>(groups_ * shape_.blocks_per_copy), kBlock, shape_.shared_bytes,
              this->stream()},
             matrix_.view(), this->x_of(0), this->y_of(0), a.rows, a.cols, this->problem().products,
             shape_.blocks_per_copy, groups_);
    });
  }

  std::vector<Metric> metrics() const override {
    const KernelFacts facts =
        with_steps(shape_.steps, [&]<int kSteps>() { return kernel_facts(stream_resident<T, kSteps>); });
    return {{"lanes_per_row", static_cast<double>(shape_.lanes), ""},
            {"non_zeros_per_lane", static_cast<double>(shape_.steps), ""},
            {"copies_of_the_matrix", static_cast<double>(groups_), ""},
            {"bank_conflicts", static_cast<double>(matrix_.conflicts()), ""},
            registers_metric(facts),
            local_metric(facts)};
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.memory += 2 * static_cast<double>(problem.a->nnz()) * (sizeof(T) + 2);
    return cost;
  }

  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    const Csr<T>& a = *problem.a;
    if (problem.mode == Mode::chain) {
      return fmt::format("its vectors are independent, and these {} are a chain; see chain_words",
                         problem.products);
    }
    if (a.cols > kMostResidentColumns) {
      return fmt::format("{} columns do not fit into 16 bits; at most {} do", a.cols, kMostResidentColumns);
    }
    const Shape shape = shape_for(a);
    if (shape.lanes == 0) {
      return fmt::format("a row has {} non-zeros; 32 lanes keep {}", 32 * Offset{resident_steps(a, 32)},
                         32 * kMostSteps);
    }
    if (shape.resident_blocks == 0) {
      return fmt::format("x needs {} bytes of shared memory a block; the device has {}", shape.shared_bytes,
                         device_facts().shared_per_block_optin);
    }
    if (shape.blocks_per_copy > shape.resident_blocks) {
      return fmt::format("the matrix needs the registers of {} blocks; the device holds {} at once",
                         shape.blocks_per_copy, shape.resident_blocks);
    }
    return std::nullopt;
  }

 private:
  void product(const T*, T*) override {}  // run() does them all in one launch
  Shape shape_;
  int groups_;
  ResidentMatrix<T> matrix_;
};

}  // namespace

void add_stream_resident(Registry& registry) {
  registry.add<StreamResident>(
      {.name = "06_cuda_register/stream_resident",
       .idea = "one launch: the matrix in the registers of the whole chip, vectors stream past",
       .needs = {.gpu = true}});
}

}  // namespace stages
