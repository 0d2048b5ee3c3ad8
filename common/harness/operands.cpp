#include "common/harness/operands.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/harness/plan.hpp"
#include "common/matrix/parallel.hpp"
#include "common/matrix/random.hpp"

namespace stages {
namespace {

/// Which array the numbers are for: each draws from a stream of its own.
enum class Array : std::uint64_t { a = 101, b = 102, x = 103, c0 = 104 };

std::uint64_t key(std::uint64_t seed, Array array) {
  return random::mix(seed * random::kGolden + static_cast<std::uint64_t>(array));
}

/// Uniform in [-1, 1), never 0, with 24 random bits, so that float and double get the same number.
template <class T>
T real_number(random::Word word) {
  const auto odd = static_cast<std::int32_t>(word >> 40U) * 2 + 1 - (1 << 24);
  return static_cast<T>(odd) / static_cast<T>(1 << 24);
}

/// The integer in -16 .. 16 nearest to `factor`, but 0 only for 0: else 1 with the sign of `factor`.
template <class T>
T small_integer(T factor) {
  const T rounded = std::clamp(std::round(factor), T{-16}, T{16});
  return rounded == T{0} && factor != T{0} ? std::copysign(T{1}, factor) : rounded;
}

/// Of real values, or uniform among -limit .. -1, 1 .. limit.
template <class T>
T number_of(random::Word word, ValueKind kind, Offset limit) {
  if (kind == ValueKind::real) return real_number<T>(word);
  const auto k = static_cast<Offset>(random::scale(word, static_cast<random::Word>(2 * limit)));
  return static_cast<T>(k < limit ? k - limit : k - limit + 1);
}

/// The largest v, at most 16, with which `terms` products v * v * scale sum below 2^24 (2^53 for double).
template <class T>
Offset integer_limit(Offset terms, double scale) {
  const double room = std::ldexp(1.0, std::numeric_limits<T>::digits) /
                      (static_cast<double>(std::max<Offset>(terms, 1)) * scale);
  return std::clamp(static_cast<Offset>(std::sqrt(room)), Offset{1}, Offset{16});
}

template <class T>
Offset value_limit(const SpmvProblem<T>& p) {
  return integer_limit<T>(p.a->longest_row(), 1);
}
template <class T>
Offset value_limit(const SpmmProblem<T>& p) {
  return integer_limit<T>(p.a->longest_row() + 1,
                          std::max({1.0, std::abs(double{p.alpha}), std::abs(double{p.beta})}));
}
template <class T>
Offset value_limit(const SpgemmProblem<T>& p) {
  return integer_limit<T>(std::min(p.max_row_products, p.a->longest_row()), 1);
}

constexpr Offset kBlock = 65536;  ///< elements that a thread fills at a time

template <class T>
void fill(Buffer<T>& values, ValueKind kind, Offset limit, std::uint64_t key) {
  parallel_blocks(std::ssize(values), kBlock, 0, [&](int, Offset begin, Offset end) {
    for (auto k = static_cast<std::size_t>(begin); k < static_cast<std::size_t>(end); ++k)
      values[k] = number_of<T>(random::Stream(key, k).next(), kind, limit);
  });
}

template <class T>
Dense<T> dense_operand(Index rows, Index cols, Layout layout, Offset ld, ValueKind kind, Offset limit,
                       std::uint64_t key) {
  Dense<T> out(rows, cols, layout, ld);
  // Padding: NaN spoils every real result that it leaks into, even times zero, but in the padding of the
  // result, where NaN belongs, it goes unseen: so with integers it is a number.
  if (std::ssize(out.data) > Offset{rows} * cols)
    std::ranges::fill(out.data, kind == ValueKind::real ? std::numeric_limits<T>::quiet_NaN() : T{12345});
  const auto fill_row = [&](Index i) {
    for (Index j = 0; j < cols; ++j) {
      const auto place =
          static_cast<random::Word>(i) * static_cast<random::Word>(cols) + static_cast<random::Word>(j);
      out(i, j) = number_of<T>(random::Stream(key, place).next(), kind, limit);
    }
  };
  parallel_blocks(rows, kBlock / std::clamp<Offset>(cols, 1, kBlock), 0, [&](int, Offset begin, Offset end) {
    for (Offset i = begin; i < end; ++i) fill_row(static_cast<Index>(i));
  });
  return out;
}

/// +1 or -1 for row and column i of a chain's matrix.
double sign(Index i, std::uint64_t key) {
  return random::Stream(key, static_cast<random::Word>(i)).next() % 2 == 0 ? 1 : -1;
}

/// Scales each row of A to sum |a| = 1, and gives element (i, j) the sign s_i s_j of a random vector s. With
/// the signs that A has, the terms of a row cancel and x loses a factor of about sqrt(row length) a product:
/// after 40 of them a chain in float would multiply zeros. This A is similar to a stochastic matrix, whose
/// products tend to a multiple of s.
template <class T>
void normalise_rows(Csr<T>& a, std::uint64_t key) {
  for (Index i = 0; i < a.rows; ++i) {
    T* const row = a.values.data() + a.row_ptr[static_cast<std::size_t>(i)];
    const Offset n = a.row_nnz(i);
    double sum = 0;
    for (Offset k = 0; k < n; ++k) sum += std::abs(double{row[k]});
    const Index* const columns = a.col_idx.data() + a.row_ptr[static_cast<std::size_t>(i)];
    for (Offset k = 0; k < n && sum > 0; ++k)
      row[k] = static_cast<T>(sign(i, key) * sign(columns[k], key) * std::abs(double{row[k]}) / sum);
  }
}

/// Leaves one +1 or -1 in each row of A, among zeros: x keeps small integers through a chain of any length.
template <class T>
void select_one_per_row(Csr<T>& a, std::uint64_t key) {
  std::fill(a.values.begin(), a.values.end(), T{0});
  for (Index i = 0; i < a.rows; ++i) {
    random::Stream numbers(key, static_cast<random::Word>(i));
    const auto n = static_cast<random::Word>(a.row_nnz(i));
    if (n == 0) continue;
    const auto chosen = static_cast<std::size_t>(a.row_ptr[static_cast<std::size_t>(i)]) + numbers.below(n);
    a.values[chosen] = numbers.next() % 2 == 0 ? T{1} : T{-1};
  }
}

}  // namespace

template <class Problem>
Problem with_values(const Problem& problem, ValueKind kind, std::uint64_t seed) {
  const AllProcessors hold;
  Problem p = problem;
  if constexpr (Problem::kOp != Op::spgemm) {  // there both value arrays are operands
    bool chain = false;
    if constexpr (Problem::kOp == Op::spmv) chain = p.mode == Mode::chain;
    if (kind == ValueKind::real && !chain) return p;
    if constexpr (Problem::kOp == Op::spmm) {
      p.alpha = small_integer(p.alpha);
      p.beta = small_integer(p.beta);
    }
    auto a = std::make_shared<Csr<typename Problem::Value>>(*p.a);
    if (kind == ValueKind::real) {
      normalise_rows(*a, key(seed, Array::a));
    } else if (chain) {
      select_one_per_row(*a, key(seed, Array::a));
    } else {
      fill(a->values, kind, value_limit(p), key(seed, Array::a));
    }
    p.a = std::move(a);
  }
  return p;
}

template <class Problem>
typename Problem::Operands make_operands(const Problem& p, ValueKind kind, std::uint64_t seed) {
  using T = typename Problem::Value;
  const AllProcessors hold;
  const Offset limit = value_limit(p);
  typename Problem::Operands out;
  if constexpr (Problem::kOp == Op::spmv) {
    const Index vectors = p.mode == Mode::chain ? 1 : p.n_vectors;
    out.x = dense_operand<T>(p.a->cols, vectors, Layout::col_major, 0, kind, limit, key(seed, Array::x));
  } else if constexpr (Problem::kOp == Op::spmm) {
    out.b = dense_operand<T>(p.a->cols, p.n_cols, p.b_layout, p.ldb, kind, limit, key(seed, Array::b));
    if (p.beta != T{0})
      out.c0 = dense_operand<T>(p.a->rows, p.n_cols, p.c_layout, p.ldc, kind, limit, key(seed, Array::c0));
  } else {
    const auto draw = [&](const Csr<T>& matrix, Array array, Buffer<T>& values) {
      values.resize(matrix.values.size());
      fill(values, kind, limit, key(seed, array));
      for (std::size_t k = 0; kind == ValueKind::real && k < values.size(); ++k)
        if (matrix.values[k] == T{0}) values[k] = T{0};  // an entry may not leave stored zeros out
    };
    draw(*p.a, Array::a, out.a_values);
    draw(*p.b, Array::b, out.b_values);
    if (p.rounds == 1) return out;
    Csr<T> b = *p.b;  // with values with which C keeps its size through a chain of any length
    b.values = std::move(out.b_values);
    kind == ValueKind::real ? normalise_rows(b, key(seed, Array::b))
                            : select_one_per_row(b, key(seed, Array::b));
    out.b_values = std::move(b.values);
  }
  return out;
}

template <class Problem>
double operand_elements(const Problem& p) {
  if constexpr (Problem::kOp == Op::spmv) {
    return static_cast<double>(p.a->cols) * (p.mode == Mode::chain ? 1 : p.n_vectors);
  } else if constexpr (Problem::kOp == Op::spmm) {
    const double rows = static_cast<double>(p.a->cols) + (p.beta != 0 ? p.a->rows : 0);
    return rows * p.n_cols;
  } else {
    return static_cast<double>(p.a->nnz() + p.b->nnz());
  }
}

#define STAGES_INSTANTIATE(P)                                 \
  template P with_values(const P&, ValueKind, std::uint64_t); \
  template double operand_elements(const P&);                 \
  template P::Operands make_operands(const P&, ValueKind, std::uint64_t);
STAGES_FOR_EACH_PROBLEM(STAGES_INSTANTIATE)

}  // namespace stages
