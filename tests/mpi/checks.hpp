#pragma once
// What the tests on several ranks share. A rank whose check fails throws, which ends all ranks with a
// message: GoogleTest would go on with the next test on this rank while the others wait in the middle of the
// last.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/harness/check_parts.hpp"
#include "common/harness/registry.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"
#include "common/mpi/communicator.hpp"
#include "common/mpi/exec.hpp"

namespace stages::mpi_tests {

using checking::same_bits;

/// Throws Error with the text unless `good`.
template <class... Args>
void require(bool good, fmt::format_string<Args...> format, Args&&... args) {
  if (!good) fail("{}", fmt::format(format, std::forward<Args>(args)...));
}

/// What a test works with: the ranks, and the words after its name.
struct World {
  mpi::MpiCommunicator& ranks;
  mpi::MpiExec& exec;
  std::vector<std::string> words;
  Exec* gpu = nullptr;  ///< the processes' GPUs or executors; null where there is none

  bool root() const { return ranks.rank() == 0; }
  Exec& on_gpu() const {
    require(gpu != nullptr, "no kernel can run here");
    return *gpu;
  }
  Exec& of(const Entry& entry) const { return entry.needs.gpu ? on_gpu() : exec; }
};

/// The tests, which main.cpp runs, by their names.
inline std::map<std::string, void (*)(World&)>& tests() {
  static std::map<std::string, void (*)(World&)> all;
  return all;
}
#define MPI_TEST(NAME)                                                  \
  static void NAME(World& world);                                       \
  static const bool NAME##_added = tests().emplace(#NAME, NAME).second; \
  static void NAME(World& world)

inline double metric(const std::vector<Metric>& metrics, const std::string& name) {
  const auto found = std::ranges::find(metrics, name, &Metric::name);
  require(found != metrics.end(), "there is no metric {}", name);
  return found->value;
}

/// The problem A A where rank 0 has A.
template <class T>
SpgemmProblem<T> square_on_root(World& world, const std::string& spec,
                                Destination destination = Destination::host) {
  SpgemmProblem<T> problem;
  problem.destination = destination;
  if (!world.root()) return problem;
  const auto a = std::make_shared<const Csr<T>>(generate<T>(spec));
  return make_spgemm_problem<T>(spec, a, a, destination);
}

/// A plan of the entry that has its operands, which rank 0 has, and which live as long. Collective.
template <class T>
std::shared_ptr<SpgemmPlan<T>> loaded(World& world, const Entry& entry, const SpgemmProblem<T>& problem) {
  const auto operands = std::make_shared<SpgemmOperands<T>>();
  if (world.root()) *operands = {problem.a->values, problem.b->values};
  const std::shared_ptr plan = entry.on<SpgemmProblem<T>>().prepare(problem, world.of(entry));
  plan->load(*operands);
  return {plan.get(), [plan, operands](SpgemmPlan<T>*) {}};
}

/// Work of a few milliseconds that knows when it was done, by a clock that the processes of a machine share.
struct Stay {
  int times = 0;
  Offset begin = 0;  ///< nanoseconds
  Offset end = 0;

  void operator()();
};

/// Demands that each rank has stayed once, and those for which may_meet(rank, rank) is false not at the same
/// time. Collective.
void require_apart(World& world, const Stay& mine, const std::function<bool(int, int)>& may_meet);

}  // namespace stages::mpi_tests
