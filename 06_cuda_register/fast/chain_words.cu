// Dependent vectors: x <- A x, again and again, in one launch.
//
// The idea. In a chain every product needs all of the one before it, so all blocks must exchange y in every
// step. A launch per product does that, and takes about 2 us from the host, less where a CUDA graph starts it;
// a barrier of the whole grid takes its time, too. At n = 1024 the arithmetic is a small part of that. So the
// matrix stays in registers as in 7_bank_order.cu, and no barrier is used at all: a block publishes each
// element of y as one 64-bit word {step, value}, and a block that needs it reads the word until the step is
// the right one. Data and signal travel together, in one trip through L2.
//
// Why it is right. A 64-bit word is written whole, so whoever sees the step sees the value. Two buffers of
// words are enough: a block writes step j + 2 over step j only after it has read all of step j + 1, and each
// word of j + 1 was published by a warp whose block had read all of step j (the __syncthreads between reading
// and multiplying). All blocks must run at once: the launch is cooperative. A double needs two tagged words.
//
// Requires: a square matrix, 16-bit columns, rows of at most 32 x 64 non-zeros, and a chip that holds all
// blocks at once. Predicted: one store to L2, one load from it (0.6 us together on an H200) and a few hundred
// clocks of arithmetic.

#include "06_cuda_register/fast/words.hpp"

namespace stages {
namespace {

// How the work is spread: fewer, larger blocks poll less; more lanes per row make the sums shorter.
constexpr int kLanes = 32;   ///< per row, at least
constexpr int kBlock = 512;  ///< threads

/// Reads element c of step `step` for all c of this thread into xs: kAtOnce loads are under way together,
/// since each takes a trip to L2.
template <class T>
__device__ void gather(T* xs, unsigned long long* words, int n, unsigned step) {
  constexpr int kAtOnce = 4;
  const int stride = static_cast<int>(blockDim.x);
  for (int c = static_cast<int>(threadIdx.x); c < n; c += kAtOnce * stride) {
    TaggedWords<T> seen[kAtOnce] = {};
    spin_until([&] {
      bool all = true;
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (c + k * stride < n && !seen[k].has(step)) {
          seen[k].load(words, c + k * stride);
          all = all && seen[k].has(step);
        }
      }
      return all;
    });
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (c + k * stride < n) xs[c + k * stride] = seen[k].value();
    }
  }
}

template <class T, int kSteps>
__global__ void chain_words(ResidentView<T> a, const T* x, T* y, unsigned long long* words, int n,
                            int products) {
  T* const shared = dynamic_shared<T>();  // two buffers of x and the zeros behind it
  const int buffer_size = n + shared_banks(sizeof(T));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  const int row = warp * (32 / a.lanes) + lane / a.lanes;
  const bool has_share = warp < a.warps;

  Share<T, kSteps> share = {};
  share.load(a, Offset{warp} * 32 + lane);
  for (int b = static_cast<int>(threadIdx.x); b < 2 * shared_banks(sizeof(T));
       b += static_cast<int>(blockDim.x)) {
    shared[(b % 2) * buffer_size + n + b / 2] = T{0};
  }
  for (int j = 0; j < products; ++j) {
    T* const xs = shared + (j % 2) * buffer_size;
    if (j == 0) {
      for (int c = static_cast<int>(threadIdx.x); c < n; c += static_cast<int>(blockDim.x)) xs[c] = x[c];
    } else {
      gather(xs, words_of_step<T>(words, n, j), n, static_cast<unsigned>(j));
    }
    __syncthreads();
    if (!has_share) continue;
    T sum = 0;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) sum += share.value[s] * xs[share.column(s)];
    sum = sum_over_lanes(sum, a.lanes);
    if (lane % a.lanes == 0 && row < n) {
      TaggedWords<T>::store(words_of_step<T>(words, n, j + 1), row, sum, static_cast<unsigned>(j + 1));
      y[static_cast<std::int64_t>(j) * n + row] = sum;
    }
  }
}

struct ChainLayout {
  int lanes = 0;
  int steps = 0;
  int blocks = 0;
  std::size_t shared_bytes = 0;
  int resident_blocks = 0;
};

template <class T>
ChainLayout shape_for(const Csr<T>& a) {
  ChainLayout shape;
  // A thread of a block of 1024 has 64 registers, of 512 it has 128: what a lane may keep follows from that.
  const int most_steps = std::min(kMostSteps, 16 * 1024 / kBlock * 4 / static_cast<int>(sizeof(T)));
  shape.lanes = lanes_for(a, most_steps - most_steps / 8, kLanes);
  if (shape.lanes == 0) return shape;
  shape.steps = steps_for(with_spare(resident_steps(a, shape.lanes)));
  shape.blocks = static_cast<int>(blocks_for(a.rows, kBlock / shape.lanes));
  shape.shared_bytes = 2 * sizeof(T) * (static_cast<std::size_t>(a.cols) + shared_banks(sizeof(T)));
  if (shape.shared_bytes > device_facts().shared_per_block_optin) return shape;
  shape.resident_blocks = with_steps(shape.steps, [&]<int kSteps>() {
    allow_shared_bytes(chain_words<T, kSteps>, shape.shared_bytes);
    return resident_blocks_per_sm(chain_words<T, kSteps>, kBlock, shape.shared_bytes) * device_facts().sms;
  });
  return shape;
}

template <class T>
class ChainWords final : public ChainPlan<T> {
 public:
  ChainWords(const SpmvProblem<T>& problem, Exec& exec) : ChainWords(problem, exec, shape_for(*problem.a)) {}

  void run() override {
    words_.zero(this->stream());  // step 0: nothing is published yet
    with_steps(shape_.steps, [&]<int kSteps>() {
      launch(chain_words<T, kSteps>,
             {.grid = static_cast<unsigned>(shape_.blocks),
              .block = kBlock,
              .shared_bytes = shape_.shared_bytes,
              .stream = this->stream(),
              .cooperative = true},
             this->matrix_.view(), this->x_of(0), this->y_of(0), words_.data(), this->a().rows,
             this->problem().n_vectors);
    });
  }

  std::vector<Metric> metrics() const override {
    std::vector<Metric> all = this->metrics_of(
        with_steps(shape_.steps, [&]<int kSteps>() { return kernel_facts(chain_words<T, kSteps>); }));
    all.push_back({"blocks", static_cast<double>(shape_.blocks), ""});
    return all;
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    return problem_cost(problem).plus_memory(2 * static_cast<double>(problem.a->nnz()) * (sizeof(T) + 2) +
                                             32.0 * problem.a->rows);
  }

  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    if (auto reason = ChainPlan<T>::refuse_others(problem)) return reason;
    const Csr<T>& a = *problem.a;
    if (a.cols > kMostResidentColumns) {
      return fmt::format("{} columns do not fit into 16 bits; at most {} do", a.cols, kMostResidentColumns);
    }
    const ChainLayout shape = shape_for(a);
    if (shape.lanes == 0)
      return fmt::format("a row has {} non-zeros, more than the registers of {} lanes keep",
                         32 * Offset{resident_steps(a, 32)}, 32);
    if (shape.blocks > shape.resident_blocks)
      return fmt::format("needs {} blocks at once, and the device holds {}", shape.blocks,
                         shape.resident_blocks);
    return std::nullopt;
  }

 private:
  ChainWords(const SpmvProblem<T>& problem, Exec& exec, const ChainLayout& shape)
      : ChainPlan<T>(problem, exec, shape.lanes, shape.steps),
        shape_(shape),
        words_(2 * static_cast<std::size_t>(TaggedWords<T>::kWords) *
               static_cast<std::size_t>(problem.a->rows)) {}

  ChainLayout shape_;
  DeviceArray<unsigned long long> words_;
};

}  // namespace

void add_chain_words(Registry& registry) {
  registry.add<ChainWords>(
      {.name = "06_cuda_register/chain_words",
       .idea = "one launch: blocks publish y as words {step, value} and wait for the words they need"});
}

}  // namespace stages
