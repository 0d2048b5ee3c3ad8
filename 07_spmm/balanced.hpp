#pragma once
// What balanced.cu makes of a matrix on the device, apart from the plan around it, so that a study can cut
// one matrix in many ways without copying it again.
//
// Defaults, one rule for all matrices, for what a Granularity leaves open:
//   strip  8, 16 or 32 columns if there are no more; else 256 bytes (64 floats): narrower strips read A and
//          find ends of rows more often, wider ones leave fewer groups to hide what a gather takes
//   lanes  one vector of 16 bytes each; 32 where B is not aligned
//   loads  8 if a row has 16 non-zeros or more on average, else 4, since a batch in which rows end is added
//          up one by one
//   share  half of what a group would get if the device took all non-zeros at once, so that there are two
//          waves of groups; at least 32 non-zeros, because beginning a share takes three trips to memory, and
//          at most 256, so that what ends last ends soon
//   bands  1: shares in the order of rows
//   block  128 threads
//   packing  B is copied strip by strip in each product (packed_b.hpp) if all gathers together then ask for
//          fewer lines of 128 bytes, by seven times those that B has or more. Copying a line moves 256 bytes,
//          at 4.1 TB/s, in the time in which four or five lines come out of L2, at 9.2; but copying is a
//          launch more, and measured it loses for 7 non-zeros a row (by 5 to 20 %) and wins for 19 (up to 15
//          %). A packed B is aligned. Where rows of B begin with lines, and strips end with them, there is
//          nothing to be saved
//
// But up to 16 bytes of a row of B (4 floats) are one lane's, which has a non-zero of its own (lanes 1). They
// are so too where they are left beside whole warps of a wider B that is neither aligned nor packed.
//
// But 97 to 127 aligned columns of floats are one strip of 128 on 16 lanes, with 8 loads: for 100 columns a
// tenth faster than strips of 64, whose second one is half empty.
//
// And but for a near-dense matrix, which is one where B's strip of 32 columns is larger than L1 (3/4 of an
// SM's shared memory), and the part of it that 64 non-zeros of a row pass over is not (in single precision:
// more than 5 % of the elements are there): shares of 128, 4 loads, and as many bands as halves of L1 hold a
// strip.
//
// And but for long rows, of 256 non-zeros or more on average, of which a share of 128 covers half at most:
// shares of 128 in ten bands, and strips of 128 bytes (32 floats).
//
// Measured by `spmm_study` on nine twins (H200, N = 32, 128 and 256): against the best for each of them of
// some fifty ways, these rules take 1.5 % more on average and 5 % at most.

#include "07_spmm/packed_b.hpp"
#include "07_spmm/partition.hpp"
#include "07_spmm/row_major.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {

/// What rules need to know of a product.
struct Shape {
  Offset nnz = 0;
  Index rows = 0;
  Index rows_of_b = 0;
  Index n_cols = 0;
  Offset ld_of_b = 0;  ///< elements from a row of B to the next
};

template <class T>
Shape shape_of(const SpmmProblem<T>& problem);

/// `given` with what is 0 filled in by the rules above. Throws Error if there is no such form.
template <class T>
Granularity resolve(Granularity given, const Shape& shape);

/// Bytes on the device that a matrix takes cut into shares by these rules, beside its own, and a copy of B;
/// for cost().
template <class T>
double balanced_bytes(const SpmmProblem<T>& problem);

/// A matrix cut into shares. Columns and values stay where they are, in the DeviceCsr, which must outlive
/// this; in its columns the ends of rows are marked, and its row pointers are not needed any more.
template <class T>
class BalancedMatrix {
 public:
  BalancedMatrix() = default;
  /// `granularity` from resolve().
  template <class Ptr>
  BalancedMatrix(DeviceCsr<T, Ptr>& a, const Shape& shape, const Granularity& granularity,
                 cudaStream_t stream);

  /// The matrix holds the rows of A in another order: its row i is row order[i] of A, and is stored to that
  /// row of C.
  void renumber_rows(const DeviceArray<Index>& order, cudaStream_t stream) {
    partition_.renumber_rows(order, stream);
  }

  /// C = alpha A B + beta C, for products of the shape that was given.
  void multiply(const Product<T>& product, cudaStream_t stream);

  const Partition& partition() const { return partition_; }
  const Granularity& granularity() const { return granularity_; }
  /// Of the copy of B; 0 if there is none.
  double packed_bytes() const { return packed_.bytes(); }

 private:
  /// Columns [first, first + count) of a product, whose strips of B lie `apart`, in elements; `dealt`: as
  /// packed_b.hpp says.
  struct Columns {
    Index first = 0;
    Index count = 0;
    const T* b = nullptr;  ///< row 0 of the first of them
    Index ld = 0;
    Offset apart = 0;
    bool dealt = false;
    bool early = false;  ///< launched so: never right behind the copy, since b is read as a constant
  };

  void multiply_packed(const Product<T>& product, cudaStream_t stream);
  /// Columns [first, first + count) of C, up to 16 bytes of a row, from `b`, which begins with them;
  /// `vectors`: its rows hold 16 bytes, aligned.
  void multiply_thin_columns(Product<T> product, const Rows<const T>& b, Index first, Index count,
                             bool vectors, cudaStream_t stream);
  void multiply_as_it_lies(const Product<T>& product, cudaStream_t stream);
  /// All but for the parts of cut rows in slots.
  void multiply_columns(const Product<T>& product, const Columns& columns, const Granularity& g,
                        cudaStream_t stream);
  /// A launch for columns.first + first and those that follow; `first`: whole strips.
  template <class F>
  void launch_form(Product<T> product, const Columns& columns, Offset first, cudaStream_t stream);
  void add_slots(const Product<T>& product, cudaStream_t stream);

  bool aligned_ = false;  ///< rows of B, or of its copy, begin at multiples of 16 bytes
  Granularity granularity_;
  Partition partition_;
  const Index* columns_ = nullptr;
  const T* values_ = nullptr;
  Index ld_slots_ = 0;
  DeviceArray<T> slots_;           ///< sums of parts of rows, which every product writes anew
  DeviceArray<unsigned> arrived_;  ///< how many blocks have added up their parts of a row; 0 between products
  PackedB<T> packed_;              ///< which every product writes anew
};

}  // namespace stages::spmm
