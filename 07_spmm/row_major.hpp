#pragma once
// Layouts, once for all entries of this step: their kernels know B and C by rows only. A row of B is then one
// piece of memory, which neighbouring lanes read together; by columns each of its elements lies in a sector
// of its own, and a product would read eight times the bytes, once per non-zero. So a B stored by columns is
// rewritten by rows first, and a C wanted by columns is made by rows and rewritten last. Both belong to the
// timed run, because B is new in each: the price is one more pass over B or C, which is little where a row of
// B is used more than a few times.

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"

namespace stages::spmm {

inline constexpr Index kVectorBytes = 16;       ///< of the widest load
inline constexpr Index kLineBytes = 128;        ///< of a cache
inline constexpr unsigned kMostStrips = 65535;  ///< blocks of a grid in y, one for each strip of columns

/// How many numbers a vector holds.
template <class T>
inline constexpr Index kVectorLength = kVectorBytes / Index{sizeof(T)};

/// A dense matrix by rows, as kernels take it. The leading dimension fits into 32 bits (refuse() sees to it),
/// so that the place of a row is one multiplication of 32 by 32 to 64 bits: matrices of more than 2^31
/// elements cost nothing extra.
template <class T>
struct RowMajor {
  T* data = nullptr;
  Index ld = 0;

  STAGES_HD T* row(Index i) const { return data + Offset{i} * ld; }
};

/// Whether all rows that lie `ld` elements apart begin at multiples of 16 bytes, as the first does: lanes can
/// then take vectors of them (vectors.hpp).
template <class T>
bool rows_are_aligned(Offset ld) {
  return ld % kVectorLength<T> == 0;
}

/// C = alpha A B + beta C as kernels see it.
template <class T>
struct SpmmArgs {
  RowMajor<const T> b;
  RowMajor<T> c;
  Index n_cols = 0;
  T alpha = 1;
  T beta = 0;
};

/// C = beta C, the columns of C alone, not its padding: for kernels that then add to C.
template <class T>
void scale_c(const SpmmArgs<T>& product, Index rows, cudaStream_t stream);

/// Elements from a row of B to the next as kernels see it: the problem's, or those of a copy by rows, whose
/// rows begin with a line of 128 bytes each if they are longer than half of one.
template <class T>
Offset ld_of_b(const SpmmProblem<T>& problem);

/// The base of this step's plans. A derived class gives multiply().
template <class T>
class RowMajorPlan : public DeviceSpmmPlan<T> {
 public:
  RowMajorPlan(const SpmmProblem<T>& problem, Exec& exec);

  void run() final;
  /// Puts a product on the stream: of run()'s operands, or of others of the same shape and leading dimensions.
  virtual void multiply(const SpmmArgs<T>& product) = 0;

  /// Of the problem, A on the device, and the copies of B and C.
  static Cost cost(const SpmmProblem<T>& problem);
  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec& exec);

 private:
  DeviceArray<T> b_rows_;  ///< empty where B comes by rows
  DeviceArray<T> c_rows_;
  SpmmArgs<T> product_;
};

}  // namespace stages::spmm
