#pragma once
// A or B of a product: its own copy, or arrays that lie in this GPU's memory already, where several processes,
// or another product, put them.

#include "common/gpu/plans.hpp"

namespace stages::spgemm {

template <class T, class Ptr>
class Operand {
 public:
  explicit Operand(const Csr<T>& m) : own_(m), view_(own_.view()), entries_(own_.col_idx.size()) {}
  /// Borrowed; the arrays live longer than this.
  explicit Operand(const CsrView<T, Ptr>& m) : view_(m) {}
  /// Columns and values borrowed; row pointers from the host, where the first need not be 0: rows of a larger
  /// matrix. Without values it has its own, which are 0 before load().
  static Operand with_host_pointers(const CsrView<T>& m) {
    const Offset first = m.row_ptr[0];
    std::vector<Ptr> row_ptr(m.row_ptr, m.row_ptr + m.rows + 1);
    for (Ptr& at : row_ptr) at -= static_cast<Ptr>(first);
    Operand out(CsrView<T, Ptr>{m.rows, m.cols, nullptr, m.col_idx + first,
                                m.values == nullptr ? nullptr : m.values + first});
    out.entries_ = static_cast<std::size_t>(row_ptr.back());
    out.own_.row_ptr = DeviceArray<Ptr>(std::span<const Ptr>(row_ptr));
    out.view_.row_ptr = out.own_.row_ptr.data();
    if (m.values != nullptr) return out;
    out.own_.values = DeviceArray<T>(out.entries_);
    out.own_.values.zero(nullptr);
    STAGES_CUDA(cudaStreamSynchronize(nullptr));
    out.view_.values = out.own_.values.data();
    return out;
  }

  const CsrView<T, Ptr>& view() const { return view_; }
  /// Its non-zeros; 0 where all is borrowed.
  std::size_t entries() const { return entries_; }

  /// New values, unless they are borrowed.
  void load(const Buffer<T>& values, cudaStream_t stream) {
    if (!own_.values.empty()) own_.values.upload(values, stream);
  }
  /// From now on columns and values are those, in device memory.
  void borrow(const Index* col_idx, const T* values) {
    view_.col_idx = col_idx;
    view_.values = values;
  }

 private:
  DeviceCsr<T, Ptr> own_;
  CsrView<T, Ptr> view_;
  std::size_t entries_ = 0;
};

}  // namespace stages::spgemm
