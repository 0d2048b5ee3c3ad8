// A student's file that does what the environment variable MISBEHAVE says, for the tests of `stages grade`.
// With none it is right.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"

namespace stages {
namespace {

constexpr unsigned kBlock = 128;

bool misbehaves(const char* how) {
  const char* const asked = std::getenv("MISBEHAVE");
  return asked != nullptr && std::strcmp(asked, how) == 0;
}

enum class Fault { none, hang, write_beyond, read_beyond, null_pointer };

template <class T>
__global__ void multiply(CsrView<T, std::int32_t> a, const T* x, T* y, Fault fault) {
  const int row = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  if (fault == Fault::hang) {
    for (volatile int k = 0; k >= 0;) k = k & 1;
  }
  if (row >= a.rows) return;
  T sum = 0;
  for (std::int32_t p = a.row_ptr[row]; p < a.row_ptr[row + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
  y[row] = sum;
  if (fault == Fault::write_beyond) y[row + a.rows * 100] = sum;
  if (fault == Fault::read_beyond) y[row] += T{0} * x[a.cols + 1];
  if (fault == Fault::null_pointer) *static_cast<volatile T*>(nullptr) = sum;
}

template <class T>
class Misbehaving final : public DeviceSpmvPlan<T> {
 public:
  Misbehaving(const SpmvProblem<T>& problem, Exec& exec) : DeviceSpmvPlan<T>(problem, exec), a_(*problem.a) {}

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }
  static std::optional<std::string> refuse(const SpmvProblem<T>&, Exec&) {
    if (misbehaves("refuse")) return "more than 0 rows are too many";
    return std::nullopt;
  }

  void run() override {
    if (!misbehaves("in_fetch")) DeviceSpmvPlan<T>::run();
  }
  Dense<T> fetch() override {
    if (misbehaves("in_fetch")) DeviceSpmvPlan<T>::run();
    if (!misbehaves("previous")) return DeviceSpmvPlan<T>::fetch();
    if (first_.data.empty()) first_ = DeviceSpmvPlan<T>::fetch();
    return first_;
  }

 private:
  void product(const T* x, T* y) override {
    if (misbehaves("nothing")) return;
    if (misbehaves("abort")) std::abort();
    if (misbehaves("exit")) std::exit(0);
    if (misbehaves("throw")) throw std::runtime_error("the device is gone");
    if (misbehaves("memory")) {
      for (std::size_t k = 0; k < 1000; ++k) std::memset(std::malloc(100'000'000), 1, 100'000'000);
    }
    const Fault fault = misbehaves("hang")           ? Fault::hang
                        : misbehaves("write_beyond") ? Fault::write_beyond
                        : misbehaves("read_beyond")  ? Fault::read_beyond
                        : misbehaves("null_pointer") ? Fault::null_pointer
                                                     : Fault::none;
    launch(multiply<T>, {.grid = blocks_for(a_.rows, kBlock), .block = kBlock, .stream = this->stream()},
           a_.view(), x, y, fault);
  }

  DeviceCsr<T, std::int32_t> a_;
  Dense<T> first_;
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Misbehaving>({.name = "task/misbehaving",
                             .idea = "what MISBEHAVE says",
                             .claims = {.bitwise_reproducible = false},
                             .needs = {.gpu = true}});
  if (misbehaves("two_entries")) registry.add<Misbehaving>({.name = "task/another", .idea = "one too many"});
}

}  // namespace stages
