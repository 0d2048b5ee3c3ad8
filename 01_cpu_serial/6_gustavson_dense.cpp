// Gustavson's algorithm with a bitmap in place of a sort.
//
// The idea: 5_gustavson_sorted.cpp lists the columns of a row and sorts them. Here a bitmap with a bit for each
// column remembers which places were touched. Reading it word by word gives the columns in ascending order, so
// nothing is sorted; the bits, not the values, say what belongs to C, so a sum that cancels to zero stays.
//
// And bits can be counted. So it runs twice: the symbolic pass only sets bits and counts them, which sizes C
// exactly, so its arrays need not grow; the numeric pass fills it. Both leave bitmap and accumulator all zero
// behind them, by clearing what they touched.
//
// Input: any CSR matrices. Cost: 2 x products steps (one pass with and one without values), plus a scan of
// the words between a row's first and last column, twice: up to 2 x rows x columns / 64. Memory: C, exactly,
// and columns x (sizeof(T) + 1/8) bytes. Where columns are many and products few, each place may be a cache
// miss, and the scan is long: see 7_gustavson_hash.cpp. Where most rows are empty, the loop over them is what
// takes long: see 8_hypersparse.cpp. fast/gustavson_adaptive.cpp chooses for each row.
//
// Source: F. G. Gustavson, "Two fast algorithms for sparse matrices: multiplication and permuted
// transposition", ACM TOMS 4 (1978).

#include <algorithm>

#include "01_cpu_serial/stage.hpp"
#include "common/kernels/bitmap.hpp"

namespace stages {
namespace {

using bitmap::Word;

/// Words [begin, end) of the bitmap: those between the first and the last column of a row of C.
struct WordRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  template <class T>
  void include_row(const CsrView<T>& b, Offset first, Offset last) {
    const std::size_t low = bitmap::word_of(b.col_idx[first]),
                      high = bitmap::word_of(b.col_idx[last - 1]) + 1;
    begin = end == 0 ? low : std::min(begin, low);
    end = std::max(end, high);
  }
};

/// Calls visit(position in A, first and last position in B) for each row of B that row i of C adds up.
template <class T, class Visit>
void for_each_b_row(const CsrView<T>& a, const CsrView<T>& b, Index i, Visit&& visit) {
  for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
    const Index k = a.col_idx[p];
    if (b.row_ptr[k] < b.row_ptr[k + 1]) visit(p, b.row_ptr[k], b.row_ptr[k + 1]);
  }
}

/// nnz of row i of C. `bits` is all zero before and after.
template <class T>
Offset count_row(const CsrView<T>& a, const CsrView<T>& b, Index i, Word* bits) {
  WordRange range;
  for_each_b_row(a, b, i, [&](Offset, Offset first, Offset last) {
    range.include_row(b, first, last);
    for (Offset q = first; q < last; ++q) bits[bitmap::word_of(b.col_idx[q])] |= bitmap::bit_of(b.col_idx[q]);
  });
  Offset count = 0;
  for (std::size_t w = range.begin; w < range.end; ++w) {
    count += std::popcount(bits[w]);
    bits[w] = 0;
  }
  return count;
}

/// Writes row i of C to `col_idx` and `values`. `bits` and `sums` are all zero before and after.
template <class T>
void fill_row(const CsrView<T>& a, const CsrView<T>& b, Index i, Word* bits, T* sums, Index* col_idx,
              T* values) {
  WordRange range;
  for_each_b_row(a, b, i, [&](Offset p, Offset first, Offset last) {
    range.include_row(b, first, last);
    const T factor = a.values[p];
    for (Offset q = first; q < last; ++q) {
      const Index j = b.col_idx[q];
      bits[bitmap::word_of(j)] |= bitmap::bit_of(j);
      sums[j] += factor * b.values[q];
    }
  });
  for (std::size_t w = range.begin; w < range.end; ++w) {
    bitmap::for_each_bit(bits[w], w, [&](Index j) {
      *col_idx++ = j;
      *values++ = sums[j];
      sums[j] = T{0};
    });
    bits[w] = 0;
  }
}

template <class T>
class GustavsonDense final : public HostSpgemmPlan<T> {
 public:
  GustavsonDense(const SpgemmProblem<T>& problem, Exec& exec)
      : HostSpgemmPlan<T>(problem),
        exec_(exec),
        bits_(bitmap::words(problem.b->cols), 0),
        sums_(static_cast<std::size_t>(problem.b->cols), T{0}) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    const double cols = problem.b->cols;
    return problem_cost(problem)
        .with_work(2 * static_cast<double>(problem.products) + 2.0 * problem.a->rows)
        .plus_memory(cols * (sizeof(T) + 1.0 / 8));
  }

  void run() override {
    const CsrView<T>&a = this->a(), &b = this->b();
    Csr<T>& c = this->c_;
    c.rows = a.rows;
    c.cols = b.cols;
    c.row_ptr.resize(static_cast<std::size_t>(a.rows) + 1);
    {
      Phase phase(exec_, "symbolic");
      c.row_ptr[0] = 0;
      for (Index i = 0; i < a.rows; ++i) {
        const auto row = static_cast<std::size_t>(i);
        c.row_ptr[row + 1] = c.row_ptr[row] + count_row(a, b, i, bits_.data());
      }
      c.col_idx.resize(static_cast<std::size_t>(c.row_ptr.back()));
      c.values.resize(static_cast<std::size_t>(c.row_ptr.back()));
    }
    Phase phase(exec_, "numeric");
    for (Index i = 0; i < a.rows; ++i) {
      const Offset at = c.row_ptr[static_cast<std::size_t>(i)];
      fill_row(a, b, i, bits_.data(), sums_.data(), c.col_idx.data() + at, c.values.data() + at);
    }
  }

 private:
  Exec& exec_;
  Buffer<Word> bits_;  // all zero between rows
  Buffer<T> sums_;     // likewise
};

}  // namespace

void cpu_serial::add_gustavson_dense(Registry& registry) {
  registry.add<GustavsonDense>(
      {.name = "01_cpu_serial/gustavson_dense",
       .idea = "a bitmap gives the columns in order; one pass counts, a second fills",
       .previous = "gustavson_sorted"});
}

}  // namespace stages
