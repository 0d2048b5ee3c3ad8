#pragma once
// A C that does not fit into device memory, in batches of rows that do: each is computed, and copied to its
// place on the host, where C then is. The least that must fit is the longest row.

#include <algorithm>

#include "08_spgemm_multigpu/fast/passes.hpp"

namespace stages::spgemm {

template <class T>
class Batches {
 public:
  /// So many were made; 0: C is not here.
  int count() const { return count_; }
  const Csr<T>& result() const { return result_; }
  void clear() { *this = {}; }

  /// Makes them all: `row_ptr` has C's row pointers, multiply(first, end, c) computes rows first .. end - 1 on
  /// exec's stream. A batch has no more than `most_bytes` of columns and values, or is one row.
  template <class Multiply>
  void make(const DeviceArray<Offset>& row_ptr, Index cols, double most_bytes, MemoryPool& pool,
            GpuExec& exec, Multiply multiply) {
    const auto rows = static_cast<Index>(row_ptr.size() - 1);
    result_ = Csr<T>(rows, cols);
    row_ptr.download(result_.row_ptr, exec.stream());
    exec.synchronize();
    const Offset* const ptr = result_.row_ptr.data();
    const auto most = static_cast<Offset>(most_bytes / NonZeros<T>::kBytes);
    const auto end_of = [&](Index first) {
      const Offset* const end = std::upper_bound(ptr + first + 1, ptr + rows + 1, ptr[first] + most);
      return std::max(first + 1, static_cast<Index>(end - ptr - 1));
    };
    Offset longest = 0;
    for (Index first = 0; first < rows; first = end_of(first)) {
      longest = std::max(longest, ptr[end_of(first)] - ptr[first]);
      ++count_;
    }
    result_.col_idx.resize(static_cast<std::size_t>(ptr[rows]));
    result_.values.resize(result_.col_idx.size());
    NonZeros<T> batch(pool, longest, exec.stream());
    for (Index first = 0; first < rows; first = end_of(first)) {
      const Offset begin = ptr[first], end = ptr[end_of(first)];
      {
        Phase phase(exec, "numeric");
        multiply(first, end_of(first),
                 Output<T>{row_ptr.data(), begin, batch.col_idx.data(), batch.values.data()});
      }
      Phase phase(exec, "transfer");
      batch.copy_to_host(end - begin, result_.col_idx.data() + begin, result_.values.data() + begin,
                         exec.stream());
      exec.synchronize();
    }
  }

 private:
  Csr<T> result_;
  int count_ = 0;
};

}  // namespace stages::spgemm
