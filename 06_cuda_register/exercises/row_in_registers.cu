// Task: fill in the two loops of the kernel: a thread keeps its row in registers while the vectors go by.
// Reference: 06_cuda_register/row_per_thread
// At most: 400 requests in loads of values
// Counted on: gen:uniform:n=600,per_row=10; 8 vectors
//
// The matrix is fixed and the vector changes, so each thread reads its row's non-zeros once, into arrays of a
// fixed size, and multiplies all vectors with them. Registers have no addresses: only arrays that are indexed
// by a loop of constant length, which the compiler unrolls, can live in them. That length, kWidth, is a
// template parameter: the smallest of four that holds the longest row. Rows are filled up to it with zeros
// that stand for column a.cols, where the shared copy of x holds a zero.
//
// Before you write: how many registers does a row of 96 non-zeros take, in float and in double? How many has a
// thread, and from which kWidth on are they too few? What is then in the JSON under local_bytes_per_thread of
// the reference?

#include "common/gpu/facts.hpp"
#include "micro/gpu.hpp"

namespace stages {
namespace {

constexpr int kBlock = 64;
constexpr int kWidthStep = 64;   ///< kernels are compiled for rows of up to 64, 128, 192 and 256 non-zeros
constexpr int kMostWidth = 256;  ///< the longest row that the battery has for the reference

template <class T, int kWidth>
__global__ void __launch_bounds__(kBlock)
    multiply(CsrView<T, std::int32_t> a, const T* x, T* y, Index products) {
  T* const near_x = dynamic_shared<T>();  // x, and a zero behind it
  const auto row = static_cast<Index>(Offset{blockIdx.x} * kBlock + threadIdx.x);
  T value[kWidth];
  int column[kWidth];
  const std::int32_t begin = row < a.rows ? a.row_ptr[row] : 0, end = row < a.rows ? a.row_ptr[row + 1] : 0;
  // SOLUTION
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    value[k] = begin + k < end ? a.values[begin + k] : T{0};
    column[k] = begin + k < end ? a.col_idx[begin + k] : a.cols;
  }
  // STUDENT
  // Your code: the row into value and column, filled up to kWidth. Until then there are zeros.
  static_cast<void>(end);
  for (int k = 0; k < kWidth; ++k) {
    value[k] = T{0};
    column[k] = a.cols;
  }
  // END
  if (threadIdx.x == 0) near_x[a.cols] = T{0};
  for (Index j = 0; j < products; ++j) {
    __syncthreads();  // the product before is done with near_x
    for (int c = static_cast<int>(threadIdx.x); c < a.cols; c += kBlock)
      near_x[c] = x[Offset{j} * a.cols + c];
    __syncthreads();
    T sum = 0;
    // SOLUTION
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum += value[k] * near_x[column[k]];
    // STUDENT
    // Your code: the sum over the row.
    static_cast<void>(value);
    static_cast<void>(column);
    // END
    if (row < a.rows) y[Offset{j} * a.rows + row] = sum;
  }
}

/// Calls use.operator()<kWidth>() for the smallest compiled width that holds `longest` non-zeros.
template <int kWidth = kWidthStep, class Use>
void with_width(Offset longest, Use&& use) {
  if constexpr (kWidth < kMostWidth) {
    if (longest > kWidth) return with_width<kWidth + kWidthStep>(longest, std::forward<Use>(use));
  }
  use.template operator()<kWidth>();
}

template <class T>
class MyRegisters final : public DeviceSpmvPlan<T> {
 public:
  MyRegisters(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec),
        a_(*problem.a),
        shared_bytes_((static_cast<std::size_t>(problem.a->cols) + 1) * sizeof(T)),
        longest_(problem.a->longest_row()) {
    with_width(longest_, [&]<int kWidth>() { allow_shared_bytes(multiply<T, kWidth>, shared_bytes_); });
  }

  void run() override {
    with_width(longest_, [&]<int kWidth>() {
      launch(multiply<T, kWidth>, {blocks_for(a_.rows, kBlock), kBlock, shared_bytes_, this->stream()},
             a_.view(), this->x_of(0), this->y_of(0), this->problem().n_vectors);
    });
  }

 private:
  void product(const T*, T*) override {}  // run() does them all in one launch

  DeviceCsr<T, std::int32_t> a_;
  std::size_t shared_bytes_;
  Offset longest_ = 0;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyRegisters>({.name = "task/row_in_registers", .idea = "a row in registers"});
}

}  // namespace stages
