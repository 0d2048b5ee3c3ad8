#pragma once
// The problems that a job asks for, made of matrices that are loaded, and what they may take of those.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "common/cli/run_choice.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/generate.hpp"
#include "common/matrix/memory.hpp"

namespace stages {

template <class T>
using SharedCsr = std::shared_ptr<const Csr<T>>;

/// kDefaultProducts, or fewer where so many would be beyond the limits for every entry. `simulated`: kernels
/// run on the executor, if there are any.
inline Index default_products(const RunOptions& limits, bool simulated, Offset nnz) {
  const double work = simulated ? std::min(limits.max_work, limits.max_simulated_work) : limits.max_work;
  return static_cast<Index>(
      std::clamp(work / static_cast<double>(std::max<Offset>(nnz, 1)), 1.0, double{kDefaultProducts}));
}

/// Products of matrices with next to nothing in them still take memory and time for each row and column.
/// Throws OutOfMemory where that is out of proportion. `vectors`: columns of the dense operand. A file is
/// trusted less than a spec, whose writer has asked for so many.
template <class T>
void require_room(const RunOptions& limits, const std::string& name, const Csr<T>& a, double vectors) {
  // Seen in runs on 4 million rows with one entry: row pointers, references, x, y and what checks y.
  const double line_bytes = 64 + 3.0 * sizeof(T) * vectors;
  const double most = is_matrix_spec(name) ? static_cast<double>(available_memory()) / 2 : kMostForEmptyLines;
  require_room_for_lines(name, a, line_bytes, limits.max_memory > 0 ? limits.max_memory : most);
}

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
struct Problems {
  const ProblemOptions& options;
  const RunOptions& limits;
  bool simulated;                                        ///< as above
  std::function<SharedCsr<T>(const std::string&)> load;  ///< gives the matrix of SpGEMM's B

  /// Calls with(problem, form) for each problem of the operation; `form` as in Square, or the name of B.
  /// Returns why there is none: a matrix of the built-in set of which such a product makes no sense. Throws
  /// OutOfMemory where there is no room for it.
  template <class With>
  std::string of(Op op, const Job& job, const SharedCsr<T>& a, With&& with) const {
    const Mode mode = value_named(kModes, options.mode).value();
    if (op == Op::spmv) {
      if (mode == Mode::chain && a->rows != a->cols && job.from_set)
        return fmt::format("{}: left out: a chain of products needs a square matrix, and this one is {} x {}",
                           job.name, a->rows, a->cols);
      const Index products =
          options.products.value_or(mode == Mode::single ? 1 : default_products(limits, simulated, a->nnz()));
      require_room(limits, job.name, *a, mode == Mode::chain ? 1 : products);
      with(make_spmv_problem<T>(job.name, a, mode, products), "");
    } else if (op == Op::spmm) {
      const Layout layout = options.layout == "col" ? Layout::col_major : Layout::row_major;
      for (const Index n : options.n_cols) {
        require_room(limits, job.name, *a, n);
        with(make_spmm_problem<T>({.name = job.name,
                                   .a = a,
                                   .n_cols = n,
                                   .alpha = static_cast<T>(options.alpha),
                                   .beta = static_cast<T>(options.beta),
                                   .b_layout = layout,
                                   .c_layout = layout}),
             "");
      }
    } else {  // C = A B, or a chain of it, for each place where C may have to be
      require_room(limits, job.name, *a, 1);
      Square<T> factors{a, a};
      if (job.b.empty()) {
        factors = square_of(a);
      } else if (job.b != job.name) {
        factors.b = load(job.b);
        factors.form = "times " + job.b;
        require_room(limits, job.b, *factors.b, 1);
      }
      const Index rounds = mode == Mode::chain ? options.products.value_or(kDefaultRounds) : 1;
      if (!job.b.empty() && rounds > 1 && factors.b->rows != factors.b->cols && job.from_set)
        return fmt::format("{}: left out: a chain of products needs a square B", job.name);
      for (const std::string& place : options.destinations)
        with(make_spgemm_problem<T>(job.name, factors.a, factors.b, value_named(kDestinations, place).value(),
                                    rounds),
             factors.form);
    }
    return {};
  }
};

}  // namespace stages
