#pragma once
// The form of a matrix that balanced multiplies, made on the device in prepare: equal shares of non-zeros, and
// what it takes to know rows without row pointers.

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"

namespace stages::spmm {

/// What a column index of a partitioned matrix holds beside the column: its sign bit says that this is the
/// last non-zero of its row.
inline constexpr Index kColumnBits = 0x7fffffff;

/// Non-zeros [begin, begin + length). As large as a sector, which is what reading it costs anyway.
struct alignas(16) Share {
  Offset begin = 0;
  Index length = 0;
  Index row = 0;    ///< of its first non-zero, as a place in PartitionView::rows
  Index slot = -1;  ///< where the sum of the row goes that its end cuts in two; -1: it cuts none
};

/// How a matrix is cut.
struct Cut {
  Index share_size = 0;  ///< non-zeros; at least 1
  Index slack = 0;       ///< how far a boundary may move back to the beginning of its row
};

/// A row in several shares. All its parts but the last leave their sums in slots: first_slot and those that
/// follow, up to the first_slot of the next CutRow.
struct CutRow {
  Index row = 0;
  Index first_slot = 0;
};

/// Slots of a cut row that a warp adds up; more are a block's work.
inline constexpr Index kFewParts = 32;

/// Chunks of slots: so many slots in turn. They are for hub rows,
/// those with more than kManyParts slots: several blocks add these up, each what one chunk of slots has of
/// them.
inline constexpr Index kChunk = 128;
inline constexpr Index kManyParts = 2 * kChunk;

struct PartitionView {
  unsigned shares = 0;
  unsigned empty_rows = 0;
  unsigned cut_rows = 0;
  unsigned long_rows = 0;  ///< of the cut rows those with more than kFewParts slots
  unsigned chunks = 0;     ///< in which the slots lie; 0 if there are no hub rows
  const Share* share = nullptr;
  /// The rows that are not empty, ascending, and one number more that means nothing.
  const Index* rows = nullptr;
  const Index* empty = nullptr;     ///< the others
  const CutRow* cut_row = nullptr;  ///< cut_rows + 1
  const Index* chunk = nullptr;     ///< of a chunk's first slot: the place in `cut_row` of its row
};

/// A matrix cut into shares, and the room for what they sum up of cut rows.
template <class T>
struct CutMatrix {
  PartitionView partition;
  const Index* columns = nullptr;  ///< with the ends of rows marked
  const T* values = nullptr;
  T* slots = nullptr;  ///< a slot's sums lie side by side, a column each; null if there are no slots
  Index ld_slots = 0;  ///< from a slot to the next, in elements: whole vectors
};

/// The shares of a matrix on the device.
///
/// Boundary j stands at non-zero j * share_size, or, if its row begins no more than `slack` before, at the
/// beginning of that row. So rows of up to slack + 1 non-zeros are never cut, and a share holds no more than
/// share_size + slack; it is empty if the boundary behind it has moved back to its own beginning.
///
/// Each boundary finds its row by binary search over row_ptr; prefix sums number rows, slots and cut rows. No
/// step goes through anything one by one.
class Partition {
 public:
  Partition() = default;
  /// `a` is on the device, the ends of rows marked in a.col_idx. Throws Error if there are 2^31 shares or more.
  template <class T, class Ptr>
  Partition(DeviceCsr<T, Ptr>& a, const Cut& cut, cudaStream_t stream);

  PartitionView view() const;
  /// How many sums of parts of rows there are to be kept.
  Index slots() const { return slots_; }
  /// Bytes of device memory that making one takes at its peak, but for what prefix sums need, which is
  /// little. For cost().
  static double bytes(Index rows, Offset shares);

 private:
  unsigned shares_ = 0, empty_rows_ = 0, cut_rows_ = 0, long_rows_ = 0, hub_rows_ = 0;
  Index slots_ = 0;
  DeviceArray<Share> share_;
  DeviceArray<Index> rows_;
  DeviceArray<Index> empty_;
  DeviceArray<CutRow> cut_row_;
  DeviceArray<Index> chunk_;
};

/// A matrix in shares on the device, and slots for products with so many columns.
template <class T>
class DeviceShares {
 public:
  DeviceShares(const Csr<T>& matrix, Index n_cols, const Cut& cut, cudaStream_t stream)
      : matrix_(to_device(matrix)) {
    std::visit(
        [&](auto& a) {
          partition_ = Partition(a, cut, stream);
          a.row_ptr = {};  // not needed any more: the ends of rows are marked in the columns
          // Whole vectors, of floats or doubles.
          const Index ld = narrow<Index>((Offset{n_cols} + 3) / 4 * 4, "a row of slots");
          slots_ =
              DeviceArray<T>(static_cast<std::size_t>(partition_.slots()) * static_cast<std::size_t>(ld));
          view_ = {partition_.view(), a.col_idx.data(), a.values.data(), slots_.data(), ld};
        },
        matrix_);
  }

  const CutMatrix<T>& view() const { return view_; }

 private:
  AnyDeviceCsr<T> matrix_;  ///< without its row pointers
  Partition partition_;
  DeviceArray<T> slots_;  ///< sums of parts of rows, which every product writes anew
  CutMatrix<T> view_;
};

}  // namespace stages::spmm
