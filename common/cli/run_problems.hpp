#pragma once
// The problems that a job asks for, made of matrices that are loaded, and what they may take of those.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/cli/run_choice.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/generate.hpp"
#include "common/matrix/memory.hpp"
#include "common/matrix/statistics.hpp"

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

/// Makes them of one type of values.
template <class T>
struct Problems {
  const ProblemOptions& options;
  const RunOptions& limits;
  bool simulated;                                        ///< as above
  std::function<SharedCsr<T>(const std::string&)> load;  ///< gives the matrix of SpGEMM's B

  /// Calls with(problem, form) for each problem of the operation. `form` says what SpGEMM multiplies where that
  /// isn't plain: "times B"; of a matrix alone that is not square, with its transpose, "A A^T" or "A^T A".
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
      SharedCsr<T> left = a, right = a;
      std::string form;
      if (job.b.empty() && a->rows != a->cols) {  // the order that takes fewer products
        right = std::make_shared<const Csr<T>>(transpose(*a));
        const bool transposed_first = spgemm_products(*right, *a) < spgemm_products(*a, *right);
        if (transposed_first) std::swap(left, right);
        form = transposed_first ? "A^T A" : "A A^T";
      } else if (!job.b.empty() && job.b != job.name) {
        right = load(job.b);
        form = "times " + job.b;
        require_room(limits, job.b, *right, 1);
      }
      const Index rounds = mode == Mode::chain ? options.products.value_or(kDefaultRounds) : 1;
      if (!job.b.empty() && rounds > 1 && right->rows != right->cols && job.from_set)
        return fmt::format("{}: left out: a chain of products needs a square B", job.name);
      for (const std::string& place : options.destinations)
        with(make_spgemm_problem<T>(job.name, left, right, value_named(kDestinations, place).value(), rounds),
             form);
    }
    return {};
  }
};

}  // namespace stages
