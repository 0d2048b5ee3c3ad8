#pragma once
// What rungs 1 to 5 share: A on the device, its cost, what they refuse. Each gives run(): one launch for all.

#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"

namespace stages {

/// `kBehind`: places that the kernel needs behind x in shared memory. `Element`: what lies there for a column.
template <class T, int kBehind, class Element = T>
class OneLaunchPlan : public DeviceSpmvPlan<T> {
 public:
  OneLaunchPlan(const SpmvProblem<T>& problem, Exec& exec)
      : DeviceSpmvPlan<T>(problem, exec), matrix_(*problem.a) {}

  static Cost cost(const SpmvProblem<T>& problem) {
    return problem_cost(problem).plus_memory(device_csr_bytes(*problem.a));
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    const Csr<T>& a = *problem.a;
    const std::size_t has = device_facts().shared_per_block_optin;
    if (problem.mode == Mode::chain)
      return fmt::format(
          "a block sees only its own rows of y, and these {} products are a chain; see chain_words",
          problem.n_vectors);
    if (!std::in_range<std::int32_t>(a.nnz()))
      return fmt::format("{} non-zeros need 64-bit row pointers", a.nnz());
    if (shared_bytes(a) > has)
      return fmt::format("x needs {} bytes of shared memory; a block has {}", shared_bytes(a), has);
    return std::nullopt;
  }

 protected:
  static std::size_t shared_bytes(const Csr<T>& a) {
    return sizeof(Element) * (static_cast<std::size_t>(a.cols) + kBehind);
  }
  /// Launches `kernel` once for all products, with `more` behind what all take.
  template <class Kernel, class... More>
  void launch_once(Kernel kernel, dim3 grid, unsigned block, const More&... more) {
    launch(kernel,
           {.grid = grid, .block = block, .shared_bytes = shared_bytes(this->a()), .stream = this->stream()},
           matrix_.view(), this->x_of(0), this->y_of(0), this->problem().n_vectors, more...);
  }

 private:
  void product(const T*, T*) final {}  // run() does them all in one launch
  DeviceCsr<T, std::int32_t> matrix_;
};

}  // namespace stages
