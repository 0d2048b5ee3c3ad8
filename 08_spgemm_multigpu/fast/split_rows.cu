// The rows that split_rows.hpp tells of.
//
// Where it matters: a hub of a graph with tens of thousands of neighbours, a row of a linear program that
// names all variables. One block walks over all non-zeros of such a row, to count and to multiply; on an H200
// one row of 80,000 non-zeros took nearly all of a product's 7 ms. Cut into sections of 64 non-zeros the row is
// work for the whole device, and what is left for few blocks is to add up rows that are as long as C's. But
// two products more are some hundred microseconds of calls and waits, so shorter rows stay whole.

#include "08_spgemm_multigpu/fast/split_rows.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "08_spgemm_multigpu/fast/rows.hpp"
#include "common/gpu/launch.hpp"
#include "common/matrix/statistics.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = 256;
constexpr unsigned kBlocksARow = 32;     ///< that copy a row of C
constexpr double kMostBytes = 1u << 30;  ///< of P B

/// What a plan has computed. Neither product is made in batches on the host: rows_to_split() sees to it that
/// they are small, but somebody else may have the memory.
template <class T>
typename BinnedPlan<T>::OnDevice computed(const BinnedPlan<T>& plan) {
  const auto c = plan.on_device();
  if (c.col_idx == nullptr && plan.results() > 0)
    throw OutOfDeviceMemory("the sections of long rows do not fit into device memory");
  return c;
}

/// A thread a row.
__global__ void __launch_bounds__(kBlock)
    put_row_counts(const Index* rows, Index count, const Offset* row_ptr, Index* counts) {
  const Index k = static_cast<Index>(blockIdx.x * kBlock + threadIdx.x);
  if (k < count) counts[rows[k]] = static_cast<Index>(row_ptr[k + 1] - row_ptr[k]);
}

/// Row k of the first dimension of the grid, some blocks each.
template <class T>
__global__ void __launch_bounds__(kBlock)
    put_split_rows(const Index* rows, const Offset* row_ptr, const Index* col_idx, const T* values,
                   Index first_row, Index end_row, Output<T> c) {
  const Index row = rows[blockIdx.x];
  if (row < first_row || row >= end_row) return;
  const Offset from = row_ptr[blockIdx.x], length = row_ptr[blockIdx.x + 1] - from;
  const Offset to = c.row_ptr[row] - c.base;
  for (Offset k = Offset{blockIdx.y} * kBlock + threadIdx.x; k < length; k += Offset{gridDim.y} * kBlock) {
    c.col_idx[to + k] = col_idx[from + k];
    c.values[to + k] = values[from + k];
  }
}

}  // namespace

template <class T>
RowsToSplit rows_to_split(const Csr<T>& a, const Csr<T>& b, const Rules& rules) {
  RowsToSplit found;
  for (Index row = 0; row < a.rows; ++row) {
    if (a.row_nnz(row) <= rules.long_row) continue;
    if (std::ssize(found.rows) == rules.most_long_rows) return {};
    found.rows.push_back(row);
    found.entries += a.row_nnz(row);
    found.products += products_of_row(a, b, row);
  }
  const double bytes = static_cast<double>(sizeof(Index) + sizeof(T)) * static_cast<double>(found.products);
  if (found.products > rules.long_row_products * found.entries || bytes > kMostBytes) return {};
  return found;
}

template <class T>
template <class Ptr>
SplitRows<T>::SplitRows(const Csr<T>& a, const RowsToSplit& long_rows, const CsrView<T, Ptr>& b, Exec& exec,
                        Settings settings)
    : rows_(long_rows.rows), on_device_(std::span<const Index>(rows_)) {
  settings.rules.long_row = std::numeric_limits<Index>::max();  // neither product has rows to split
  settings.result_bytes = 0;
  Csr<T> sections(0, a.cols), sums(0, 0);
  for (const Index row : rows_) {
    const Offset begin = a.row_ptr[static_cast<std::size_t>(row)], end = begin + a.row_nnz(row);
    begins_.push_back(begin);
    ends_.push_back(end);
    for (Offset section = begin; section < end; section += settings.rules.section_entries) {
      const Offset section_end = std::min(end, section + settings.rules.section_entries);
      sections.col_idx.insert(sections.col_idx.end(), a.col_idx.begin() + section,
                              a.col_idx.begin() + section_end);
      sections.row_ptr.push_back(std::ssize(sections.col_idx));
      sums.col_idx.push_back(sections.rows++);
    }
    sums.row_ptr.push_back(std::ssize(sums.col_idx));
    ++sums.rows;
  }
  sums.cols = sections.rows;
  sections.values.resize(sections.col_idx.size());
  sums.values.assign(sums.col_idx.size(), T{1});
  sections_ = make_binned(sections, b, long_rows.products, exec, settings);
  const CsrView<T, Offset> made{sections.rows, b.cols, sections_->row_ptr_from(0), nullptr, nullptr};
  settings.rules.count_blocks_a_row = kMostParts;  // few rows, of few non-zeros: searching costs little
  sums_ = make_binned(sums, made, long_rows.products, exec, settings);
}

template <class T>
void SplitRows<T>::load(const Buffer<T>& a_values) {
  SpgemmOperands<T> operands;
  for (std::size_t k = 0; k < rows_.size(); ++k)
    operands.a_values.insert(operands.a_values.end(), a_values.begin() + begins_[k],
                             a_values.begin() + ends_[k]);
  sections_->load(operands);
  made_ = false;
}

template <class T>
void SplitRows<T>::reset() {
  sections_->reset();
  sums_->reset();
  made_ = false;
}

template <class T>
void SplitRows<T>::make_sections() {
  sections_->multiply();
  sums_->borrow_b(computed(*sections_));
}

template <class T>
void SplitRows<T>::count() {
  sections_->count();
  make_sections();
  made_ = true;
  sums_->count();
}

template <class T>
void SplitRows<T>::multiply() {
  if (!std::exchange(made_, false)) make_sections();
  sums_->multiply();
}

template <class T>
void SplitRows<T>::put_counts(Index* counts, cudaStream_t stream) {
  launch(put_row_counts, {.grid = blocks_for(size(), kBlock), .block = kBlock, .stream = stream},
         on_device_.data(), size(), sums_->row_ptr_from(0), counts);
}

template <class T>
void SplitRows<T>::put_rows(Index first_row, Index end_row, const Output<T>& c, cudaStream_t stream) {
  const auto made = computed(*sums_);
  launch(put_split_rows<T>,
         {.grid = {static_cast<unsigned>(size()), kBlocksARow}, .block = kBlock, .stream = stream},
         on_device_.data(), sums_->row_ptr_from(0), made.col_idx, made.values, first_row, end_row, c);
}

template <class T>
double split_bytes(const SpgemmProblem<T>& problem) {
  const RowsToSplit found = rows_to_split(*problem.a, *problem.b, Rules{});
  // A's non-zeros once more; P B, and the rows of C once more.
  return (sizeof(Index) + sizeof(T)) *
         (static_cast<double>(found.entries) + 2.0 * static_cast<double>(found.products));
}

#define STAGES_INSTANTIATE(T)                                                                           \
  template RowsToSplit rows_to_split(const Csr<T>&, const Csr<T>&, const Rules&);                       \
  template class SplitRows<T>;                                                                          \
  template SplitRows<T>::SplitRows(const Csr<T>&, const RowsToSplit&, const CsrView<T, std::int32_t>&,  \
                                   Exec&, Settings);                                                    \
  template SplitRows<T>::SplitRows(const Csr<T>&, const RowsToSplit&, const CsrView<T, Offset>&, Exec&, \
                                   Settings);                                                           \
  template double split_bytes(const SpgemmProblem<T>&);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)

}  // namespace stages::spgemm
