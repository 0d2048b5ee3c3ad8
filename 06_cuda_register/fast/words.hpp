#pragma once
// What the chains share. An element of y and the step it belongs to, in 64-bit words: 32 bits of step, 32
// bits of value. A float is one word, a double two. A word is read and written whole, so the reader that
// finds the step it waits for has the value too.

#include "06_cuda_register/resident.hpp"
#include "06_cuda_register/stage.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"

namespace stages {

template <class T>
struct TaggedWords {
  using Word = unsigned long long;
  static constexpr int kWords = sizeof(T) / 4;

  Word word[kWords] = {};

  __device__ bool has(unsigned step) const {
    for (int k = 0; k < kWords; ++k) {
      if (static_cast<unsigned>(word[k] >> 32) != step) return false;
    }
    return true;
  }
  __device__ T value() const {
    if constexpr (kWords == 1) {
      return __uint_as_float(static_cast<unsigned>(word[0]));
    } else {
      return __longlong_as_double(static_cast<long long>((word[1] << 32) | (word[0] & 0xffffffffULL)));
    }
  }

  /// Element i of an array of words in device memory.
  __device__ void load(Word* words, int i) {
    for (int k = 0; k < kWords; ++k) {
      word[k] = cuda::atomic_ref<Word, cuda::thread_scope_device>(words[i * kWords + k])
                    .load(cuda::memory_order_relaxed);
    }
  }
  __device__ static TaggedWords of(T value, unsigned step) {
    TaggedWords out;
    const Word tag = static_cast<Word>(step) << 32;
    if constexpr (kWords == 1) {
      out.word[0] = tag | __float_as_uint(value);
    } else {
      const auto bits = static_cast<Word>(__double_as_longlong(value));
      out.word[0] = tag | (bits & 0xffffffffULL);
      out.word[1] = tag | (bits >> 32);
    }
    return out;
  }
  __device__ static void store(Word* words, int i, T value, unsigned step) {
    const TaggedWords tagged = of(value, step);
    for (int k = 0; k < kWords; ++k) {
      cuda::atomic_ref<Word, cuda::thread_scope_device>(words[i * kWords + k])
          .store(tagged.word[k], cuda::memory_order_relaxed);
    }
  }
};

/// The buffer of a step: the two take turns.
template <class T>
__device__ unsigned long long* words_of_step(unsigned long long* words, int n, int step) {
  return words + static_cast<std::int64_t>(step % 2) * n * TaggedWords<T>::kWords;
}

/// How the matrix lies in a chain's lanes, and what one says of itself. A derived class gives run().
template <class T>
class ChainPlan : public DeviceSpmvPlan<T> {
 protected:
  ChainPlan(const SpmvProblem<T>& problem, Exec& exec, int lanes, int steps)
      : DeviceSpmvPlan<T>(problem, exec), matrix_(*problem.a, lanes, steps, sizeof(T), by_bank) {}

  std::vector<Metric> metrics_of(const KernelFacts& kernel) const {
    return {{"lanes_per_row", static_cast<double>(matrix_.view().lanes), ""},
            {"non_zeros_per_lane", static_cast<double>(matrix_.steps()), ""},
            {"bank_conflicts", static_cast<double>(matrix_.conflicts()), ""},
            registers_metric(kernel),
            local_metric(kernel)};
  }
  /// Why a problem is no chain.
  static std::optional<std::string> refuse_others(const SpmvProblem<T>& problem) {
    const Csr<T>& a = *problem.a;
    if (a.rows == a.cols && problem.mode != Mode::stream) return std::nullopt;
    return fmt::format("multiplies chains of a square matrix, and this is {} of {} on {} x {}",
                       to_string(problem.mode), problem.n_vectors, a.rows, a.cols);
  }

  ResidentMatrix<T> matrix_;

 private:
  void product(const T*, T*) final {}  // run() does them all in one launch
};

}  // namespace stages
