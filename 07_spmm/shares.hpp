#pragma once
// What equal_shares, loads_ahead, vector_lanes and strips have in common: a matrix cut into shares in prepare,
// and what a group of lanes stores. A group is the lanes that take a share together: a warp, or a part of one.

#include <algorithm>

#include "07_spmm/partition.hpp"
#include "07_spmm/row_major.hpp"
#include "07_spmm/vectors.hpp"
#include "common/gpu/facts.hpp"
#include "common/harness/registry.hpp"

namespace stages::spmm {

/// C = alpha sums + beta C, in columns `column` .. column + kVector - 1 of a row, as far as there are any.
template <unsigned kVector, class T>
__device__ void finish_row(const SpmmArgs<T>& m, Index row, Offset column, const T (&sums)[kVector]) {
  T* const to = m.c.row(row) + column;
  T out[kVector];
#pragma unroll
  for (unsigned v = 0; v < kVector; ++v) {
    out[v] = m.alpha * sums[v];
    if (m.beta != T{0} && column + v < m.n_cols) out[v] += m.beta * to[v];
  }
  if (column + kVector <= m.n_cols && static_cast<unsigned>(m.c.ld) % kVector == 0) {
    store_vector<kVector>(to, out);
    return;
  }
#pragma unroll
  for (unsigned v = 0; v < kVector; ++v) {
    if (column + v < m.n_cols) to[v] = out[v];
  }
}

/// After the shares: adds the parts of cut rows to C, and sets the empty rows, as 4_equal_shares.cu tells.
template <class T>
void finish_cut_and_empty_rows(const CutMatrix<T>& a, const SpmmArgs<T>& product, cudaStream_t stream);

/// The non-zeros of a share. If each group that a full device holds at once got one share, that would be nnz /
/// groups for each; half of it makes two waves of groups (four in files 6 and 7, whose registers leave room for
/// half as many), so that what is done early can begin anew. At least 32, because beginning a share takes three
/// trips to memory, and at most 256, so that what ends last ends soon.
inline Index share_of(Offset nnz, unsigned lanes) {
  const DeviceFacts& device = device_facts();
  const Offset groups = Offset{device.sms} * device.max_threads_per_sm / Offset{lanes};
  return static_cast<Index>(std::clamp<Offset>(nnz / (2 * groups) / 32 * 32, 32, 256));
}

/// Who takes a share: a warp, a lane a column; or as many lanes as take 32 columns of a row of B, a vector
/// each, where rows of B are aligned.
enum class Group { warp, lanes_of_vectors };

/// The four entries: shares are cut in prepare. Multiply{}(a, product, lanes, stream), with the lanes of a
/// group, makes all rows that end in a share, and the partial sums of those that do not.
template <class T, class Multiply>
class SharePlan final : public RowMajorPlan<T> {
 public:
  /// `share`: non-zeros, or 0 for share_of().
  SharePlan(const SpmmProblem<T>& problem, Exec& exec, Index share, Group group)
      : RowMajorPlan<T>(problem, exec),
        lanes_(group == Group::warp || !rows_are_aligned<T>(ld_of_b(problem)) ? 32 : kLanesOfVectors),
        share_(share > 0 ? share : share_of(problem.a->nnz(), lanes_)),
        a_(*problem.a, problem.n_cols, {.share_size = share_, .slack = usual_slack(share_)}, this->stream()) {
  }

  static Cost cost(const SpmmProblem<T>& problem) {
    const Offset nnz = problem.a->nnz(), share = share_of(nnz, kLanesOfVectors);
    const Offset shares = (nnz + share - 1) / share;
    return RowMajorPlan<T>::cost(problem).plus_memory(Partition::bytes(problem.a->rows, shares) +
                                                      static_cast<double>(shares) * sizeof(T) *
                                                          (problem.n_cols + 3.0));
  }

  std::vector<Metric> metrics() const override {
    const PartitionView& view = a_.view().partition;
    return {{"shares", static_cast<double>(view.shares), ""},
            {"share_nonzeros", static_cast<double>(share_), ""},
            {"rows_cut", static_cast<double>(view.cut_rows), ""},
            {"rows_empty", static_cast<double>(view.empty_rows), ""}};
  }

 private:
  static constexpr unsigned kLanesOfVectors = 32 / kVectorLength<T>;

  void multiply(const SpmmArgs<T>& product) override {
    Multiply{}(a_.view(), product, lanes_, this->stream());
    finish_cut_and_empty_rows(a_.view(), product, this->stream());
  }

  unsigned lanes_;  ///< of a group
  Index share_;
  DeviceShares<T> a_;
};

/// Registers an entry, and what launches its kernel: `multiply` as above.
template <class Multiply>
void add_shares(Registry& registry, EntryInfo info, Index share, Group group, Multiply /*multiply*/) {
  registry.add(std::move(info), plans<SharePlan<float, Multiply>, SharePlan<double, Multiply>>(share, group));
}

}  // namespace stages::spmm
