#pragma once
// The frame of the exercises for y = A x on a GPU: A in device memory, x and y that come and go, the entry. An
// exercise has the kernel and its launch. One that needs more than A has a class of its own, derived from one
// of these.

#include "micro/gpu.hpp"

namespace stages::micro {

/// A in CSR. A derived class gives multiply(a, x, y, stream), which launches its kernel: y = A x.
template <class T>
using CsrSpmv = CsrFrame<T>;

/// A written out in full, one column after the other: element (i, j) is at a.data[j * a.ld + i].
template <class T>
using ColumnsSpmv = DenseByColumns<T>;

/// Registers an entry: a frame, CsrSpmv or ColumnsSpmv, and what launches its kernels. That is called as
/// multiply(a, x, y, stream), or as multiply(a, x, y, stream, host), where `host` is A in the host's memory.
template <template <class> class Frame, class Launch>
void add_spmv(Registry& registry, EntryInfo info, Launch multiply) {
  registry.add<Frame>(std::move(info), multiply);
}

}  // namespace stages::micro
