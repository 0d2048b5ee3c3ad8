// For experts. SpMV in CSR without mispredicted branches: rows in blocks of four, and rows grouped by length.
//
// csr_spmv. In 2_csr_spmv_plain.cpp one sum makes every addition wait for the one before it. Here rows are
// added up in blocks of four, into four sums. The last block of a row is seldom full, and a branch for each
// product that might be missing is mispredicted half of the time; so the block is computed whole, and zeros
// take the place of what belongs to the next row. Matrices with at most ten non-zeros a row on average keep one
// sum: there too much of the blocks would be zeros.
//
// csr_spmv_by_length. The loop over a short row ends after 2, or 3, or 5 steps, and the processor has to guess
// when (branch prediction); each wrong guess costs as much as a dozen products. So prepare notes, for windows
// of kWindow rows, the rows in order of their length. The run then computes many rows of 2, then many of 3,
// and a loop whose count does not change is predicted; rows up to kUnrolled non-zeros have no loop at all. A
// stays as it is, a window of it stays in the cache, and each row is summed as before. It pays where rows are
// short and their lengths vary, and costs where jumping about in A costs more than the wrong guesses did: see
// the table of SpMV in measured.md.
//
// Input: any CSR matrix. Cost: nnz multiplications; the bytes of A, x and y. Row pointers are narrowed to 32
// bits where nnz fits, which saves 4 bytes a row. By length: 4 bytes a row more, and prepare sorts (by
// counting) once. The kernels are in common/kernels/spmv_rows.hpp, because step 2 runs them on every rank.

#include "01_cpu_serial/stage.hpp"
#include "common/kernels/spmv_rows.hpp"

namespace stages {
namespace {

/// Matrices with at most so many non-zeros a row on average are added up with one sum a row.
constexpr Offset kShortRows = 10;

template <class T>
class CsrSpmv final : public HostSpmvPlan<T> {
 public:
  CsrSpmv(const SpmvProblem<T>& problem, Exec& /*exec*/)
      : HostSpmvPlan<T>(problem), row_ptr_(problem.a->row_ptr) {}

  static Cost cost(const SpmvProblem<T>& problem) {
    return problem_cost(problem).plus_memory(static_cast<double>(sizeof(Index)) * (problem.a->rows + 1.0));
  }

 private:
  void product(const T* x, T* y) override {
    const Csr<T>& a = this->a();
    row_ptr_.with([&](const auto* row_ptr) {
      if (a.nnz() <= kShortRows * a.rows) {
        kernels::multiply_short_rows(a, row_ptr, x, y);
      } else {
        kernels::multiply_rows(a, row_ptr, 0, a.rows, x, y);
      }
    });
  }

  kernels::RowPointers row_ptr_;
};

template <class T>
class CsrSpmvByLength final : public HostSpmvPlan<T> {
 public:
  CsrSpmvByLength(const SpmvProblem<T>& problem, Exec& /*exec*/)
      : HostSpmvPlan<T>(problem), row_ptr_(problem.a->row_ptr) {
    kernels::group_rows(*problem.a, 0, problem.a->rows, order_, groups_);
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    const double windows = problem.a->rows / static_cast<double>(kernels::kWindow) + 1;
    return problem_cost(problem).plus_memory(2 * static_cast<double>(sizeof(Index)) *
                                                 (problem.a->rows + 1.0) +
                                             windows * (kernels::kUnrolled + 2) * sizeof(kernels::Group));
  }

 private:
  void product(const T* x, T* y) override {
    row_ptr_.with([&](const auto* row_ptr) {
      kernels::multiply_groups(this->a(), row_ptr, groups_, order_.data(), x, y);
    });
  }

  kernels::RowPointers row_ptr_;
  Buffer<Index> order_;
  std::vector<kernels::Group> groups_;
};

}  // namespace

void cpu_serial::add_csr_spmv(Registry& registry) {
  registry.add<CsrSpmv>({.name = "01_cpu_serial/csr_spmv",
                         .idea = "four sums a row, the last block without a branch",
                         .previous = "csr_spmv_plain"});
  registry.add<CsrSpmvByLength>({.name = "01_cpu_serial/csr_spmv_by_length",
                                 .idea = "the same, rows of equal length together: no mispredicted loops",
                                 .previous = "csr_spmv"});
}

}  // namespace stages
