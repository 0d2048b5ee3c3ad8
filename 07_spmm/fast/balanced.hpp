#pragma once
// What balanced.cu makes of a matrix on the device, apart from the plan around it, so that a study can cut
// one matrix in many ways without copying it again.

#include "07_spmm/fast/granularity.hpp"
#include "07_spmm/fast/packed_b.hpp"
#include "07_spmm/partition.hpp"
#include "07_spmm/row_major.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {

template <class T>
struct Work;  // kernels.hpp

/// Bytes on the device that a matrix takes cut into shares by the rules of granularity.hpp, beside its own,
/// and a copy of B; for cost().
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
  BalancedMatrix(DeviceCsr<T, Ptr>& a, const SpmmShape& shape, const Granularity& granularity,
                 cudaStream_t stream);

  /// C = alpha A B + beta C, for products of the shape that was given.
  void multiply(const SpmmArgs<T>& product, cudaStream_t stream);

  const Partition& partition() const { return partition_; }
  const Granularity& granularity() const { return granularity_; }
  /// Of the copy of B; 0 if there is none.
  double packed_bytes() const { return packed_.bytes(); }

 private:
  void multiply_packed(const Work<T>& work, cudaStream_t stream);
  void multiply_as_it_lies(const Work<T>& work, cudaStream_t stream);

  bool aligned_ = false;  ///< rows of B, or of its copy, begin at multiples of 16 bytes
  Granularity granularity_;
  Partition partition_;
  const Index* columns_ = nullptr;
  const T* values_ = nullptr;
  Index ld_slots_ = 0;
  DeviceArray<T> slots_;           ///< sums of parts of rows, which every product writes anew
  DeviceArray<unsigned> arrived_;  ///< counters for add_cut_rows(); 0 between products
  PackedB<T> packed_;              ///< which every product writes anew
};

}  // namespace stages::spmm
