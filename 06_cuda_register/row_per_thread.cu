// D2's last step: each thread keeps its row in registers.
//
// "D2" is the course report behind steps 3 to 6: dense, shared, CSR, registers, on a GTX 1080 Ti. Its idea
// was right: the matrix is fixed while the vector changes, so a thread reads its row's non-zeros once and
// keeps them through all products; only x travels, through shared memory. The row width is a template
// parameter, because registers have no addresses: only a loop that the compiler unrolls can keep row[0],
// row[1], ... in registers of their own.
//
// And there it ends. A thread has at most 255 registers, and a non-zero takes two (value, column). Beyond
// about 115 non-zeros the compiler spills the rest to local memory, which is device memory behind L1, and the
// kernel reads it in every product again: the curve jumps. (D2 saw the jump at n = 408 with 80 % zeros, 82
// non-zeros a row.) The results hold registers_per_thread and spilled_bytes_per_thread of the kernel that
// ran: watch them while n grows.
//
// Requires: rows of at most 256 non-zeros, x in a block's shared memory, independent vectors. A thread per
// row also means that n = 1024 keeps 16 of 132 SMs busy: stream_resident.cu mends both.

#include "06_cuda_register/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"

namespace stages {
namespace {

constexpr int kBlock = 64;
constexpr int kWidthStep = 16;
constexpr int kMostWidth = 256;

template <class T, class Ptr, int kWidth>
__global__ void __launch_bounds__(kBlock) row_per_thread(CsrView<T, Ptr> a, const T* x, T* y, int products) {
  T* const xs = dynamic_shared<T>();  // x, and a zero behind it for the padding of short rows
  const int row = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  T value[kWidth];
  int column[kWidth];
  const Ptr begin = row < a.rows ? a.row_ptr[row] : 0, end = row < a.rows ? a.row_ptr[row + 1] : 0;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    const bool there = begin + k < end;
    value[k] = there ? a.values[begin + k] : T{0};
    column[k] = there ? a.col_idx[begin + k] : a.cols;
  }
  if (threadIdx.x == 0) xs[a.cols] = T{0};

  for (int j = 0; j < products; ++j) {
    __syncthreads();  // the product before is done with xs
    for (int c = static_cast<int>(threadIdx.x); c < a.cols; c += kBlock)
      xs[c] = x[static_cast<std::int64_t>(j) * a.cols + c];
    __syncthreads();
    T sum = 0;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum += value[k] * xs[column[k]];
    if (row < a.rows) y[static_cast<std::int64_t>(j) * a.rows + row] = sum;
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
Offset longest_row(const Csr<T>& a) {
  Offset longest = 0;
  for (Index i = 0; i < a.rows; ++i) longest = std::max(longest, a.row_nnz(i));
  return longest;
}

template <class T>
std::size_t shared_bytes_for(const Csr<T>& a) {
  return sizeof(T) * (static_cast<std::size_t>(a.cols) + 1);
}

template <class T>
class RowPerThread final : public DeviceSpmvPlan<T> {
 public:
  RowPerThread(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec), longest_(longest_row(*problem.a)), a_(*problem.a) {
    with_width(longest_, [&]<int kWidth>() {
      allow_shared_bytes(row_per_thread<T, std::int32_t, kWidth>, shared_bytes_for(*problem.a));
    });
  }

  void run() override {
    with_width(longest_, [&]<int kWidth>() {
      launch(row_per_thread<T, std::int32_t, kWidth>,
             {blocks_for(this->a().rows, kBlock), kBlock, shared_bytes_for(this->a()), this->stream()},
             a_.view(), this->x_of(0), this->y_of(0), this->problem().products);
    });
  }

  std::vector<Metric> metrics() const override {
    const auto [width, facts] = with_width(longest_, [&]<int kWidth>() {
      return std::pair(kWidth, kernel_facts(row_per_thread<T, std::int32_t, kWidth>));
    });
    return {
        {"compiled_row_width", static_cast<double>(width), ""}, registers_metric(facts), spill_metric(facts)};
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    cost.memory += device_csr_bytes(*problem.a);
    const double width =
        static_cast<double>((longest_row(*problem.a) + kWidthStep - 1) / kWidthStep * kWidthStep);
    cost.work = width * problem.a->rows * problem.products;
    return cost;
  }

  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    const Csr<T>& a = *problem.a;
    if (problem.mode == Mode::chain) {
      return fmt::format(
          "a block sees only its own rows of y, and these {} products are a chain; see chain_words",
          problem.products);
    }
    if (longest_row(a) > kMostWidth) {
      return fmt::format("a row has {} non-zeros; kernels are compiled for up to {} a thread", longest_row(a),
                         kMostWidth);
    }
    if (!std::in_range<std::int32_t>(a.nnz()))
      return fmt::format("{} non-zeros need 64-bit row pointers", a.nnz());
    if (shared_bytes_for(a) > device_facts().shared_per_block_optin) {
      return fmt::format("x needs {} bytes of shared memory; a block has {}", shared_bytes_for(a),
                         device_facts().shared_per_block_optin);
    }
    return std::nullopt;
  }

 private:
  void product(const T*, T*) override {}  // run() does them all in one launch
  Offset longest_;
  DeviceCsr<T, std::int32_t> a_;
};

}  // namespace

void add_row_per_thread(Registry& registry) {
  registry.add<RowPerThread>(
      {.name = "06_cuda_register/row_per_thread",
       .idea = "D2: a thread keeps its row in registers; spills beyond about 115 non-zeros",
       .needs = {.gpu = true}});
}

}  // namespace stages
