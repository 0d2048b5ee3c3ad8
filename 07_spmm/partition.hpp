#pragma once
// The form of a matrix that balanced.cu multiplies, made on the device in prepare: equal shares of non-zeros,
// and what it takes to know rows without row pointers.

#include <optional>

#include "common/gpu/cuda.hpp"
#include "common/matrix/types.hpp"

namespace stages::spmm {

/// What a column index of a partitioned matrix holds beside the column: its sign bit says that this is the
/// last non-zero of its row.
inline constexpr Index kColumnBits = 0x7fffffff;

/// The non-zeros from `begin` to the `begin` of the next share.
struct alignas(16) Share {
  Offset begin = 0;
  Index row = 0;    ///< of its first non-zero, as a place in PartitionView::rows
  Index slot = -1;  ///< where the sum of the row goes that its end cuts in two; -1: it cuts none
};

/// A row in several shares. All its parts but the last leave their sums in slots: first_slot and those that
/// follow, up to the first_slot of the next SplitRow.
struct SplitRow {
  Index row = 0;
  Index first_slot = 0;
};

struct PartitionView {
  unsigned shares = 0;
  unsigned empty_rows = 0;
  unsigned split_rows = 0;
  const Share* share = nullptr;  ///< shares + 1: the last one holds only the end
  const Index* rows =
      nullptr;  ///< the rows that are not empty, ascending, and one number more that means nothing
  const Index* empty = nullptr;     ///< the others
  const SplitRow* split = nullptr;  ///< split_rows + 1
};

/// The shares of a matrix on the device.
///
/// Boundary j stands at non-zero j * share_size, or, if the row there holds no more than share_size, at the
/// beginning of that row: only longer rows are cut, and a share holds fewer than 2 * share_size. Each
/// boundary finds its row by binary search over row_ptr; prefix sums number rows, slots and cut rows. No step
/// goes through anything one by one.
class Partition {
 public:
  Partition() = default;
  /// `row_ptr` and `col_idx` are on the device; the ends of rows are marked in col_idx. Throws Error if there
  /// are 2^31 shares or more.
  template <class Ptr>
  Partition(const Ptr* row_ptr, Index rows, Index* col_idx, Offset nnz, Index share_size,
            cudaStream_t stream);

  PartitionView view() const;
  /// How many sums of parts of rows there are to be kept.
  Index slots() const { return slots_; }
  /// What making it took on the device, allocation left out; unknown on the executor.
  std::optional<double> seconds() const { return seconds_; }

 private:
  unsigned shares_ = 0, empty_rows_ = 0, split_rows_ = 0;
  Index slots_ = 0;
  std::optional<double> seconds_;
  DeviceArray<Share> share_;
  DeviceArray<Index> rows_;
  DeviceArray<Index> empty_;
  DeviceArray<SplitRow> split_;
};

}  // namespace stages::spmm
