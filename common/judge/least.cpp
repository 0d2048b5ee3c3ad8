#include "common/judge/least.hpp"

#include <algorithm>
#include <vector>

namespace stages::judge {
namespace {

/// Of a matrix and its values that are not 0.
struct Used {
  double values = 0, rows = 0, columns = 0;
};

template <class T>
Used used(const Csr<T>& a) {
  Used out;
  std::vector<bool> columns(static_cast<std::size_t>(a.cols), false);
  for (Index i = 0; i < a.rows; ++i) {
    bool row = false;
    for (Offset k = a.row_ptr[static_cast<std::size_t>(i)]; k < a.row_ptr[static_cast<std::size_t>(i) + 1];
         ++k) {
      const auto entry = static_cast<std::size_t>(k);
      if (a.values[entry] == T{0}) continue;
      ++out.values;
      row = true;
      columns[static_cast<std::size_t>(a.col_idx[entry])] = true;
    }
    out.rows += row;
  }
  out.columns = static_cast<double>(std::count(columns.begin(), columns.end(), true));
  return out;
}

}  // namespace

template <class T>
LeastBytes least_bytes(const SpmvProblem<T>& p, const SpmvOperands<T>&, const Dense<T>&) {
  const Used a = used(*p.a);
  const double vectors = p.mode == Mode::chain ? 1 : p.n_vectors;
  return {.read = sizeof(T) * (a.values + a.columns * vectors), .written = sizeof(T) * a.rows * p.n_vectors};
}

template <class T>
LeastBytes least_bytes(const SpmmProblem<T>& p, const SpmmOperands<T>&, const Dense<T>&) {
  if (p.alpha == T{0}) return {};
  const Used a = used(*p.a);
  return {.read = sizeof(T) * (a.values + a.columns * p.n_cols), .written = sizeof(T) * a.rows * p.n_cols};
}

template <class T>
LeastBytes least_bytes(const SpgemmProblem<T>& p, const SpgemmOperands<T>& operands, const Csr<T>& result) {
  const Csr<T>&a = *p.a, &b = *p.b;
  std::vector<bool> rows(static_cast<std::size_t>(b.rows), false);
  double values = 0;
  for (std::size_t k = 0; k < operands.a_values.size(); ++k) {
    const Index row = a.col_idx[k];
    if (operands.a_values[k] == T{0} || b.row_nnz(row) == 0) continue;
    ++values;
    rows[static_cast<std::size_t>(row)] = true;
  }
  for (Index i = 0; i < b.rows; ++i)
    if (rows[static_cast<std::size_t>(i)]) values += static_cast<double>(b.row_nnz(i));
  return {.read = sizeof(T) * values, .written = sizeof(T) * static_cast<double>(result.nnz())};
}

template LeastBytes least_bytes(const SpmvProblem<float>&, const SpmvOperands<float>&, const Dense<float>&);
template LeastBytes least_bytes(const SpmmProblem<float>&, const SpmmOperands<float>&, const Dense<float>&);
template LeastBytes least_bytes(const SpgemmProblem<float>&, const SpgemmOperands<float>&, const Csr<float>&);

}  // namespace stages::judge
