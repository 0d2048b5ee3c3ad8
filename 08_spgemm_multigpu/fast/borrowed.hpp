#pragma once
// B of a product: its own copy, or arrays that lie in this GPU's memory already, where another process, or
// another product, puts them.

#include "common/gpu/plans.hpp"

namespace stages::spgemm {

template <class T, class Ptr>
class FactorB {
 public:
  explicit FactorB(const Csr<T>& b) : own_(b), view_(own_.view()) {}
  /// Borrowed; the arrays live longer than this.
  explicit FactorB(const CsrView<T, Ptr>& b) : view_(b) {}

  const CsrView<T, Ptr>& view() const { return view_; }
  /// Of its own; 0 where all were borrowed from the start.
  std::size_t entries() const { return own_.col_idx.size(); }

  /// New values, which a B whose values are borrowed does not take.
  void load(const Buffer<T>& values, cudaStream_t stream) {
    if (!own_.values.empty()) own_.values.upload(values, stream);
  }
  /// From now on columns and values are those in device memory; where `col_idx` is null, columns stay.
  void borrow(const Index* col_idx, const T* values) {
    if (col_idx != nullptr) view_.col_idx = col_idx;
    view_.values = values;
    own_.values = {};
  }

 private:
  DeviceCsr<T, Ptr> own_;
  CsrView<T, Ptr> view_;
};

}  // namespace stages::spgemm
