// The check of dense results: y = A x, in a chain too, and C = alpha A B + beta C0.

#include <atomic>
#include <span>
#include <vector>

#include "common/harness/check_parts.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::checking {
namespace {

/// SpMV and SpMM in one form: result column j = alpha A x_j + beta c0_j, where x_j is a column of `b`, or in
/// a chain the result's own column before.
template <class T>
struct DenseCase {
  const Csr<T>& a;
  const Dense<T>& b;
  const Dense<T>* c0;  ///< null: beta = 0
  const Dense<T>& result;
  Index columns;  ///< that the result must have
  double alpha = 1;
  double beta = 0;
  bool chain = false;
  Layout layout = Layout::col_major;  ///< that the result must have
  Offset ld = 0;

  T x(Index k, Index j) const { return chain ? (j == 0 ? b(k, 0) : result(k, j - 1)) : b(k, j); }
  Offset products(Index i) const { return a.row_nnz(i) + (c0 != nullptr) + (alpha != 1); }
};

template <class T>
DenseCase<T> dense_case(const SpmvProblem<T>& p, const SpmvOperands<T>& in, const Dense<T>& result) {
  return {.a = *p.a,
          .b = in.x,
          .c0 = nullptr,
          .result = result,
          .columns = p.n_vectors,
          .chain = p.mode == Mode::chain,
          .ld = p.a->rows};
}
template <class T>
DenseCase<T> dense_case(const SpmmProblem<T>& p, const SpmmOperands<T>& in, const Dense<T>& result) {
  return {.a = *p.a,
          .b = in.b,
          .c0 = p.beta == T{0} ? nullptr : &in.c0,
          .result = result,
          .columns = p.n_cols,
          .alpha = p.alpha,
          .beta = p.beta,
          .layout = p.c_layout,
          .ld = p.ldc};
}

/// Expected elements of rows `chosen[begin, end)`, row after row. Walks A by columns, as no step does:
/// column k of A times row k of X is added into the rows that it touches.
template <class T>
std::vector<Expected<T>> expected_rows(const DenseCase<T>& c, std::span<const Index> chosen) {
  const Index n = c.result.cols;
  struct Entry {
    Index column;
    Index row;  // its place in `chosen`
    T value;
  };
  std::vector<Entry> entries;
  for (std::size_t r = 0; r < chosen.size(); ++r) {
    const auto columns = row_columns(c.a, chosen[r]);
    const auto values = row_values(c.a, chosen[r]);
    for (std::size_t k = 0; k < columns.size(); ++k)
      entries.push_back({columns[k], static_cast<Index>(r), values[k]});
  }
  std::ranges::stable_sort(entries, {}, &Entry::column);

  std::vector<Expected<T>> out(chosen.size() * static_cast<std::size_t>(n));
  // A row of X may lie a column apart from element to element: it is gathered once for all that meet it.
  std::vector<Wide<T>> x(static_cast<std::size_t>(n));
  Index gathered = -1;
  for (const Entry& e : entries) {
    if (e.column != gathered) {
      for (Index j = 0; j < n; ++j) x[static_cast<std::size_t>(j)] = static_cast<Wide<T>>(c.x(e.column, j));
      gathered = e.column;
    }
    Expected<T>* const row = out.data() + static_cast<std::size_t>(e.row) * static_cast<std::size_t>(n);
    for (Index j = 0; j < n; ++j) {
      const Wide<T> product = static_cast<Wide<T>>(e.value) * x[static_cast<std::size_t>(j)];
      row[j].value += product;
      row[j].magnitude += std::abs(product);
    }
  }
  for (std::size_t r = 0; r < chosen.size(); ++r) {
    for (Index j = 0; j < n; ++j) {
      Expected<T>& e = out[r * static_cast<std::size_t>(n) + static_cast<std::size_t>(j)];
      const Wide<T> old =
          c.c0 != nullptr ? static_cast<Wide<T>>(c.beta) * static_cast<Wide<T>>((*c.c0)(chosen[r], j)) : 0;
      e.value = static_cast<Wide<T>>(c.alpha) * e.value + old;
      e.magnitude = static_cast<Wide<T>>(std::abs(c.alpha)) * e.magnitude + std::abs(old);
    }
  }
  return out;
}

/// Shape, and padding: NaN where beta = 0, what C0 had there where not.
template <class T>
std::string dense_form_failure(const DenseCase<T>& c) {
  const Dense<T>& r = c.result;
  if (r.rows != c.a.rows || r.cols != c.columns || r.layout != c.layout || r.ld != c.ld ||
      std::ssize(r.data) != Dense<T>::elements(r.rows, r.cols, r.layout, r.ld)) {
    return fmt::format(
        "the result is {} x {}, {}, leading dimension {}, with {} elements; it must be {} x {}, {}, {}",
        r.rows, r.cols, to_string(r.layout), r.ld, r.data.size(), c.a.rows, c.columns, to_string(c.layout),
        c.ld);
  }
  const Offset lines = r.layout == Layout::row_major ? r.rows : r.cols;
  const Offset used = r.layout == Layout::row_major ? r.cols : r.rows;
  for (Offset line = 0; line < lines; ++line) {
    for (Offset k = used; k < r.ld; ++k) {
      const auto at = static_cast<std::size_t>(line * r.ld + k);
      const T before = c.c0 != nullptr ? c.c0->data[at] : std::numeric_limits<T>::quiet_NaN();
      if (!(r.data[at] == before || (std::isnan(r.data[at]) && std::isnan(before))))
        return fmt::format("the padding after line {} was written: it holds {}", line, r.data[at]);
    }
  }
  return {};
}

/// Rows in a block of the comparison: few enough that a block's elements (65536) and its copied entries
/// (about a million, where rows are even) stay small. With 65536 rows whatever their length, two threads on a
/// graph of 500 entries a row would hold 3 GB of copies.
template <class T>
std::size_t rows_per_block(const Csr<T>& a, Index columns) {
  const Offset mean_row = a.nnz() / std::max(a.rows, 1) + 1;
  return static_cast<std::size_t>(
      std::max(Offset{1}, std::min(Offset{65536} / std::max(columns, 1), (Offset{1} << 20) / mean_row)));
}

template <class T>
void compare_dense(const DenseCase<T>& c, std::span<const Index> chosen, ValueKind kind,
                   const CheckOptions& options, Findings& findings) {
  const Index n = c.result.cols;
  over_blocks(chosen.size(), rows_per_block(c.a, n), options, [&](std::size_t begin, std::size_t end) {
    const auto rows = chosen.subspan(begin, end - begin);
    const auto expected = expected_rows(c, rows);
    double worst = 0;
    Offset sums = 0, not_judged = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (Index j = 0; j < n; ++j) {
        const Expected<T>& e = expected[r * static_cast<std::size_t>(n) + static_cast<std::size_t>(j)];
        sums += e.magnitude > 0;
        if (out_of_range<T>(e.magnitude)) {
          ++not_judged;
          continue;
        }
        const T got = c.result(rows[r], j);
        const double ratio = error_ratio(got, e, c.products(rows[r]), kind);
        if (!(ratio <= 1))
          findings.fail(
              rows[r],
              fmt::format("element ({}, {}) is {}, expected {} ({} products, {:.3g} times the error bound)",
                          rows[r], j, got, static_cast<double>(e.value), c.products(rows[r]), ratio));
        worst = std::max(worst, ratio);
      }
    }
    findings.compared(worst, sums, not_judged);
  });
}

constexpr Offset kRowsOfSums = 1024;  ///< that a thread sums up at a time

/// Calls visit(i, j) for each element of such a matrix in the order of their memory, a block of rows a thread.
template <class Visit>
void each_element(Index rows, Index cols, Layout layout, const CheckOptions& options, Visit&& visit) {
  parallel_blocks(rows, kRowsOfSums, options.threads, [&](int, Offset begin, Offset end) {
    const auto first = static_cast<Index>(begin), last = static_cast<Index>(end);
    if (layout == Layout::row_major) {
      for (Index i = first; i < last; ++i) {
        for (Index j = 0; j < cols; ++j) visit(i, j);
      }
    } else {
      for (Index j = 0; j < cols; ++j) {
        for (Index i = first; i < last; ++i) visit(i, j);
      }
    }
  });
}

/// X w for a matrix with these elements.
template <class Element>
std::vector<Sum> times_weights(Index rows, Layout layout, const std::vector<Sum>& w,
                               const CheckOptions& options, Element&& element) {
  std::vector<Sum> out(static_cast<std::size_t>(rows), 0);
  each_element(rows, static_cast<Index>(w.size()), layout, options, [&](Index i, Index j) {
    out[static_cast<std::size_t>(i)] += w[static_cast<std::size_t>(j)] * element(i, j);
  });
  return out;
}

/// result w, of integers; nothing where an element is none, and the first row with one fails.
template <class T>
std::optional<std::vector<Sum>> result_times_weights(const DenseCase<T>& c, const std::vector<Sum>& w,
                                                     const CheckOptions& options, Findings& findings) {
  std::atomic<Index> bad = c.a.rows;  // no later row is told of
  auto sums = times_weights(c.a.rows, c.result.layout, w, options, [&](Index i, Index j) {
    const auto element = as_integer(c.result(i, j));
    if (!element && i < bad) {
      bad = i;
      findings.fail(
          i, fmt::format("element ({}, {}) is {}, no exact sum of small integers", i, j, c.result(i, j)));
    }
    return element.value_or(0);
  });
  if (bad < c.a.rows) return std::nullopt;
  return sums;
}

/// Integers only, all rows: result w = alpha A (X w) + beta (C0 w).
template <class T>
void compare_dense_sums(const DenseCase<T>& c, const CheckOptions& options, Findings& findings) {
  std::vector<Sum> w(static_cast<std::size_t>(c.result.cols));
  for (Index j = 0; j < c.result.cols; ++j) w[static_cast<std::size_t>(j)] = weight(j, options.seed);
  const auto got = result_times_weights(c, w, options, findings);
  if (!got) return;
  const auto x = [&](Index k, Index j) { return as_integer(c.x(k, j)).value_or(0); };
  const bool few = mostly_empty_columns(c.a.cols, c.a.nnz());  // then a sum for each entry is less
  const auto xw = few ? std::vector<Sum>()
                      : times_weights(c.a.cols, c.chain ? c.result.layout : c.b.layout, w, options, x);
  const auto xw_of = [&](Index k) {
    if (!few) return xw[static_cast<std::size_t>(k)];
    Sum sum = 0;
    for (std::size_t j = 0; j < w.size(); ++j) sum += w[j] * x(k, static_cast<Index>(j));
    return sum;
  };
  std::vector<Sum> old;
  if (c.c0 != nullptr) {
    old = times_weights(c.a.rows, c.c0->layout, w, options,
                        [&](Index i, Index j) { return as_integer((*c.c0)(i, j)).value_or(0); });
  }
  const Sum alpha = as_integer(c.alpha).value_or(0), beta = as_integer(c.beta).value_or(0);
  const auto row_failure = [&](Index i) -> std::string {
    const auto columns = row_columns(c.a, i);
    const auto values = row_values(c.a, i);
    Sum sum = 0;
    for (std::size_t k = 0; k < columns.size(); ++k)
      sum += as_integer(values[k]).value_or(0) * xw_of(columns[k]);
    const auto row = static_cast<std::size_t>(i);
    const Sum expected = alpha * sum + (old.empty() ? 0 : beta * old[row]);
    if ((*got)[row] == expected) return {};
    return fmt::format("row {} has the weighted sum {}, expected {} (exact integers)", i,
                       readable((*got)[row]), readable(expected));
  };
  parallel_blocks(c.a.rows, kRowsOfSums, options.threads, [&](int, Offset begin, Offset end) {
    for (Offset i = begin; i < end; ++i) {
      std::string failure = row_failure(static_cast<Index>(i));
      if (failure.empty()) continue;
      findings.fail(i, std::move(failure));
      return;
    }
  });
}

/// The sum of the absolute values of an element's products.
template <class T>
Wide<T> magnitude_of(const DenseCase<T>& c, Index i, Index j) {
  const auto columns = row_columns(c.a, i);
  const auto values = row_values(c.a, i);
  Wide<T> sum = 0;
  for (std::size_t k = 0; k < columns.size(); ++k)
    sum += std::abs(static_cast<Wide<T>>(values[k]) * static_cast<Wide<T>>(c.x(columns[k], j)));
  const Wide<T> old = c.c0 != nullptr ? static_cast<Wide<T>>((*c.c0)(i, j)) : 0;
  return static_cast<Wide<T>>(std::abs(c.alpha)) * sum + std::abs(static_cast<Wide<T>>(c.beta) * old);
}

/// The first row with a NaN that is no sum beyond the range fails.
template <class T>
void find_nan(const DenseCase<T>& c, const CheckOptions& options, Findings& findings) {
  std::atomic<Index> bad = c.a.rows;
  each_element(c.a.rows, c.result.cols, c.result.layout, options, [&](Index i, Index j) {
    if (!std::isnan(c.result(i, j)) || i >= bad || out_of_range<T>(magnitude_of(c, i, j))) return;
    bad = i;
    findings.fail(i,
                  fmt::format("element ({}, {}) is NaN: not written, or computed from what was not", i, j));
  });
}

}  // namespace

template <class Problem>
CheckReport verify_dense(const Problem& p, const typename Problem::Operands& in,
                         const typename Problem::Result& result, ValueKind kind,
                         const CheckOptions& options) {
  const auto c = dense_case(p, in, result);
  CheckReport report;
  report.rows = p.a->rows;
  report.failure = dense_form_failure(c);
  if (!report.passed() || p.a->rows == 0) return report;
  Findings findings;
  find_nan(c, options, findings);
  findings.write_to(report);
  if (!report.passed()) return report;
  Buffer<Offset> row_work(static_cast<std::size_t>(p.a->rows));
  for (Index i = 0; i < p.a->rows; ++i)
    row_work[static_cast<std::size_t>(i)] = (p.a->row_nnz(i) + 1) * result.cols;
  const auto chosen = choose_rows(p.a->rows, row_work, options);
  report.rows_checked = std::ssize(chosen);
  compare_dense(c, chosen, kind, options, findings);
  if (kind == ValueKind::integer) compare_dense_sums(c, options, findings);
  findings.write_to(report);
  return report;
}

STAGES_INSTANTIATE_ONE(verify_dense, SpmvProblem<float>)
STAGES_INSTANTIATE_ONE(verify_dense, SpmvProblem<double>)
STAGES_INSTANTIATE_ONE(verify_dense, SpmmProblem<float>)
STAGES_INSTANTIATE_ONE(verify_dense, SpmmProblem<double>)

}  // namespace stages::checking
