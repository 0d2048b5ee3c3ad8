#include "common/harness/check.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>

#include "common/harness/all_processors.hpp"
#include "common/harness/plan.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/parallel.hpp"
#include "common/matrix/random.hpp"
#include "common/matrix/statistics.hpp"

namespace stages {
namespace {

/// The type in which the reference is computed: at least 2^29 times (for double 2^11 times) finer than T.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// What the reference says about one element.
template <class T>
struct Expected {
  Wide<T> value = 0;      ///< sum of the products
  Wide<T> magnitude = 0;  ///< sum of their absolute values
};

/// The first failure that any thread met, and the worst ratio.
class Findings {
 public:
  void ratio(double r) {
    const std::lock_guard lock(mutex_);
    worst_ = std::max(worst_, r);
  }
  void fail(Offset row, std::string what) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty() || row < row_) {
      failure_ = std::move(what);
      row_ = row;
    }
  }
  void count(Offset sums, Offset not_judged) {
    const std::lock_guard lock(mutex_);
    sums_ += sums;
    not_judged_ += not_judged;
  }
  void write_to(CheckReport& report) const {
    report.worst = worst_;
    report.sums = sums_;
    report.not_judged = not_judged_;
    if (report.failure.empty()) report.failure = failure_;
  }

 private:
  std::mutex mutex_;
  double worst_ = 0;
  Offset sums_ = 0, not_judged_ = 0;
  Offset row_ = 0;
  std::string failure_;
};

/// Whether partial sums may leave T's range, so that any answer is as good. (An infinite magnitude is none of
/// T's sums: it would let everything pass.)
template <class T>
bool out_of_range(Wide<T> magnitude) {
  return std::isfinite(magnitude) && magnitude > static_cast<Wide<T>>(std::numeric_limits<T>::max());
}

/// |got - expected| over the bound of an element with n products; more than 1, or NaN, is wrong. Exact sums
/// have bound 0: the ratio is then 0 or infinite.
template <class T>
double error_ratio(T got, const Expected<T>& expected, Offset n, ValueKind kind) {
  using Limits = std::numeric_limits<T>;
  const auto exact_below = std::ldexp(Wide<T>{1}, Limits::digits);
  const Wide<T> error = std::abs(static_cast<Wide<T>>(got) - expected.value);
  if (kind == ValueKind::integer && expected.magnitude < exact_below) {
    if (std::isnan(error)) return Limits::quiet_NaN();
    return error == 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  // An infinite bound would let everything pass.
  if (!std::isfinite(expected.magnitude)) return Limits::quiet_NaN();
  const auto count = static_cast<Wide<T>>(n);
  const Wide<T> bound = 2 * count * static_cast<Wide<T>>(Limits::epsilon()) * expected.magnitude +
                        count * static_cast<Wide<T>>(Limits::denorm_min());
  if (error == 0) return 0;
  return static_cast<double>(error / bound);
}

/// Rows whose elements are compared: all if their products fit the budget, else the first, the last, the
/// longest, and rows drawn at random until the budget is used.
Buffer<Index> choose_rows(Index rows, const Buffer<Offset>& row_work, const CheckOptions& options) {
  Buffer<Index> chosen;
  const Offset total = std::accumulate(row_work.begin(), row_work.end(), Offset{0});
  if (total <= options.budget) {
    chosen.resize(static_cast<std::size_t>(rows));
    std::iota(chosen.begin(), chosen.end(), 0);
    return chosen;
  }
  const auto longest =
      static_cast<Index>(std::max_element(row_work.begin(), row_work.end()) - row_work.begin());
  chosen.assign({0, rows - 1, longest});
  const random::Permutation order(static_cast<random::Word>(rows), options.seed);
  Offset work = 0;
  for (Index k = 0; k < rows; ++k) {
    const auto i = static_cast<Index>(order(static_cast<random::Word>(k)));
    work += row_work[static_cast<std::size_t>(i)] + 1;
    if (work > options.budget) break;
    chosen.push_back(i);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

/// Runs work(first, last) over blocks of the chosen rows, on threads.
template <class Work>
void over_blocks(std::size_t count, std::size_t block, const CheckOptions& options, Work&& work) {
  parallel_blocks(static_cast<Offset>(count), static_cast<Offset>(block), options.threads,
                  [&](int, Offset begin, Offset end) {
                    work(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
                  });
}

// ---------------------------------------------------------------------------------------------------- dense
// results

/// SpMV and SpMM in one form: result column j = alpha A x_j + beta c0_j, where x_j is a column of `b`, or in
/// a chain the result's own column before.
template <class T>
struct DenseCase {
  const Csr<T>& a;
  const Dense<T>& b;
  const Dense<T>* c0;  ///< null: beta = 0
  const Dense<T>& result;
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
  return {
      .a = *p.a, .b = in.x, .c0 = nullptr, .result = result, .chain = p.mode == Mode::chain, .ld = p.a->rows};
}
template <class T>
DenseCase<T> dense_case(const SpmmProblem<T>& p, const SpmmOperands<T>& in, const Dense<T>& result) {
  return {.a = *p.a,
          .b = in.b,
          .c0 = p.beta == T{0} ? nullptr : &in.c0,
          .result = result,
          .alpha = p.alpha,
          .beta = p.beta,
          .layout = p.c_layout,
          .ld = p.ldc};
}
template <class T>
Index result_columns(const SpmvProblem<T>& p) {
  return p.products;
}
template <class T>
Index result_columns(const SpmmProblem<T>& p) {
  return p.n_cols;
}

/// Expected elements of rows `chosen[begin, end)`, row after row. Walks A by columns, as no stage does:
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
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& l, const Entry& r) { return l.column < r.column; });

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
std::string dense_form_failure(const DenseCase<T>& c, Index columns) {
  const Dense<T>& r = c.result;
  if (r.rows != c.a.rows || r.cols != columns || r.layout != c.layout || r.ld != c.ld ||
      std::ssize(r.data) != Dense<T>::elements(r.rows, r.cols, r.layout, r.ld)) {
    return fmt::format(
        "the result is {} x {}, {}, leading dimension {}, with {} elements; it must be {} x {}, {}, {}",
        r.rows, r.cols, to_string(r.layout), r.ld, r.data.size(), c.a.rows, columns, to_string(c.layout),
        c.ld);
  }
  const Offset lines = r.layout == Layout::row_major ? r.rows : r.cols;
  const Offset used = r.layout == Layout::row_major ? r.cols : r.rows;
  for (Offset line = 0; line < lines; ++line) {
    for (Offset k = used; k < r.ld; ++k) {
      const auto at = static_cast<std::size_t>(line * r.ld + k);
      const T before = c.c0 != nullptr ? c.c0->data[at] : std::numeric_limits<T>::quiet_NaN();
      if (!(r.data[at] == before || (std::isnan(r.data[at]) && std::isnan(before)))) {
        return fmt::format("the padding after line {} was written: it holds {}", line, r.data[at]);
      }
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
        if (!(ratio <= 1)) {
          findings.fail(
              rows[r],
              fmt::format("element ({}, {}) is {}, expected {} ({} products, {:.3g} times the error bound)",
                          rows[r], j, got, static_cast<double>(e.value), c.products(rows[r]), ratio));
        }
        worst = std::max(worst, ratio);
      }
    }
    findings.ratio(worst);
    findings.count(sums, not_judged);
  });
}

/// Sums of integers modulo 2^64: right ones never leave the range of int64, and wrong ones may without harm.
using Sum = std::uint64_t;

/// A random integer in 1 .. 1024.
Sum weight(Index j, std::uint64_t seed) {
  return 1 + random::scale(random::Stream(seed, static_cast<random::Word>(j)).next(), 1024);
}

/// Integer values of T; NaN and other values that cannot be an exact small sum become `none`.
template <class T>
std::optional<Sum> as_integer(T value) {
  if (!(std::abs(value) < T(1LL << 40)) || value != std::trunc(value)) return std::nullopt;
  return static_cast<Sum>(static_cast<std::int64_t>(value));
}

constexpr Offset kRowsOfSums = 1024;  ///< that a thread sums up at a time

/// The sum as people read it.
std::int64_t readable(Sum sum) {
  return static_cast<std::int64_t>(sum);
}

/// X w for a matrix with these elements, which are visited in the order in which they lie in memory, a block
/// of rows a thread.
template <class Element>
std::vector<Sum> times_weights(Index rows, Layout layout, const std::vector<Sum>& w,
                               const CheckOptions& options, Element&& element) {
  const auto n = static_cast<Index>(w.size());
  std::vector<Sum> out(static_cast<std::size_t>(rows), 0);
  const auto add = [&](Index i, Index j) {
    out[static_cast<std::size_t>(i)] += w[static_cast<std::size_t>(j)] * element(i, j);
  };
  parallel_blocks(rows, kRowsOfSums, options.threads, [&](int, Offset begin, Offset end) {
    const auto first = static_cast<Index>(begin), last = static_cast<Index>(end);
    if (layout == Layout::row_major) {
      for (Index i = first; i < last; ++i) {
        for (Index j = 0; j < n; ++j) add(i, j);
      }
    } else {
      for (Index j = 0; j < n; ++j) {
        for (Index i = first; i < last; ++i) add(i, j);
      }
    }
  });
  return out;
}

/// result w, of integers; nothing where an element is none, and the first row with one fails.
template <class T>
std::optional<std::vector<Sum>> result_times_weights(const DenseCase<T>& c, const std::vector<Sum>& w,
                                                     const CheckOptions& options, Findings& findings) {
  std::atomic<Index> first_bad = c.a.rows;
  auto sums = times_weights(c.a.rows, c.result.layout, w, options, [&](Index i, Index j) {
    const auto element = as_integer(c.result(i, j));
    Index known = first_bad;
    while (!element && i < known && !first_bad.compare_exchange_weak(known, i)) {
    }
    if (!element && i < known) {
      findings.fail(
          i, fmt::format("element ({}, {}) is {}, no exact sum of small integers", i, j, c.result(i, j)));
    }
    return element.value_or(0);
  });
  if (first_bad < c.a.rows) return std::nullopt;
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

/// The first NaN that is no sum beyond the range, in the order in which elements lie in memory; empty: none.
template <class T>
std::string nan_failure(const DenseCase<T>& c, const CheckOptions& options) {
  const Dense<T>& result = c.result;
  const bool by_rows = result.layout == Layout::row_major;
  const Index lines = by_rows ? result.rows : result.cols, length = by_rows ? result.cols : result.rows;
  constexpr Offset kElements = 65536;
  Findings findings;
  parallel_blocks(lines, std::max<Offset>(kElements / std::max(length, 1), 1), options.threads,
                  [&](int, Offset begin, Offset end) {
                    for (auto line = static_cast<Index>(begin); line < static_cast<Index>(end); ++line) {
                      for (Index k = 0; k < length; ++k) {
                        const Index i = by_rows ? line : k, j = by_rows ? k : line;
                        if (!std::isnan(result(i, j)) || out_of_range<T>(magnitude_of(c, i, j))) continue;
                        findings.fail(line,
                                      fmt::format("element ({}, {}) is NaN: not written, or computed from "
                                                  "what was not",
                                                  i, j));
                        return;
                      }
                    }
                  });
  CheckReport report;
  findings.write_to(report);
  return report.failure;
}

template <class Problem>
CheckReport verify_dense(const Problem& p, const typename Problem::Operands& in,
                         const typename Problem::Result& result, ValueKind kind,
                         const CheckOptions& options) {
  const auto c = dense_case(p, in, result);
  CheckReport report;
  report.rows = p.a->rows;
  report.failure = dense_form_failure(c, result_columns(p));
  if (!report.passed() || p.a->rows == 0) return report;
  report.failure = nan_failure(c, options);
  if (!report.passed()) return report;
  Buffer<Offset> row_work(static_cast<std::size_t>(p.a->rows));
  for (Index i = 0; i < p.a->rows; ++i)
    row_work[static_cast<std::size_t>(i)] = (p.a->row_nnz(i) + 1) * result.cols;
  const auto chosen = choose_rows(p.a->rows, row_work, options);
  report.rows_checked = std::ssize(chosen);
  Findings findings;
  compare_dense(c, chosen, kind, options, findings);
  if (kind == ValueKind::integer) compare_dense_sums(c, options, findings);
  findings.write_to(report);
  return report;
}

// ------------------------------------------------------------------------------------------------------------
// SpGEMM

template <class T>
std::string structure_failure(const SpgemmProblem<T>& p, const Csr<T>& c) {
  if (c.rows != p.a->rows || c.cols != p.b->cols) {
    return fmt::format("C is {} x {}, expected {} x {}", c.rows, c.cols, p.a->rows, p.b->cols);
  }
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
  struct Product {
    Index column;
    Index a;   ///< place within the row of A
    Offset b;  ///< place in B
  };
  std::vector<Product> products;
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
  std::sort(row.products.begin(), row.products.end(),
            [](const auto& l, const auto& r) { return l.column < r.column; });
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
    findings.ratio(worst);
    findings.count(sums, not_judged);
  });
  if (kind == ValueKind::integer) compare_sparse_sums(p, in, c, options.seed, findings);
  findings.write_to(report);
  return report;
}

// -------------------------------------------------------------------------------------------------------
// whole entries

template <class T>
bool same_bits(const Buffer<T>& a, const Buffer<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
template <class T>
bool same_bits(const Dense<T>& a, const Dense<T>& b) {
  return same_bits(a.data, b.data);
}
template <class T>
bool same_bits(const Csr<T>& a, const Csr<T>& b) {
  return same_bits(a.row_ptr, b.row_ptr) && same_bits(a.col_idx, b.col_idx) && same_bits(a.values, b.values);
}

/// True where a run starts from what C held before.
template <class T>
bool starts_from_c0(const SpmmProblem<T>& p) {
  return p.beta != T{0};
}
template <class Problem>
bool starts_from_c0(const Problem&) {
  return false;
}

/// For the operands of a run where others came in after the reset: C0 is of those before.
template <class T>
void exchange_c0(SpmmOperands<T>& a, SpmmOperands<T>& b) {
  std::swap(a.c0, b.c0);
}
template <class Operands>
void exchange_c0(Operands&, Operands&) {}

/// Whether rank 0 has found nothing wrong, on all ranks.
bool agreed(const CheckReport& report, Communicator& ranks) {
  bool good = report.passed();
  ranks.broadcast(&good, sizeof good);
  return good;
}

/// The check of one kind of values. Adds to `report`; stops at the first failure (all ranks alike).
template <class Problem>
void check_kind(const Entry& entry, const Problem& problem, Exec& exec, ValueKind kind,
                const CheckOptions& options, CheckReport& report) {
  Communicator& ranks = exec.communicator();
  const bool root = ranks.rank() == 0;
  const Problem p = root ? with_values(problem, kind, options.seed) : problem;
  const auto plan = entry.on<Problem>().prepare(p, exec);
  typename Problem::Operands first, second;
  if (root) {
    first = make_operands(p, kind, options.seed + 1);
    if (kind == ValueKind::real) second = make_operands(p, kind, options.seed + 2);
  }
  const auto judge = [&](const typename Problem::Operands& operands, const typename Problem::Result& result,
                         const char* which) {
    if (root) {
      const CheckReport found = verify(p, operands, result, kind, entry.claims, options);
      report.rows_checked = found.rows_checked;
      report.rows = found.rows;
      report.worst = std::max(report.worst, found.worst);
      if (kind == ValueKind::real) {
        report.sums = found.sums;
        report.not_judged = std::max(report.not_judged, found.not_judged);
      }
      if (!found.passed()) {
        report.failure = fmt::format("{} (with {} {} values)", found.failure, which,
                                     kind == ValueKind::real ? "real" : "integer");
      }
    }
    return agreed(report, ranks);
  };
  const auto run = [&] {
    plan->run();
    exec.synchronize();
    return plan->fetch();
  };
  // A result with the bits of one that was found right needs no second look.
  const auto judge_again = [&](const typename Problem::Result& known, const typename Problem::Result& result,
                               const char* which) {
    bool same = root && same_bits(known, result);
    ranks.broadcast(&same, sizeof same);
    if (same) return true;
    if (!judge(first, result, which)) return false;
    if (root && entry.claims.bitwise_reproducible) {
      report.failure =
          "the same operands gave other bits in another run, and the entry claims that they cannot";
    }
    return agreed(report, ranks);
  };
  plan->load(first);
  plan->reset();
  const auto result = run();
  if (!judge(first, result, "the first")) return;
  if (kind == ValueKind::integer) return;  // exact, and that is all they are for
  if (exec.simulated()) {
    report.note = plan->note();
    report.metrics = plan->metrics();
  }
  // The second operands are there for run() only: what load, reset or fetch multiply, which nobody times, is
  // then the product of the first. C0 is what was there at the reset.
  plan->reset();
  plan->load(second);
  plan->run();
  exec.synchronize();
  plan->load(first);
  {
    const auto other = plan->fetch();
    exchange_c0(first, second);
    const bool right = judge(second, other, "the second");
    exchange_c0(first, second);
    if (!right && root && same_bits(result, other))
      report.failure += "; it is the product of the first: kept, or made by load, reset or fetch";
    if (!right) return;
  }
  plan->reset();
  if (!judge_again(result, run(), "again the first")) return;
  // As the clock will run it: without loading again, and without a reset where that changes nothing.
  if (starts_from_c0(p)) plan->reset();
  judge_again(result, run(), "the first, not loaded again,");
}

}  // namespace

std::string CheckReport::void_because() const {
  if (!passed() || not_judged == 0 || not_judged < sums) return {};
  return fmt::format(
      "no result can be judged: the products of each of the {} sums add up beyond the range of the type; "
      "take "
      "--type f64 or smaller values",
      not_judged);
}

template <class Problem>
CheckReport verify(const Problem& problem, const typename Problem::Operands& operands,
                   const typename Problem::Result& result, ValueKind kind, const Claims& claims,
                   const CheckOptions& options) {
  const AllProcessors hold;
  if constexpr (Problem::kOp == Op::spgemm) {
    return verify_sparse(problem, operands, result, kind, claims, options);
  } else {
    return verify_dense(problem, operands, result, kind, options);
  }
}

template <class Problem>
CheckReport check_entry(const Entry& entry, const Problem& problem, Exec& exec, const CheckOptions& options) {
  CheckReport report;
  for (const ValueKind kind : {ValueKind::real, ValueKind::integer}) {
    check_kind(entry, problem, exec, kind, options, report);
    bool good = report.passed();
    exec.communicator().broadcast(&good, sizeof good);
    if (!good) break;
  }
  return report;
}

template <class Problem>
double check_bytes(const Problem& p) {
  double elements = operand_elements(p);
  if constexpr (Problem::kOp == Op::spmv) elements += 2.0 * p.a->rows * p.products;
  if constexpr (Problem::kOp == Op::spmm) elements += 2.0 * p.a->rows * p.n_cols;
  return sizeof(typename Problem::Value) * elements;
}

#define STAGES_INSTANTIATE(P)                                                                           \
  template CheckReport verify(const P&, const P::Operands&, const P::Result&, ValueKind, const Claims&, \
                              const CheckOptions&);                                                     \
  template CheckReport check_entry(const Entry&, const P&, Exec&, const CheckOptions&);                 \
  template double check_bytes(const P&);
STAGES_INSTANTIATE(SpmvProblem<float>)
STAGES_INSTANTIATE(SpmvProblem<double>)
STAGES_INSTANTIATE(SpmmProblem<float>)
STAGES_INSTANTIATE(SpmmProblem<double>)
STAGES_INSTANTIATE(SpgemmProblem<float>)
STAGES_INSTANTIATE(SpgemmProblem<double>)
#undef STAGES_INSTANTIATE

}  // namespace stages
