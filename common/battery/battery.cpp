#include "common/battery/battery.hpp"

#include "common/matrix/convert.hpp"

namespace stages::battery {
namespace {

template <class T>
std::shared_ptr<const Csr<T>> matrix(const std::function<Csr<double>()>& make) {
  return std::make_shared<const Csr<T>>(convert_values<T>(make()));
}

}  // namespace

template <class Problem>
Problem make_problem(const Case& c) {
  using T = typename Problem::Value;
  const auto a = matrix<T>(c.a);
  if constexpr (Problem::kOp == Op::spmv) {
    return make_spmv_problem(c.name, a, c.mode, c.products);
  } else if constexpr (Problem::kOp == Op::spmm) {
    const auto leading = [&](Index rows, Layout layout, Offset padding) {
      return padding == 0 ? 0 : (layout == Layout::row_major ? c.n_cols : rows) + padding;
    };
    return make_spmm_problem<T>({.name = c.name,
                                 .a = a,
                                 .n_cols = c.n_cols,
                                 .alpha = static_cast<T>(c.alpha),
                                 .beta = static_cast<T>(c.beta),
                                 .b_layout = c.b_layout,
                                 .c_layout = c.c_layout,
                                 .ldb = leading(a->cols, c.b_layout, c.b_padding),
                                 .ldc = leading(a->rows, c.c_layout, c.c_padding)});
  } else {
    return make_spgemm_problem(c.name, a, matrix<T>(c.b));
  }
}

#define STAGES_INSTANTIATE(P) template P make_problem(const Case&);
STAGES_FOR_EACH_PROBLEM(STAGES_INSTANTIATE)

}  // namespace stages::battery
