#include "common/student/messages.hpp"

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

template <class T>
void put(Writer& out, const Dense<T>& matrix) {
  out.number(matrix.rows);
  out.number(matrix.cols);
  out.number(matrix.ld);
  out.number(matrix.layout);
  out.array(matrix.data);
}

template <class T>
void take(Reader& in, Dense<T>& matrix) {
  in.number(matrix.rows);
  in.number(matrix.cols);
  in.number(matrix.ld);
  in.choice(matrix.layout, Layout::col_major);
  in.array(matrix.data);
}

template <class T>
void put(Writer& out, const Csr<T>& matrix) {
  out.number(matrix.rows);
  out.number(matrix.cols);
  out.array(matrix.row_ptr);
  out.array(matrix.col_idx);
  out.array(matrix.values);
}

template <class T>
void take(Reader& in, Csr<T>& matrix) {
  in.number(matrix.rows);
  in.number(matrix.cols);
  in.array(matrix.row_ptr);
  in.array(matrix.col_idx);
  in.array(matrix.values);
}

template <class T>
void put(Writer& out, const SpmvOperands<T>& operands) {
  put(out, operands.x);
}
template <class T>
void put(Writer& out, const SpmmOperands<T>& operands) {
  put(out, operands.b);
  put(out, operands.c0);
}
template <class T>
void put(Writer& out, const SpgemmOperands<T>& operands) {
  out.array(operands.a_values);
  out.array(operands.b_values);
}
template <class T>
void take(Reader& in, SpmvOperands<T>& operands) {
  take(in, operands.x);
}
template <class T>
void take(Reader& in, SpmmOperands<T>& operands) {
  take(in, operands.b);
  take(in, operands.c0);
}
template <class T>
void take(Reader& in, SpgemmOperands<T>& operands) {
  in.array(operands.a_values);
  in.array(operands.b_values);
}

namespace {

template <class T>
void put_options(Writer& out, const SpmvProblem<T>& p) {
  out.number(p.mode);
  out.number(p.products);
}
template <class T>
void put_options(Writer& out, const SpmmProblem<T>& p) {
  out.number(p.n_cols);
  out.number(p.alpha);
  out.number(p.beta);
  out.number(p.b_layout);
  out.number(p.c_layout);
  out.number(p.ldb);
  out.number(p.ldc);
}
template <class T>
void put_options(Writer& out, const SpgemmProblem<T>& p) {
  out.number(p.destination);
  out.number(p.products);
  out.number(p.max_row_products);
  out.number(p.result_bound);
}
template <class T>
void take_options(Reader& in, SpmvProblem<T>& p) {
  in.choice(p.mode, Mode::chain);
  in.number(p.products);
}
template <class T>
void take_options(Reader& in, SpmmProblem<T>& p) {
  in.number(p.n_cols);
  in.number(p.alpha);
  in.number(p.beta);
  in.choice(p.b_layout, Layout::col_major);
  in.choice(p.c_layout, Layout::col_major);
  in.number(p.ldb);
  in.number(p.ldc);
}
template <class T>
void take_options(Reader& in, SpgemmProblem<T>& p) {
  in.choice(p.destination, Destination::one_gpu);
  in.number(p.products);
  in.number(p.max_row_products);
  in.number(p.result_bound);
}

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
  out.array(problem.name);
  put_options(out, problem);
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
  in.array(problem.name);
  take_options(in, problem);
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
