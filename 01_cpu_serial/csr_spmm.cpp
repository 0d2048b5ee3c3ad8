// SpMM: CSR times a dense matrix, with a strip of C's row in registers.
//
// The idea: row i of C is the sum of A(i, k) * B(k, :) over the row's non-zeros. Done one non-zero at a time
// over the whole row, each non-zero loads and stores all of C's row, and these outnumber the multiplications.
// Here a strip of up to 32 columns of C stays in registers while all non-zeros of the row pass by, and is
// written once. The width is a template parameter, so the strip is a handful of vector registers and the
// inner loop is a multiply-add each; what is left over when 32 do not fit goes by strips of 16, 8, 4, 2
// and 1. A's row is read again for each strip, from the cache.
//
// Layouts: with B in row-major form the strip reads B(k, j .. j + width) as one piece, which is what makes it
// fast; B in column-major form works with the same code and loads element by element, in strips of at most 8,
// for its lines are far apart. C is written once an element and its layout hardly matters.
//
// Input: any CSR matrix, any number of columns, alpha, beta, leading dimensions. Cost: nnz x n_cols
// multiplications; every non-zero of A reads n_cols elements of B, from the cache where B or its often-used
// rows fit into it. Where beta is 0, C is not read, whatever it holds.

#include <array>

#include "01_cpu_serial/stage.hpp"

namespace stages {
namespace {

/// Where element (i, j) of a dense matrix lies: i * row + j * column.
struct Strides {
  Offset row = 0;
  Offset column = 0;
};

template <class T>
Strides strides_of(const DenseView<T>& m) {
  return m.layout == Layout::row_major ? Strides{m.ld, 1} : Strides{1, m.ld};
}

/// One product, its operands as the strips see them.
template <class T>
struct Spmm {
  const Csr<T>& a;
  const T* b;
  Strides b_strides;
  T* c;
  Strides c_strides;
  T alpha;
  T beta;
};

/// Columns j .. j + kWidth of row i of C. kRows: B's rows are contiguous.
template <int kWidth, bool kRows, class T>
void multiply_strip(const Spmm<T>& m, Index i, Index j) {
  constexpr auto kStrip = static_cast<std::size_t>(kWidth);
  const auto row = static_cast<std::size_t>(i);
  const Offset step = kRows ? 1 : m.b_strides.column;
  const Offset end = m.a.row_ptr[row + 1];
  const Index* columns = m.a.col_idx.data();
  const T* values = m.a.values.data();
  const T* b = m.b + j * step;
  std::array<T, kStrip> sums{};
  for (Offset q = m.a.row_ptr[row]; q < end; ++q) {
    const T* line = b + columns[q] * m.b_strides.row;
    const T value = values[q];
    for (std::size_t s = 0; s < kStrip; ++s) sums[s] += value * line[static_cast<Offset>(s) * step];
  }
  T* c = m.c + i * m.c_strides.row + j * m.c_strides.column;
  for (std::size_t s = 0; s < kStrip; ++s) {
    T& to = c[static_cast<Offset>(s) * m.c_strides.column];
    to = m.beta == T{0} ? m.alpha * sums[s] : m.alpha * sums[s] + m.beta * to;
  }
}

/// Row i of C from column j on: as many strips of kWidth as fit, then narrower ones.
template <int kWidth, bool kRows, class T>
void multiply_row(const Spmm<T>& m, Index i, Index j, Index n_cols) {
  for (; j + kWidth <= n_cols; j += kWidth) multiply_strip<kWidth, kRows>(m, i, j);
  if constexpr (kWidth > 1) {
    if (j < n_cols) multiply_row<kWidth / 2, kRows>(m, i, j, n_cols);
  }
}

template <class T>
class CsrSpmm final : public HostSpmmPlan<T> {
 public:
  CsrSpmm(const SpmmProblem<T>& problem, Exec& /*exec*/) : HostSpmmPlan<T>(problem) {}

  static Cost cost(const SpmmProblem<T>& problem) { return problem_cost(problem); }

  void run() override {
    const SpmmProblem<T>& problem = this->problem();
    const auto b = this->b();
    const auto c = this->c();
    const Spmm<T> m{this->a(), b.data, strides_of(b), c.data, strides_of(c), problem.alpha, problem.beta};
    for (Index i = 0; i < m.a.rows; ++i) {
      if (b.layout == Layout::row_major) {
        multiply_row<32, true>(m, i, 0, problem.n_cols);
      } else {
        multiply_row<8, false>(m, i, 0, problem.n_cols);
      }
    }
  }
};

}  // namespace

void add_csr_spmm(Registry& registry) {
  registry.add<CsrSpmm>(
      {.name = "01_cpu_serial/csr_spmm", .idea = "a strip of C's row stays in registers over A's row"});
}

}  // namespace stages
