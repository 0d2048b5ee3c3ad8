#include "common/student/messages.hpp"

#include "common/harness/plan.hpp"
#include "common/matrix/error.hpp"

namespace stages::student {

std::span<const char> Reader::next(std::size_t bytes) {
  if (bytes > rest_.size()) fail("a message ends too early: {} bytes are left of {}", rest_.size(), bytes);
  const auto taken = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return taken;
}

void Reader::require(std::uint64_t count, std::size_t size) const {
  if (count > rest_.size() / size)
    fail("a message announces {} numbers and has {} bytes left", count, rest_.size());
}

void Reader::end() const {
  if (!rest_.empty()) fail("a message has {} bytes too many", rest_.size());
}

void Reader::fail_choice() {
  fail("a message names a kind that there is not");
}

namespace {

// What a message holds, in its order. Io is a Writer, which puts it, or a Reader, which takes it.

template <class Io, class Matrix>
void dense(Io& io, Matrix& m) {
  io.number(m.rows);
  io.number(m.cols);
  io.number(m.ld);
  io.choice(m.layout, Layout::col_major);
  io.array(m.data);
}

template <class Io, class Matrix>
void csr(Io& io, Matrix& m) {
  io.number(m.rows);
  io.number(m.cols);
  io.array(m.row_ptr);
  io.array(m.col_idx);
  io.array(m.values);
}

template <class Io, class Operands>
void spmm_operands(Io& io, Operands& operands) {
  dense(io, operands.b);
  dense(io, operands.c0);
}

template <class Io, class Operands>
void spgemm_operands(Io& io, Operands& operands) {
  io.array(operands.a_values);
  io.array(operands.b_values);
}

/// A problem but for its matrices.
template <class Io, class Problem>
void options(Io& io, Problem& p) {
  io.array(p.name);
  if constexpr (Problem::kOp == Op::spmv) {
    io.choice(p.mode, Mode::chain);
    io.number(p.products);
  } else if constexpr (Problem::kOp == Op::spmm) {
    io.number(p.n_cols);
    io.number(p.alpha);
    io.number(p.beta);
    io.choice(p.b_layout, Layout::col_major);
    io.choice(p.c_layout, Layout::col_major);
    io.number(p.ldb);
    io.number(p.ldc);
  } else {
    io.choice(p.destination, Destination::one_gpu);
    io.number(p.products);
    io.number(p.max_row_products);
    io.number(p.result_bound);
  }
}

}  // namespace

template <class T>
void put(Writer& out, const Dense<T>& matrix) {
  dense(out, matrix);
}
template <class T>
void take(Reader& in, Dense<T>& matrix) {
  dense(in, matrix);
}
template <class T>
void put(Writer& out, const Csr<T>& matrix) {
  csr(out, matrix);
}
template <class T>
void take(Reader& in, Csr<T>& matrix) {
  csr(in, matrix);
}
template <class T>
void put(Writer& out, const SpmvOperands<T>& operands) {
  dense(out, operands.x);
}
template <class T>
void take(Reader& in, SpmvOperands<T>& operands) {
  dense(in, operands.x);
}
template <class T>
void put(Writer& out, const SpmmOperands<T>& operands) {
  spmm_operands(out, operands);
}
template <class T>
void take(Reader& in, SpmmOperands<T>& operands) {
  spmm_operands(in, operands);
}
template <class T>
void put(Writer& out, const SpgemmOperands<T>& operands) {
  spgemm_operands(out, operands);
}
template <class T>
void take(Reader& in, SpgemmOperands<T>& operands) {
  spgemm_operands(in, operands);
}
template <class T>
void forget(SpmvOperands<T>& operands) {
  poison(operands.x.data);
}
template <class T>
void forget(SpmmOperands<T>& operands) {
  poison(operands.b.data);
}
template <class T>
void forget(SpgemmOperands<T>& operands) {
  poison(operands.a_values);
  poison(operands.b_values);
}

namespace {

template <class T>
std::shared_ptr<const Csr<T>> taken_matrix(Reader& in) {
  auto matrix = std::make_shared<Csr<T>>();
  take(in, *matrix);
  return matrix;
}

}  // namespace

template <class Problem>
void put(Writer& out, const Problem& problem, Matrices matrices) {
  out.number(Problem::kOp);
  out.number(std::is_same_v<typename Problem::Value, float>);
  options(out, problem);
  out.number(matrices == Matrices::with);
  if (matrices == Matrices::without) return;
  put(out, *problem.a);
  if constexpr (Problem::kOp == Op::spgemm) put(out, *problem.b);
}

ProblemKind take_kind(Reader& in) {
  ProblemKind kind;
  in.choice(kind.op, Op::spgemm);
  in.number(kind.single_precision);
  return kind;
}

template <class Problem>
void take_problem(Reader& in, Problem& problem) {
  using T = typename Problem::Value;
  options(in, problem);
  bool matrices = false;
  in.number(matrices);
  if (matrices) {
    problem.a = taken_matrix<T>(in);
    if constexpr (Problem::kOp == Op::spgemm) problem.b = taken_matrix<T>(in);
  }
  in.end();
}

#define STAGES_INSTANTIATE(T)                                    \
  template void put(Writer&, const Dense<T>&);                   \
  template void put(Writer&, const Csr<T>&);                     \
  template void take(Reader&, Dense<T>&);                        \
  template void take(Reader&, Csr<T>&);                          \
  template void put(Writer&, const SpmvOperands<T>&);            \
  template void put(Writer&, const SpmmOperands<T>&);            \
  template void put(Writer&, const SpgemmOperands<T>&);          \
  template void take(Reader&, SpmvOperands<T>&);                 \
  template void take(Reader&, SpmmOperands<T>&);                 \
  template void take(Reader&, SpgemmOperands<T>&);               \
  template void forget(SpmvOperands<T>&);                        \
  template void forget(SpmmOperands<T>&);                        \
  template void forget(SpgemmOperands<T>&);                      \
  template void put(Writer&, const SpmvProblem<T>&, Matrices);   \
  template void put(Writer&, const SpmmProblem<T>&, Matrices);   \
  template void put(Writer&, const SpgemmProblem<T>&, Matrices); \
  template void take_problem(Reader&, SpmvProblem<T>&);          \
  template void take_problem(Reader&, SpmmProblem<T>&);          \
  template void take_problem(Reader&, SpgemmProblem<T>&);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)
#undef STAGES_INSTANTIATE

}  // namespace stages::student
