#pragma once
// The problems that a job asks for, made of matrices that are loaded.

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/cli/run_choice.hpp"
#include "common/cli/run_limits.hpp"
#include "common/matrix/convert.hpp"

namespace stages {

template <class T>
using SharedCsr = std::shared_ptr<const Csr<T>>;

/// The factors of a matrix times itself: of one that is not square, with its transpose, in the order that takes
/// fewer products. `form` says it where that isn't plain: "A A^T", "A^T A".
template <class T>
struct Square {
  SharedCsr<T> a, b;
  std::string form = {};
};
template <class T>
Square<T> square_of(const SharedCsr<T>& a) {
  if (a->rows == a->cols) return {a, a};
  const auto t = std::make_shared<const Csr<T>>(transpose(*a));
  // The products of A^T A are as many as the squares of A's row lengths add up to, those of A A^T likewise.
  const auto products = [](const Csr<T>& m) {
    double sum = 0;
    for (Index i = 0; i < m.rows; ++i)
      sum += static_cast<double>(m.row_nnz(i)) * static_cast<double>(m.row_nnz(i));
    return sum;
  };
  if (products(*t) <= products(*a)) return {a, t, "A A^T"};
  return {t, a, "A^T A"};
}

/// Makes them of one type of values.
template <class T>
class Problems {
 public:
  /// load(source) gives the matrix of SpGEMM's B. Both arguments outlive this object.
  Problems(const ProblemOptions& options, const RunLimits& limits,
           std::function<SharedCsr<T>(const std::string&)> load)
      : options_(options), limits_(limits), load_(std::move(load)) {}

  /// Calls with(problem, form) for each problem of the operation; `form` as in Square, or the name of B.
  /// Returns why there is none: a matrix of the built-in set of which such a product makes no sense. Throws
  /// OutOfMemory where there is no room for it.
  template <class With>
  std::string of(Op op, const Job& job, const SharedCsr<T>& a, With&& with) const {
    if (op == Op::spmv) return spmv(job, a, with);
    if (op == Op::spgemm) return spgemm(job, a, with);
    for (const Index n : options_.n_cols) with(spmm(job, a, n), "");
    return {};
  }

 private:
  void require_room(const std::string& name, const Csr<T>& a, double vectors) const {
    limits_.require_room(name, a.rows, a.cols, a.nnz(), vectors, sizeof(T));
  }

  template <class With>
  std::string spmv(const Job& job, const SharedCsr<T>& a, With&& with) const {
    const Mode mode = value_named(kModes, options_.mode).value();
    if (mode == Mode::chain && a->rows != a->cols && job.from_set)
      return fmt::format("{}: left out: a chain of products needs a square matrix, and this one is {} x {}",
                         job.name, a->rows, a->cols);
    const Index products =
        options_.products.value_or(mode == Mode::single ? 1 : limits_.default_products(a->nnz()));
    require_room(job.name, *a, mode == Mode::chain ? 1 : products);
    with(make_spmv_problem<T>(job.name, a, mode, products), "");
    return {};
  }

  SpmmProblem<T> spmm(const Job& job, const SharedCsr<T>& a, Index n) const {
    const Layout layout = options_.layout == "col" ? Layout::col_major : Layout::row_major;
    require_room(job.name, *a, n);
    return make_spmm_problem<T>({.name = job.name,
                                 .a = a,
                                 .n_cols = n,
                                 .alpha = static_cast<T>(options_.alpha),
                                 .beta = static_cast<T>(options_.beta),
                                 .b_layout = layout,
                                 .c_layout = layout});
  }

  /// C = A B, or a chain of it, for each place where C may have to be.
  template <class With>
  std::string spgemm(const Job& job, const SharedCsr<T>& a, With&& with) const {
    const Index rounds = options_.mode == "chain" ? options_.products.value_or(kDefaultRounds) : 1;
    require_room(job.name, *a, 1);
    Square<T> factors{a, a};
    if (job.b.empty()) {
      factors = square_of(a);
    } else if (job.b != job.name) {
      factors.b = load_(job.b);
      factors.form = "times " + job.b;
      require_room(job.b, *factors.b, 1);
    }
    if (!job.b.empty() && rounds > 1 && factors.b->rows != factors.b->cols && job.from_set)
      return fmt::format("{}: left out: a chain of products needs a square B", job.name);
    for (const std::string& place : options_.destinations)
      with(make_spgemm_problem<T>(job.name, factors.a, factors.b, value_named(kDestinations, place).value(),
                                  rounds),
           factors.form);
    return {};
  }

  const ProblemOptions& options_;
  const RunLimits& limits_;
  std::function<SharedCsr<T>(const std::string&)> load_;
};

}  // namespace stages
