// Dependent vectors without device memory: one thread-block cluster, y exchanged from SM to SM.
//
// The idea. chain_words.cu spends most of a step on two trips to L2, out and back. Since Hopper, up to 16
// blocks that run near each other form a cluster, and a block can write straight into the shared memory of the
// others. So one cluster of 16 SMs holds the whole matrix (registers again), and each element of y is written,
// as the same {step, value} word, into the shared memory of all 16: a reader polls its own, some 30 clocks
// away instead of some 600.
//
// It uses 16 of 132 SMs, and on an H100 it is ahead of chain_words.cu from n = 192 to 512 (80 % zeros; level
// at 407): in a chain time is latency, not throughput. At larger n each SM has too much to multiply, and
// chain_words.cu, which spreads over more SMs, is ahead (notes.md). The matrix must fit the registers of 16
// SMs, which is why n = 2048 with 80 % zeros is refused.
//
// Why it is right: as in chain_words.cu, where each block has rows that all others wait for, so none runs two
// steps ahead. Here the cluster always has 16 blocks, and those without rows must stay out of it: the executor
// found the matrix of one row on which one of them waited for a word that had been overwritten. A cluster
// barrier at the start: no block may be written to before it has set its words to step 0; and one at the end:
// none may end while another may still write into its shared memory.

#include "06_cuda_register/fast/words.hpp"
#include "common/gpu/cluster.hpp"

namespace stages {
namespace {

constexpr int kCluster = 16;  ///< blocks: more than 8 must be asked for, more than 16 do not exist
constexpr int kBlock = 512;

/// Shared memory: two buffers of words that the cluster writes, then two of x with the zeros behind it.
template <class T>
std::size_t shared_bytes_for(Index n) {
  const auto size = static_cast<std::size_t>(n);
  return 2 * sizeof(unsigned long long) * TaggedWords<T>::kWords * size +
         2 * sizeof(T) * (size + shared_banks(sizeof(T)));
}

template <class T, int kSteps>
__global__ void __launch_bounds__(kBlock)
    chain_cluster(ResidentView<T> a, const T* x, T* y, int n, int products) {
  constexpr int kWords = TaggedWords<T>::kWords;
  unsigned long long* const words = dynamic_shared<unsigned long long>();
  T* const buffers = reinterpret_cast<T*>(words + 2 * kWords * n);
  const int buffer_size = n + shared_banks(sizeof(T));
  const int tid = static_cast<int>(threadIdx.x), lane = tid % 32;
  const int warp = static_cast<int>(cluster_rank()) * (kBlock / 32) + tid / 32;
  const int row = warp * (32 / a.lanes) + lane / a.lanes;
  const bool has_share = warp < a.warps;

  Share<T, kSteps> share = {};
  share.load(a, Offset{warp} * 32 + lane);
  for (int i = tid; i < 2 * kWords * n; i += kBlock) words[i] = 0;
  for (int b = tid; b < 2 * shared_banks(sizeof(T)); b += kBlock)
    buffers[(b % 2) * buffer_size + n + b / 2] = T{0};
  cluster_sync();

  // A block without rows reads nothing: as nobody waits for its words, what it reads might be overwritten.
  const int last = static_cast<int>(cluster_rank()) * (kBlock / 32) < a.warps ? products : 0;
  for (int j = 0; j < last; ++j) {
    T* const xs = buffers + (j % 2) * buffer_size;
    for (int c = tid; c < n; c += kBlock) {
      if (j == 0) {
        xs[c] = x[c];
      } else {
        TaggedWords<T> seen;
        spin_until([&] {
          seen.load(words_of_step<T>(words, n, j), c);
          return seen.has(static_cast<unsigned>(j));
        });
        xs[c] = seen.value();
      }
    }
    __syncthreads();
    if (!has_share) continue;
    T sum = 0;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) sum += share.value[s] * xs[share.column(s)];
    sum = sum_over_lanes(sum, a.lanes);
    if (row < n) {
      // The lanes of a row share the work of telling the 16 blocks.
      for (int rank = lane % a.lanes; rank < kCluster; rank += a.lanes) {
        TaggedWords<T>::store(cluster_shared(words_of_step<T>(words, n, j + 1), static_cast<unsigned>(rank)),
                              row, sum, static_cast<unsigned>(j + 1));
      }
      if (lane % a.lanes == 0) y[static_cast<std::int64_t>(j) * n + row] = sum;
    }
  }
  cluster_sync();
}

struct ChainLayout {
  int lanes = 0;
  int steps = 0;
};

/// Lets the kernel have what it needs for n rows, and tells whether the device then holds a cluster of it.
template <class T>
bool allow_cluster(const ChainLayout& shape, Index n) {
  return with_steps(shape.steps, [&]<int kSteps>() {
    allow_shared_bytes(chain_cluster<T, kSteps>, shared_bytes_for<T>(n));
    allow_large_cluster(chain_cluster<T, kSteps>);
    return fits_a_cluster(chain_cluster<T, kSteps>, kCluster, kBlock, shared_bytes_for<T>(n));
  });
}

/// As many lanes per row as the warps of the cluster allow: the shortest sums.
template <class T>
ChainLayout shape_for(const Csr<T>& a) {
  constexpr int kThreads = kCluster * kBlock;
  // 512 threads leave 128 registers each: 64 floats with their columns, or half as many doubles.
  constexpr int kMost = sizeof(T) == 4 ? 56 : 32;
  for (int lanes = 32; lanes >= 1; lanes /= 2) {
    if (Offset{lanes} * a.rows > kThreads) continue;
    const int steps = steps_for(with_spare(resident_steps(a, lanes)));
    if (steps >= resident_steps(a, lanes) && steps <= kMost) return {lanes, steps};
    break;
  }
  return {};
}

template <class T>
class ChainCluster final : public ChainPlan<T> {
 public:
  ChainCluster(const SpmvProblem<T>& problem, Exec& exec)
      : ChainCluster(problem, exec, shape_for(*problem.a)) {}

  void run() override {
    if (this->a().rows == 0) return;
    with_steps(shape_.steps, [&]<int kSteps>() {
      launch(chain_cluster<T, kSteps>,
             {.grid = kCluster,
              .block = kBlock,
              .shared_bytes = shared_bytes_for<T>(this->a().rows),
              .stream = this->stream(),
              .cluster = kCluster},
             this->matrix_.view(), this->x_of(0), this->y_of(0), this->a().rows, this->problem().n_vectors);
    });
  }

  std::vector<Metric> metrics() const override {
    return this->metrics_of(
        with_steps(shape_.steps, [&]<int kSteps>() { return kernel_facts(chain_cluster<T, kSteps>); }));
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    return problem_cost(problem).plus_memory(2 * static_cast<double>(problem.a->nnz()) * (sizeof(T) + 2));
  }

  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    if (!has_clusters(kCluster)) {
      return fmt::format(
          "needs compute capability 9.0 or later, for a cluster of {} blocks; this device has {}.{}, and "
          "runs code "
          "compiled for {}.{}",
          kCluster, device_facts().cc_major, device_facts().cc_minor, code_capability() / 10,
          code_capability() % 10);
    }
    if (auto reason = ChainPlan<T>::refuse_others(problem)) return reason;
    const Csr<T>& a = *problem.a;
    if (shape_for(a).lanes == 0)
      return fmt::format("the registers of {} SMs do not hold {} rows, the longest of {} non-zeros", kCluster,
                         a.rows, resident_steps(a, 1));
    if (shared_bytes_for<T>(a.rows) > device_facts().shared_per_block_optin) {
      return fmt::format("the vectors need {} bytes of shared memory; a block has {}",
                         shared_bytes_for<T>(a.rows), device_facts().shared_per_block_optin);
    }
    if (!allow_cluster<T>(shape_for(a), a.rows))
      return fmt::format(
          "needs a cluster of {} blocks of {} threads at once, and the device has no room for one", kCluster,
          kBlock);
    return std::nullopt;
  }

 private:
  ChainCluster(const SpmvProblem<T>& problem, Exec& exec, const ChainLayout& shape)
      : ChainPlan<T>(problem, exec, shape.lanes, shape.steps), shape_(shape) {
    allow_cluster<T>(shape_, problem.a->rows);
  }

  ChainLayout shape_;
};

}  // namespace

void add_chain_cluster(Registry& registry) {
  registry.add<ChainCluster>({.name = "06_cuda_register/chain_cluster",
                              .idea = "one cluster of 16 SMs: y goes from shared memory to shared memory",
                              .previous = "chain_words"});
}

}  // namespace stages
