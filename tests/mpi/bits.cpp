// The same bits as one process: each element is summed by the same code in the same order, wherever its row
// is.
#include "01_cpu_serial/stage.hpp"
#include "02_mpi/stage.hpp"
#include "common/harness/operands.hpp"
#include "tests/mpi/checks.hpp"

namespace stages::mpi_tests {
namespace {

/// Runs `name` of `registry` on `problem`; the result on rank 0.
template <class Problem>
typename Problem::Result result_of(const Registry& registry, const char* name, const Problem& problem,
                                   Exec& exec) {
  const auto plan = registry.find(name).on<Problem>().prepare(problem, exec);
  typename Problem::Operands operands;
  if (problem.a != nullptr) operands = make_operands(problem, ValueKind::real, 7);
  plan->load(operands);
  plan->reset();
  plan->run();
  return plan->fetch();
}

template <class Problem>
void compare(World& world, const char* on_ranks, const char* on_one, const Problem& problem) {
  Registry serial, ranks;
  add_01_cpu_serial(serial);
  add_02_mpi(ranks);
  const auto got = result_of(ranks, on_ranks, problem, world.exec);
  if (!world.root()) return;
  Exec alone;
  require(same_bits(got, result_of(serial, on_one, problem, alone)),
          "{} on {} ranks has other bits than {} on {}", on_ranks, world.ranks.size(), on_one, problem.name);
}

constexpr const char* kMatrices[] = {
    "gen:rmat:scale=11,edge_factor=4",           // short rows of B: products in batches
    "gen:rmat:scale=10,edge_factor=40",          // long ones: marked word by word
    "gen:fem:nx=6",                              // neighbours
    "gen:hypersparse:n=20000,nnz=3000",          // mostly nothing
    "gen:uniform:rows=900,cols=900,per_row=30",  // few columns: several accumulators in turn
};

template <class T>
void compare_all(World& world, const char* spec) {
  std::shared_ptr<const Csr<T>> a;
  if (world.root()) a = std::make_shared<const Csr<T>>(generate<T>(spec));
  SpmvProblem<T> spmv{.name = spec, .a = a, .mode = Mode::chain, .n_vectors = 3};
  SpmmProblem<T> spmm{.name = spec, .a = a, .n_cols = 19, .alpha = T(1.5), .beta = T(0.5)};
  SpgemmProblem<T> spgemm;
  if (world.root()) {
    spmv = make_spmv_problem<T>(spec, a, Mode::chain, 3);
    spmm = make_spmm_problem<T>(spmm);
    spgemm = make_spgemm_problem<T>(spec, a, a);
  }
  for (const char* const entry : {"02_mpi/spmv_halo", "02_mpi/spmv_overlap"})
    compare(world, entry, "01_cpu_serial/csr_spmv_by_length", spmv);
  compare(world, "02_mpi/spmm_halo", "01_cpu_serial/csr_spmm", spmm);
  for (const char* const entry :
       {"02_mpi/gustavson", "02_mpi/balanced", "02_mpi/shared_window", "02_mpi/distributed"})
    compare(world, entry, "01_cpu_serial/gustavson_adaptive", spgemm);
  for (const char* const entry :
       {"02_mpi/scatter_gather", "02_mpi/columns_sorted_on_one", "02_mpi/columns_counted_on_one",
        "02_mpi/columns_sorted_by_all", "02_mpi/columns_counted_by_all"})
    compare(world, entry, "01_cpu_serial/two_pointer_dot", spgemm);
}

}  // namespace

MPI_TEST(bits) {
  for (const char* const spec : kMatrices) {
    compare_all<float>(world, spec);
    compare_all<double>(world, spec);
  }
}

}  // namespace stages::mpi_tests
