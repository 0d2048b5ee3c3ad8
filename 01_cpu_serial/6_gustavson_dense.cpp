// Gustavson's algorithm with a bitmap in place of a sort.
//
// The idea: 5_gustavson_sorted.cpp lists the columns of a row and sorts them. Here a bitmap with a bit for each
// column remembers which places were touched. Reading it word by word gives the columns in ascending order, so
// nothing is sorted; the bits, not the values, say what belongs to C, so a sum that cancels to zero stays.
// Bitmap and sums are all zero between two rows, as reading clears what was touched.
//
// Input: any CSR matrices. Cost: a step a product, plus a scan of the words between a row's first and last
// column: up to rows x columns / 64. Memory: C, which grows, and columns x (sizeof(T) + 1/8) bytes. Where
// columns are many and products few, each place may be a cache miss, and the scan is long: see
// 7_gustavson_hash.cpp. Where most rows are empty, the loop over them is what takes long: see
// fast/hypersparse.cpp. fast/gustavson_adaptive.cpp chooses for each row.
//
// Source: F. G. Gustavson, "Two fast algorithms for sparse matrices: multiplication and permuted
// transposition", ACM TOMS 4 (1978).

#include <algorithm>

#include "01_cpu_serial/stage.hpp"
#include "common/kernels/bitmap.hpp"

namespace stages {
namespace {

using bitmap::Word;

template <class T>
class GustavsonDense final : public HostSpgemmPlan<T> {
 public:
  GustavsonDense(const SpgemmProblem<T>& problem, Exec& /*exec*/)
      : HostSpgemmPlan<T>(problem),
        bits_(bitmap::words(problem.b->cols), 0),
        sums_(static_cast<std::size_t>(problem.b->cols), T{0}) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    const double bound = static_cast<double>(problem.result_bound);
    return problem_cost(problem).plus_memory(problem.b->cols * (sizeof(T) + 1.0 / 8) +
                                             bound * (sizeof(T) + sizeof(Index)));
  }

  void run() override {
    const CsrView<T>& a = this->a();
    Csr<T>& c = this->c_;
    c = Csr<T>(a.rows, this->b().cols);
    for (Index i = 0; i < a.rows; ++i) {
      add_row(i, c);
      c.row_ptr[static_cast<std::size_t>(i) + 1] = std::ssize(c.col_idx);
    }
  }

 private:
  /// Makes row i of C, behind the rows that are there.
  void add_row(Index i, Csr<T>& c) {
    const CsrView<T>&a = this->a(), &b = this->b();
    Word* const bits = bits_.data();
    T* const sums = sums_.data();
    std::size_t first_word = bits_.size(), end_word = 0;  // of the row's columns
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
      const Index k = a.col_idx[p];
      const Offset begin = b.row_ptr[k], end = b.row_ptr[k + 1];
      if (begin == end) continue;
      first_word = std::min(first_word, bitmap::word_of(b.col_idx[begin]));
      end_word = std::max(end_word, bitmap::word_of(b.col_idx[end - 1]) + 1);
      for (Offset q = begin; q < end; ++q) {
        const Index j = b.col_idx[q];
        bits[bitmap::word_of(j)] |= bitmap::bit_of(j);
        sums[j] += a.values[p] * b.values[q];
      }
    }
    for (std::size_t w = first_word; w < end_word; ++w) {
      bitmap::for_each_bit(bits[w], w, [&](Index j) {
        c.col_idx.push_back(j);
        c.values.push_back(sums[j]);
        sums[j] = T{0};
      });
      bits[w] = 0;
    }
  }

  Buffer<Word> bits_;  // all zero between rows
  Buffer<T> sums_;     // likewise
};

}  // namespace

void cpu_serial::add_gustavson_dense(Registry& registry) {
  registry.add<GustavsonDense>({.name = "01_cpu_serial/gustavson_dense",
                                .idea = "a bitmap gives the columns in order, and nothing is sorted",
                                .previous = "gustavson_sorted"});
}

}  // namespace stages
