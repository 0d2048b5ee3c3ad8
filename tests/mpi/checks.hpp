#pragma once
// What the tests on several ranks share. A rank whose check fails throws, which ends all ranks with a
// message: GoogleTest would go on with the next test on this rank while the others wait in the middle of the
// last.

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/harness/registry.hpp"
#include "common/matrix/error.hpp"
#include "common/mpi/communicator.hpp"
#include "common/mpi/exec.hpp"

namespace stages::mpi_tests {

/// Throws Error with the text unless `good`.
template <class... Args>
void require(bool good, fmt::format_string<Args...> format, Args&&... args) {
  if (!good) fail("{}", fmt::format(format, std::forward<Args>(args)...));
}

/// Whether all bits are equal, those of NaN and of zeros too.
template <class T>
bool same_bits(const Buffer<T>& a, const Buffer<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
template <class T>
bool same_result(const Dense<T>& a, const Dense<T>& b) {
  return same_bits(a.data, b.data);
}
template <class T>
bool same_result(const Csr<T>& a, const Csr<T>& b) {
  return a.row_ptr == b.row_ptr && a.col_idx == b.col_idx && same_bits(a.values, b.values);
}

/// What a test works with: the ranks, and the words after its name.
struct World {
  mpi::MpiCommunicator& ranks;
  mpi::MpiExec& exec;
  std::vector<std::string> words;
  Exec* gpu = nullptr;  ///< the processes' GPUs or executors; null where there is none

  bool root() const { return ranks.rank() == 0; }
  Exec& of(const Entry& entry) const { return entry.needs.gpu ? *gpu : exec; }
};
using Test = std::function<void(World&)>;

/// A plan of the entry that has its operands, which rank 0 has. Collective.
template <class T>
std::unique_ptr<SpgemmPlan<T>> loaded(World& world, const Entry& entry, const SpgemmProblem<T>& problem) {
  auto plan = entry.on<SpgemmProblem<T>>().prepare(problem, world.of(entry));
  SpgemmOperands<T> operands;
  if (world.root()) operands = {problem.a->values, problem.b->values};
  plan->load(operands);
  return plan;
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

void battery(World& world);    ///< every entry of the stage on every case
void mutants(World& world);    ///< the faults of the course project, which the checker must reject
void in_run(World& world);     ///< run() is where entries multiply
void bits(World& world);       ///< the same bits as the serial entries
void chain(World& world);      ///< A <- A B, never whole on any rank
void transfers(World& world);  ///< every transfer, also in pieces
void dealing(World& world);    ///< shares of rows
void trials(World& world);     ///< shares of rows that take equally long
void nodes(World& world);      ///< pretended nodes are told of
void clocks(World& world);     ///< metrics are there and make sense
void turns(World& world);      ///< ranks work one after the other
void failure(World& world);    ///< one rank fails in one way; the words are its number and the way
#ifdef STAGES_HAVE_MULTIGPU
void peers(World& world);         ///< device memory brought together from parts
void balance(World& world);       ///< how the entries for several GPUs deal rows
void through_root(World& world);  ///< what of C passes rank 0
void dealt_bits(World& world);    ///< the same bits however rows are dealt
void alone(World& world);         ///< processes that share a GPU take turns
void batches(World& world);       ///< parts of C that do not fit on their GPUs
#endif

}  // namespace stages::mpi_tests
