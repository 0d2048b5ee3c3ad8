#include "common/harness/problem.hpp"

#include <algorithm>

#include "common/matrix/error.hpp"
#include "common/matrix/statistics.hpp"

namespace stages {

void require_chain(const std::string& name, Index rows, Index cols, const char* which) {
  if (rows != cols)
    fail("{}: a chain of products needs a square {}, and this one is {} x {}", name, which, rows, cols);
}

void require_product(const std::string& name, Index a_rows, Index a_cols, Index b_rows, Index b_cols) {
  if (a_cols != b_rows)
    fail("{}: A is {} x {} and B is {} x {}; A must have as many columns as B has rows", name, a_rows, a_cols,
         b_rows, b_cols);
}

template <class T>
SpmvProblem<T> make_spmv_problem(std::string name, std::shared_ptr<const Csr<T>> a, Mode mode,
                                 Index products) {
  if (products < 1) fail("{}: {} products asked for; give at least 1", name, products);
  if (mode == Mode::single && products != 1)
    fail("{}: {} products asked for in mode single; use mode stream or chain", name, products);
  if (mode == Mode::chain) require_chain(name, a->rows, a->cols);
  return {std::move(name), std::move(a), mode, products};
}

template <class T>
SpmmProblem<T> make_spmm_problem(SpmmProblem<T> wanted) {
  if (wanted.n_cols < 1)
    fail("{}: the dense matrix has {} columns; give at least 1", wanted.name, wanted.n_cols);
  // Dense's constructor knows how long a line must be; an empty matrix of the same line length asks it.
  const auto line = [&](Index rows, Layout layout, Offset ld) {
    return layout == Layout::row_major ? Dense<T>(0, wanted.n_cols, layout, ld).ld
                                       : Dense<T>(rows, 0, layout, ld).ld;
  };
  wanted.ldb = line(wanted.a->cols, wanted.b_layout, wanted.ldb);
  wanted.ldc = line(wanted.a->rows, wanted.c_layout, wanted.ldc);
  return wanted;
}

template <class T>
SpgemmProblem<T> make_spgemm_problem(std::string name, std::shared_ptr<const Csr<T>> a,
                                     std::shared_ptr<const Csr<T>> b, Destination destination, Index rounds) {
  require_product(name, a->rows, a->cols, b->rows, b->cols);
  if (rounds < 1) fail("{}: a chain of {} products asked for; give at least 1", name, rounds);
  if (rounds > 1) require_chain(name, b->rows, b->cols, "B");
  SpgemmProblem<T> problem{.name = std::move(name),
                           .a = std::move(a),
                           .b = std::move(b),
                           .destination = destination,
                           .rounds = rounds};
  for (const Offset row_products : spgemm_row_products(*problem.a, *problem.b)) {
    problem.products += row_products;
    problem.max_row_products = std::max(problem.max_row_products, row_products);
    problem.result_bound += std::min(row_products, Offset{problem.b->cols});
  }
  return problem;
}

template <class T>
SpgemmProblem<T> next_round(const SpgemmProblem<T>& problem, std::shared_ptr<const Csr<T>> c) {
  return make_spgemm_problem<T>(problem.name, std::move(c), problem.b, problem.destination, problem.rounds);
}

namespace {

/// Bytes of a CSR matrix as the model counts them.
double csr_bytes(double rows, double nnz, std::size_t value_bytes) {
  return 8 * (rows + 1) + static_cast<double>(4 + value_bytes) * nnz;
}

}  // namespace

template <class T>
Cost problem_cost(const SpmvProblem<T>& problem) {
  const Csr<T>& a = *problem.a;
  const double k = problem.n_vectors, nnz = static_cast<double>(a.nnz());
  const double vectors = (static_cast<double>(a.rows) + a.cols) * sizeof(T);
  return {.operations = 2 * nnz * k,
          .model_bytes = k * (csr_bytes(a.rows, nnz, sizeof(T)) + vectors),
          .memory = k * vectors,
          .work = nnz * k};
}

template <class T>
Cost problem_cost(const SpmmProblem<T>& problem) {
  const Csr<T>& a = *problem.a;
  const double n = problem.n_cols, nnz = static_cast<double>(a.nnz());
  const double b = a.cols * n * sizeof(T), c = a.rows * n * sizeof(T);
  const double c_passes = problem.beta == T{0} ? 1 : 2;
  return {.operations = 2 * nnz * n,
          .model_bytes = csr_bytes(a.rows, nnz, sizeof(T)) + b + c_passes * c,
          .memory = b + c_passes * c,
          .work = nnz * n};
}

template <class T>
Cost problem_cost(const SpgemmProblem<T>& problem) {
  const double nnz_c = static_cast<double>(problem.result_bound);
  const double nnz_ab = static_cast<double>(problem.a->nnz() + problem.b->nnz());
  const double c = csr_bytes(problem.a->rows, nnz_c, sizeof(T));
  return {.operations = 2.0 * static_cast<double>(problem.products),
          .model_bytes = csr_bytes(problem.a->rows, static_cast<double>(problem.a->nnz()), sizeof(T)) +
                         csr_bytes(problem.b->rows, static_cast<double>(problem.b->nnz()), sizeof(T)) + c,
          .memory = c + nnz_ab * sizeof(T),
          .work = static_cast<double>(problem.products)};
}

#define STAGES_INSTANTIATE(T)                                                                         \
  template SpmvProblem<T> make_spmv_problem(std::string, std::shared_ptr<const Csr<T>>, Mode, Index); \
  template SpmmProblem<T> make_spmm_problem(SpmmProblem<T>);                                          \
  template SpgemmProblem<T> make_spgemm_problem(std::string, std::shared_ptr<const Csr<T>>,           \
                                                std::shared_ptr<const Csr<T>>, Destination, Index);   \
  template SpgemmProblem<T> next_round(const SpgemmProblem<T>&, std::shared_ptr<const Csr<T>>);       \
  template Cost problem_cost(const SpmvProblem<T>&);                                                  \
  template Cost problem_cost(const SpmmProblem<T>&);                                                  \
  template Cost problem_cost(const SpgemmProblem<T>&);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)

}  // namespace stages
