// D1's SpGEMM with its faults: dense output on the device, a thread per element in blocks of 16 x 16, a scan
// on the host back to CSR.

#include "common/matrix/convert.hpp"
#include "tests/cuda_mutants/faulty_plan.hpp"

namespace stages::cuda_mutants {
namespace {

constexpr unsigned kTile = 16;

/// The two-pointer product. `entries_of_a`: all of them, for the fault that reads on. 64-bit places
/// throughout.
template <class T>
__global__ void dot(CsrView<T> a, CscView<T> b, Offset entries_of_a, T* c, unsigned char* present,
                    Fault fault) {
  const Offset i = Offset{blockIdx.y} * kTile + threadIdx.y, j = Offset{blockIdx.x} * kTile + threadIdx.x;
  if (i >= a.rows || j >= b.cols) return;
  Offset p = a.row_ptr[i], q = b.col_ptr[j];
  const Offset p_end = fault == Fault::overruns_row ? entries_of_a : a.row_ptr[i + 1];
  const Offset q_end = b.col_ptr[j + 1];
  T sum = 0;
  bool meets = false;
  while (p < p_end && q < q_end) {
    const Index k = a.col_idx[p], l = b.row_idx[q];
    if (k < l) {
      ++p;
    } else if (l < k) {
      ++q;
    } else {
      sum += a.values[p] * b.values[q++];
      meets = true;
      if (fault == Fault::repeat_counts_once) ++p;
    }
  }
  c[i * b.cols + j] = sum;
  present[i * b.cols + j] = meets;
}

/// B by columns, every entry twice with half its value.
template <class T>
Csc<T> halves(const Csr<T>& b, Fault fault) {
  const Csc<T> once = to_csc(b);
  Csc<T> out(b.rows, b.cols);
  for (std::size_t k = 0; k < once.row_idx.size(); ++k) {
    out.row_idx.insert(out.row_idx.end(), 2, once.row_idx[k]);
    out.values.insert(out.values.end(), 2, once.values[k] / 2);
  }
  for (std::size_t j = 0; j < once.col_ptr.size(); ++j) out.col_ptr[j] = 2 * once.col_ptr[j];
  if (fault == Fault::columns_by_rows && b.cols > b.rows) {
    std::fill(out.col_ptr.begin() + b.rows + 1, out.col_ptr.end(),
              out.col_ptr[static_cast<std::size_t>(b.rows)]);
  }
  return out;
}

template <class T>
class DotPlan final : public FaultySpgemm<T> {
 public:
  using FaultySpgemm<T>::FaultySpgemm;

  void load(const SpgemmOperands<T>& operands) override {
    this->matrix_.values.upload(operands.a_values, this->stream());
    this->exec().synchronize();
    Csr<T> b = *this->problem().b;
    b.values = operands.b_values;
    const Csc<T> columns = halves(b, this->fault_);
    col_ptr_ = DeviceArray<Offset>(std::span<const Offset>(columns.col_ptr));
    row_idx_ = DeviceArray<Index>(std::span<const Index>(columns.row_idx));
    values_ = DeviceArray<T>(std::span<const T>(columns.values));
  }

  void run() override {
    const Csr<T>&a = *this->problem().a, &b = *this->problem().b;
    const auto elements = static_cast<std::size_t>(a.rows) * static_cast<std::size_t>(b.cols);
    DeviceArray<T> c(elements);
    DeviceArray<unsigned char> present(elements);
    c.fill_bytes(0xFF, this->stream());
    present.zero(this->stream());
    const auto tiles = [&](Index n) {
      return this->has(Fault::missing_tail) ? static_cast<unsigned>(n) / kTile : blocks_for(n, kTile);
    };
    launch(dot<T>,
           {.grid = {tiles(b.cols), tiles(a.rows)}, .block = {kTile, kTile}, .stream = this->stream()},
           this->matrix_.view(), CscView<T>{b.rows, b.cols, col_ptr_.data(), row_idx_.data(), values_.data()},
           a.nnz(), c.data(), present.data(), this->fault_);
    this->c_ = DeviceCsr<T, Offset>(scan(a.rows, b.cols, c.to_host(), present.to_host()));
  }

 private:
  static Csr<T> scan(Index rows, Index cols, const std::vector<T>& c,
                     const std::vector<unsigned char>& present) {
    Csr<T> out(rows, cols);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        const auto at = static_cast<std::size_t>(Offset{i} * cols + j);
        if (present[at] == 0) continue;
        out.col_idx.push_back(j);
        out.values.push_back(c[at]);
      }
      out.row_ptr[static_cast<std::size_t>(i) + 1] = out.nnz();
    }
    return out;
  }

  DeviceArray<Offset> col_ptr_;
  DeviceArray<Index> row_idx_;
  DeviceArray<T> values_;
};

}  // namespace

Entry dot_entry(Fault fault) {
  return entry_with<DotPlan>("mutant/dot", fault);
}

}  // namespace stages::cuda_mutants
