// One launch for all products, and each thread keeps its row in registers.
//
// The idea: the matrix is fixed while the vector changes. So the loads of 1_one_launch.cu move out of the loop
// over the products: a thread reads its row once and keeps it. Only x travels, through shared memory. The
// width of a row is a template parameter, because registers have no addresses: only a loop that the compiler
// unrolls can keep value[0], value[1], ... in registers of their own. Shorter rows are padded with zeros. (The
// entry is called row_per_thread in all records; thread_per_row of step 5 is another kernel.)
//
// And there it ends. A thread has at most 255 registers, and a non-zero of type float takes two (value and
// column). Widths are compiled in steps of 16. At 112 the compiler takes 254 registers; at 128 it spills the
// rest to local memory, which is device memory behind L1, and the kernel reads it in every product again. The
// results hold registers_per_thread and local_bytes_per_thread of the kernel that ran: watch them while n
// grows. On the original's GTX 1080 Ti, with the same 255 registers, the curve jumped at n = 408, 82 non-zeros
// a row.
//
// Requires: rows of at most 256 non-zeros, x in a block's shared memory, independent vectors. A thread a row
// also means that n = 1024 keeps 8 of 132 SMs busy. 3_row_per_sub_warp.cu has no cliff, and
// 4_matrix_copies.cu uses all SMs.
//
// Source: the course project's last GPU step.

#include "06_cuda_register/one_launch.hpp"
#include "06_cuda_register/stage.hpp"

namespace stages {
namespace {

constexpr int kBlock = 128;
constexpr int kWidthStep = 16;
constexpr int kMostWidth = 256;

template <class T, int kWidth>
__global__ void __launch_bounds__(kBlock)
    row_in_registers(CsrView<T, std::int32_t> a, const T* x, T* y, int products) {
  T* const xs = dynamic_shared<T>();  // x, and a zero behind it for the padding of short rows
  const auto row = static_cast<Index>(Offset{blockIdx.x} * kBlock + threadIdx.x);  // 32 bits, as measured
  T value[kWidth];
  int column[kWidth];
  const std::int32_t begin = row < a.rows ? a.row_ptr[row] : 0, end = row < a.rows ? a.row_ptr[row + 1] : 0;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    const bool there = k < end - begin;
    value[k] = there ? a.values[begin + k] : T{0};
    column[k] = there ? a.col_idx[begin + k] : a.cols;
  }
  if (threadIdx.x == 0) xs[a.cols] = T{0};

  for (int j = 0; j < products; ++j) {
    __syncthreads();  // the product before is done with xs
    for (int c = static_cast<int>(threadIdx.x); c < a.cols; c += kBlock) xs[c] = x[Offset{j} * a.cols + c];
    __syncthreads();
    T sum = 0;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum += value[k] * xs[column[k]];
    if (row < a.rows) y[Offset{j} * a.rows + row] = sum;
  }
}

/// The kernel of the smallest compiled width that holds `longest` non-zeros.
template <class T, int kWidth = kWidthStep>
auto* kernel_for(Offset longest) {
  if constexpr (kWidth < kMostWidth) {
    if (longest > kWidth) return kernel_for<T, kWidth + kWidthStep>(longest);
  }
  return row_in_registers<T, kWidth>;
}

template <class T>
class RowInRegisters final : public OneLaunchPlan<T, 1> {
  using Base = OneLaunchPlan<T, 1>;

 public:
  RowInRegisters(const SpmvProblem<T>& problem, Exec& exec)
      : Base(problem, exec), kernel_(kernel_for<T>(problem.a->longest_row())) {
    allow_shared_bytes(kernel_, this->shared_bytes(*problem.a));
  }

  void run() override { this->launch_once(kernel_, blocks_for(this->a().rows, kBlock), kBlock); }

  std::vector<Metric> metrics() const override {
    const KernelFacts facts = kernel_facts(kernel_);
    return {{"compiled_row_width", width(this->a()), ""}, registers_metric(facts), local_metric(facts)};
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    const Csr<T>& a = *problem.a;
    return Base::cost(problem).with_work(width(a) * a.rows * problem.n_vectors);
  }

  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec& exec) {
    if (auto reason = Base::refuse(problem, exec)) return reason;
    if (problem.a->longest_row() <= kMostWidth) return std::nullopt;
    return fmt::format("a row has {} non-zeros; kernels are compiled for up to {} a thread",
                       problem.a->longest_row(), kMostWidth);
  }

 private:
  static double width(const Csr<T>& a) {
    return static_cast<double>(std::max<Offset>(1, (a.longest_row() + kWidthStep - 1) / kWidthStep) *
                               kWidthStep);
  }
  decltype(kernel_for<T>(0)) kernel_;
};

}  // namespace

void add_row_per_thread(Registry& registry) {
  registry.add<RowInRegisters>(
      {.name = "06_cuda_register/row_per_thread",
       .idea = "D2: a thread keeps its row in registers; spills beyond 112 non-zeros (float)",
       .previous = "one_launch"});
}

}  // namespace stages
