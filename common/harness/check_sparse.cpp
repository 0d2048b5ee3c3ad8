// The check of sparse results: C = A B.

#include <vector>

#include "common/harness/check_parts.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/instantiate.hpp"
#include "common/matrix/statistics.hpp"

namespace stages::checking {
namespace {

template <class T>
std::string structure_failure(const SpgemmProblem<T>& p, const Csr<T>& c) {
  if (c.rows != p.a->rows || c.cols != p.b->cols)
    return fmt::format("C is {} x {}, expected {} x {}", c.rows, c.cols, p.a->rows, p.b->cols);
  try {
    require_canonical(c, "C");
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// An element of C as it must be.
template <class T>
struct Term {
  Index column;
  Offset products;
  Expected<T> expected;
};

/// What expected_row works in: as long as the longest row so far.
template <class T>
struct ExpandedRow {
  struct ProductPlace {
    Index column;
    Index a;   ///< place within the row of A
    Offset b;  ///< place in B
  };
  std::vector<ProductPlace> products;
  std::vector<Term<T>> terms;
};

/// Row i of C by expand, sort, compress. What is sorted are places, half as large as the terms.
template <class T>
void expected_row(const SpgemmProblem<T>& p, const SpgemmOperands<T>& in, Index i, ExpandedRow<T>& row) {
  row.products.clear();
  row.terms.clear();
  const auto a_columns = row_columns(*p.a, i);
  for (std::size_t a = 0; a < a_columns.size(); ++a) {
    const auto k = static_cast<std::size_t>(a_columns[a]);
    for (Offset b = p.b->row_ptr[k]; b < p.b->row_ptr[k + 1]; ++b)
      row.products.push_back({p.b->col_idx[static_cast<std::size_t>(b)], static_cast<Index>(a), b});
  }
  std::ranges::sort(row.products, {}, &ExpandedRow<T>::ProductPlace::column);
  const auto a_begin = static_cast<std::size_t>(p.a->row_ptr[static_cast<std::size_t>(i)]);
  for (const auto& [column, a, b] : row.products) {
    if (row.terms.empty() || row.terms.back().column != column) row.terms.push_back({column, 0, {}});
    const Wide<T> product = static_cast<Wide<T>>(in.a_values[a_begin + static_cast<std::size_t>(a)]) *
                            static_cast<Wide<T>>(in.b_values[static_cast<std::size_t>(b)]);
    Term<T>& term = row.terms.back();
    term.products += 1;
    term.expected.value += product;
    term.expected.magnitude += std::abs(product);
  }
}

/// Compares row i of C with the expected terms; returns the worst ratio, counts the terms that it cannot
/// judge, and says in `failure` what is wrong.
template <class T>
double compare_row(const Csr<T>& c, Index i, const std::vector<Term<T>>& terms, ValueKind kind,
                   bool may_drop_zeros, Offset& not_judged, std::string& failure) {
  const auto columns = row_columns(c, i);
  const auto values = row_values(c, i);
  double worst = 0;
  std::size_t k = 0;
  for (const Term<T>& term : terms) {
    const bool present = k < columns.size() && columns[k] == term.column;
    if (!present && k < columns.size() && columns[k] < term.column)
      break;  // an entry that should not be there
    if (!present && !may_drop_zeros) {
      failure =
          fmt::format("C has no entry at ({}, {}), where {} products meet", i, term.column, term.products);
      return worst;
    }
    if (out_of_range<T>(term.expected.magnitude)) {
      ++not_judged;
      k += present;
      continue;
    }
    const T got = present ? values[k] : T{0};
    const double ratio = error_ratio(got, term.expected, term.products, kind);
    if (!(ratio <= 1)) {
      failure = fmt::format("C({}, {}) is {}, expected {} ({} products, {:.3g} times the error bound)", i,
                            term.column, present ? fmt::format("{}", got) : "not there",
                            static_cast<double>(term.expected.value), term.products, ratio);
      return worst;
    }
    worst = std::max(worst, ratio);
    k += present;
  }
  if (k < columns.size())
    failure = fmt::format("C has an entry at ({}, {}), where no product falls", i, columns[k]);
  return worst;
}

/// Integers only, all rows: C w = A (B w).
template <class T>
void compare_sparse_sums(const SpgemmProblem<T>& p, const SpgemmOperands<T>& in, const Csr<T>& c,
                         std::uint64_t seed, Findings& findings) {
  const auto times = [](const Csr<T>& m, const Buffer<T>& values, Index i, auto&& vector) {
    Sum sum = 0;
    for (Offset k = m.row_ptr[static_cast<std::size_t>(i)]; k < m.row_ptr[static_cast<std::size_t>(i) + 1];
         ++k) {
      sum += as_integer(values[static_cast<std::size_t>(k)]).value_or(0) *
             vector(m.col_idx[static_cast<std::size_t>(k)]);
    }
    return sum;
  };
  const auto w = [&](Index j) { return weight(j, seed); };
  std::vector<Sum> bw(static_cast<std::size_t>(p.b->rows));
  for (Index k = 0; k < p.b->rows; ++k) bw[static_cast<std::size_t>(k)] = times(*p.b, in.b_values, k, w);
  for (const T value : c.values) {
    if (!as_integer(value)) {
      findings.fail(p.a->rows, fmt::format("C holds {}, no exact sum of small integers", value));
      return;
    }
  }
  for (Index i = 0; i < p.a->rows; ++i) {
    const Sum got = times(c, c.values, i, w);
    const Sum expected =
        times(*p.a, in.a_values, i, [&](Index k) { return bw[static_cast<std::size_t>(k)]; });
    if (got != expected) {
      findings.fail(i, fmt::format("row {} of C has the weighted sum {}, expected {} (exact integers)", i,
                                   readable(got), readable(expected)));
      return;
    }
  }
}

}  // namespace

template <class T>
CheckReport verify_sparse(const SpgemmProblem<T>& p, const SpgemmOperands<T>& in, const Csr<T>& c,
                          ValueKind kind, const Claims& claims, const CheckOptions& options) {
  CheckReport report;
  report.rows = p.a->rows;
  report.failure = structure_failure(p, c);
  if (!report.passed() || p.a->rows == 0) return report;
  const auto row_work = spgemm_row_products(*p.a, *p.b);
  const auto chosen = choose_rows(p.a->rows, row_work, options);
  report.rows_checked = std::ssize(chosen);
  Findings findings;
  over_blocks(chosen.size(), 256, options, [&](std::size_t begin, std::size_t end) {
    ExpandedRow<T> row;
    double worst = 0;
    Offset sums = 0, not_judged = 0;
    for (std::size_t r = begin; r < end; ++r) {
      std::string failure;
      expected_row(p, in, chosen[r], row);
      sums += std::ssize(row.terms);
      worst = std::max(
          worst, compare_row(c, chosen[r], row.terms, kind, claims.drops_exact_zeros, not_judged, failure));
      if (!failure.empty()) findings.fail(chosen[r], std::move(failure));
    }
    findings.compared(worst, sums, not_judged);
  });
  if (kind == ValueKind::integer) compare_sparse_sums(p, in, c, options.seed, findings);
  findings.write_to(report);
  return report;
}

STAGES_FOR_VALUES(verify_sparse)

}  // namespace stages::checking
