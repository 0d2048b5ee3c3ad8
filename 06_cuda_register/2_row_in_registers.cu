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
// also means that n = 1024 keeps 16 of 132 SMs busy. 3_row_per_sub_warp.cu has no cliff, and
// 4_matrix_copies.cu uses all SMs.
//
// Source: the course project's last GPU step.

#include "06_cuda_register/one_launch.hpp"
#include "06_cuda_register/stage.hpp"

namespace stages {
namespace {

constexpr int kBlock = 64;
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
    const bool there = begin + k < end;
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

/// Calls use.operator()<kWidth>() for the smallest compiled width that holds `longest` non-zeros.
template <int kWidth = kWidthStep, class Use>
auto with_width(Offset longest, Use&& use) {
  if constexpr (kWidth < kMostWidth) {
    if (longest > kWidth) return with_width<kWidth + kWidthStep>(longest, std::forward<Use>(use));
  }
  return use.template operator()<kWidth>();
}

template <class T>
class RowInRegisters final : public OneLaunchPlan<T, 1> {
 public:
  RowInRegisters(const SpmvProblem<T>& problem, Exec& exec)
      : OneLaunchPlan<T, 1>(problem, exec), longest_(problem.a->longest_row()) {
    with_width(longest_, [&]<int kWidth>() {
      allow_shared_bytes(row_in_registers<T, kWidth>, this->shared_bytes(this->a()));
    });
  }

  void run() override {
    with_width(longest_, [&]<int kWidth>() {
      launch(row_in_registers<T, kWidth>,
             {.grid = blocks_for(this->a().rows, kBlock),
              .block = kBlock,
              .shared_bytes = this->shared_bytes(this->a()),
              .stream = this->stream()},
             this->view(), this->x_of(0), this->y_of(0), this->problem().n_vectors);
    });
  }

  std::vector<Metric> metrics() const override {
    const auto [width, facts] = with_width(
        longest_, [&]<int kWidth>() { return std::pair(kWidth, kernel_facts(row_in_registers<T, kWidth>)); });
    return {
        {"compiled_row_width", static_cast<double>(width), ""}, registers_metric(facts), local_metric(facts)};
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    const double width =
        static_cast<double>((problem.a->longest_row() + kWidthStep - 1) / kWidthStep * kWidthStep);
    return OneLaunchPlan<T, 1>::cost(problem).with_work(width * problem.a->rows * problem.n_vectors);
  }

  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec& exec) {
    const Offset longest = problem.a->longest_row();
    if (auto reason = OneLaunchPlan<T, 1>::refuse(problem, exec)) return reason;
    if (longest <= kMostWidth) return std::nullopt;
    return fmt::format("a row has {} non-zeros; kernels are compiled for up to {} a thread", longest,
                       kMostWidth);
  }

 private:
  Offset longest_;
};

}  // namespace

void add_row_per_thread(Registry& registry) {
  registry.add<RowInRegisters>(
      {.name = "06_cuda_register/row_per_thread",
       .idea = "D2: a thread keeps its row in registers; spills beyond 112 non-zeros (float)",
       .previous = "one_launch"});
}

}  // namespace stages
