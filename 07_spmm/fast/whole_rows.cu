// SpMM by whole rows: nothing is cut, nothing is looked up, nothing is added up afterwards.
//
// The idea: where rows are about equally long, equal shares of non-zeros gain nothing over rows, and cost a
// look for ends of rows in each batch, a second kernel for the rows that they cut, and time to cut them. Here
// the lanes that take a strip of columns, each a vector of 16 bytes, do a row from its first non-zero to its
// last, with several rows of B under way (strips.cu tells why). That is a group of 4, 8 or 16 lanes.
//
// Few rows. With a group a row, a matrix of few rows keeps few lanes busy. So all groups of a warp may share a
// row: each takes every second, fourth or eighth batch of its non-zeros, and in the end they add up their sums
// by shuffles, always in the same order.
//
// Input: any CSR matrix; a row that is much longer than the others keeps its warp, and so the product, for
// long. Cost: that of strips.cu. Memory: A.

#include <algorithm>

#include "07_spmm/fast/kernels.hpp"
#include "07_spmm/shares.hpp"

namespace stages::spmm {
namespace {

/// kLanes lanes take a strip, kVector columns each; kTogether, one or more such groups, a row.
template <unsigned kLanes_, unsigned kVector_, unsigned kTogether_>
struct RowLanes {
  static constexpr unsigned kLanes = kLanes_, kVector = kVector_, kTogether = kTogether_;
  static constexpr unsigned kStrip = kLanes * kVector;
  static constexpr unsigned kAhead = std::min(kLanes, 8u);    ///< rows of B that a lane asks for at once
  static constexpr unsigned kRows = kSmallBlock / kTogether;  ///< of a block
};

template <class L, class T, class Ptr>
__global__ void __launch_bounds__(kSmallBlock) multiply_rows(CsrView<T, Ptr> a, Product<T> m) {
  constexpr unsigned kLanes = L::kLanes, kVector = L::kVector, kTogether = L::kTogether;
  const unsigned lane = threadIdx.x % kTogether, group = lane / kLanes;
  const Offset number = Offset{blockIdx.x} * L::kRows + threadIdx.x / kTogether;
  const auto row = static_cast<Index>(number);
  const Ptr begin = number < a.rows ? a.row_ptr[row] : Ptr{0};
  const int length = number < a.rows ? static_cast<int>(a.row_ptr[row + 1] - begin) : 0;
  const int longest = warp_max(length);  // rows of a warp go on together, because they shuffle together
  const int shortest = -warp_max(-length);
  const auto column_at = [&](int k) { return k < length ? __ldcs(a.col_idx + begin + k) : 0; };
  const auto value_at = [&](int k) { return k < length ? __ldcs(a.values + begin + k) : T{0}; };
  for (Offset strip = Offset{blockIdx.y} * L::kStrip; strip < m.n_cols;
       strip += Offset{gridDim.y} * L::kStrip) {
    const Offset column = strip + lane % kLanes * kVector;
    const bool has_column = column < m.n_cols;
    const T* const from = m.b.data + (has_column ? column : 0);
    T sums[kVector] = {};
    T values[L::kAhead], rows_of_b[L::kAhead][kVector] = {};
    Index my_column = 0, next_column = column_at(static_cast<int>(lane));
    T my_value = 0, next_value = value_at(static_cast<int>(lane));
    // Non-zeros `first` .. of those that the lanes of a row hold; `left` of them exist. kAll: all of them.
    const auto add_batch = [&]<bool kAll>(unsigned first, int left, std::bool_constant<kAll>) {
#pragma unroll
      for (unsigned u = 0; u < L::kAhead; ++u) {
        const auto source = static_cast<int>(group * kLanes + first + u);
        const Index k = __shfl_sync(kAllLanes, my_column, source, kTogether);
        values[u] = __shfl_sync(kAllLanes, my_value, source, kTogether);
        if (kAll || source < left) load_vector<kVector>(from + Offset{k} * m.b.ld, rows_of_b[u]);
      }
#pragma unroll
      for (unsigned u = 0; u < L::kAhead; ++u) {
        if (!kAll && static_cast<int>(group * kLanes + first + u) >= left) continue;
#pragma unroll
        for (unsigned v = 0; v < kVector; ++v) sums[v] += values[u] * rows_of_b[u][v];
      }
    };
    for (int base = 0; base < longest; base += static_cast<int>(kTogether)) {
      my_column = next_column;
      my_value = next_value;
      next_column = column_at(base + static_cast<int>(kTogether + lane));
      next_value = value_at(base + static_cast<int>(kTogether + lane));
#pragma unroll
      for (unsigned first = 0; first < kLanes; first += L::kAhead) {
        if (base + static_cast<int>(kTogether) <= shortest) {
          add_batch(first, length - base, std::true_type());
        } else if (base + static_cast<int>(first) < longest) {
          add_batch(first, length - base, std::false_type());
        }
      }
    }
#pragma unroll
    for (unsigned d = kLanes; d < kTogether; d *= 2) {
#pragma unroll
      for (unsigned v = 0; v < kVector; ++v)
        sums[v] += __shfl_xor_sync(kAllLanes, sums[v], static_cast<int>(d));
    }
    if (group == 0 && has_column && number < a.rows) finish_row<kVector>(m, row, column, sums);
  }
}

template <unsigned n>
using Number = std::integral_constant<unsigned, n>;

/// Calls `go` with the RowLanes for so many columns of B, whose rows are `aligned` to 16 bytes or not. A row is
/// a warp's, or a group's.
template <class T, class Go>
void with_lanes(Index n_cols, bool aligned, bool warp_a_row, Go&& go) {
  constexpr unsigned kVector = 16 / sizeof(T);
  const auto with = [&](auto lanes, auto vector) {
    warp_a_row ? go(RowLanes<lanes, vector, kWarp>{}) : go(RowLanes<lanes, vector, lanes>{});
  };
  if (!aligned) return with(Number<32>(), Number<1>());
  const auto columns = static_cast<unsigned>(n_cols);
  if (columns <= 4 * kVector) return with(Number<4>(), Number<kVector>());
  if (columns <= 8 * kVector) return with(Number<8>(), Number<kVector>());
  with(Number<16>(), Number<kVector>());
}

template <class T>
class WholeRows final : public RowMajorPlan<T> {
 public:
  WholeRows(const SpmmProblem<T>& problem, Exec& exec, RowForm form)
      : RowMajorPlan<T>(problem, exec),
        warp_a_row_(form.lanes > 0 ? form.lanes == Index{kWarp}
                                   : problem.a->rows < kRowsOfSm * device_facts().sms),
        matrix_(to_device(*problem.a)) {
    if (form.lanes > 1 && form.lanes != Index{kWarp})
      fail("whole_rows: {} lanes of a row were asked for; give 1 or 32", form.lanes);
  }

  std::vector<Metric> metrics() const override {
    return {{"rows_of_a_warp_are_one", warp_a_row_ ? 1.0 : 0.0, ""}};
  }

 private:
  void multiply(const Product<T>& product) override {
    const bool aligned = rows_are_aligned<T>(product.b.ld);
    std::visit(
        [&](const auto& a) {
          with_lanes<T>(product.n_cols, aligned, warp_a_row_, [&](auto lanes) {
            using L = decltype(lanes);
            const auto view = a.view();
            launch(multiply_rows<L, T, std::remove_const_t<std::remove_pointer_t<decltype(view.row_ptr)>>>,
                   {.grid = {blocks_for(view.rows, L::kRows), strips_of(product.n_cols, L::kStrip)},
                    .block = kSmallBlock,
                    .stream = this->stream()},
                   view, product);
          });
        },
        matrix_);
  }

  static constexpr Offset kRowsOfSm = 64;  ///< with which groups keep it busy
  bool warp_a_row_;
  AnyDeviceCsr<T> matrix_;
};

}  // namespace

void add_whole_rows(Registry& registry, const std::string& name, RowForm form) {
  registry.add<WholeRows>({.name = name,
                           .idea = "whole rows on groups of lanes, a vector of B each; a warp for a long one",
                           .needs = {.gpu = true}},
                          form);
}

}  // namespace stages::spmm
