// The shared battery on every entry for several ranks, those with GPUs included, and what these entries say
// about their runs.
#include <algorithm>
#include <cmath>
#include <functional>

#include "common/harness/entries.hpp"
#include "common/mpi/transfer.hpp"
#include "tests/battery.hpp"
#include "tests/in_run.hpp"
#include "tests/mpi/checks.hpp"
#ifdef STAGES_HAVE_MULTIGPU
#include "common/gpu/exec.hpp"
#endif

namespace stages::mpi_tests {
namespace {

const Registry& all_entries() {
  static const Registry registry = [] {
    Registry made;
    add_entries(made);
    return made;
  }();
  return registry;
}

/// Those that run on the ranks and whose name holds the first word, if there is one. On several nodes
/// shared_window does not.
std::vector<std::reference_wrapper<const Entry>> chosen(const World& world) {
  const std::string wanted = world.words.empty() ? "" : world.words.front();
  std::vector<std::reference_wrapper<const Entry>> out;
  for (const Entry& entry : all_entries().entries())
    if (entry.needs.mpi && (!entry.needs.gpu || world.gpu != nullptr) &&
        entry.name.find(wanted) != std::string::npos &&
        (entry.name != "02_mpi/shared_window" || world.ranks.nodes() == 1))
      out.push_back(entry);
  require(!out.empty(), "no entry's name holds '{}'", wanted);
  return out;
}

void check_destination(World& world, const Entry& entry, SpgemmProblem<double> problem,
                       Destination destination, const CheckOptions& options = {}) {
  problem.destination = destination;
  Exec& exec = world.of(entry);
  // As the runner does it: rank 0 knows the problem, and says so to the others.
  bool refused =
      world.root() && entry.on<SpgemmProblem<double>>().look(problem, exec).refuse(problem, exec).has_value();
  exec.communicator().broadcast(&refused, sizeof refused);
  if (refused) return;
  const CheckReport report = check_entry(entry, problem, exec, options);
  require(report.passed(), "{}, {}, C {}: {}", entry.name, problem.name, to_string(problem.destination),
          report.failure);
}

/// The bytes that all ranks send while that is done.
double sent(World& world, const std::function<void()>& what) {
  const Offset before = mpi::bytes_sent();
  what();
  double bytes = static_cast<double>(mpi::bytes_sent() - before);
  mpi::sum_over_ranks(std::span(&bytes, 1), world.ranks.comm());
  return bytes;
}

/// In a chain, of each round.
template <class Problem>
void expect_what_was_sent(World& world, const Entry& entry, const Problem& problem, Index products = 1) {
  Exec& exec = world.of(entry);
  bool refused = entry.on<Problem>().look(problem, exec).refuse(problem, exec).has_value();
  world.ranks.broadcast(&refused, sizeof refused);
  if (refused) return;
  const auto plan = entry.on<Problem>().prepare(problem, world.of(entry));
  const auto operands = make_operands(problem, ValueKind::integer, 1);
  const double placed = sent(world, [&] { plan->load(operands); });
  Index rounds = 1;
  if constexpr (Problem::kOp == Op::spgemm) rounds = problem.rounds;
  for (Index round = 0; round < rounds; ++round) {
    if constexpr (Problem::kOp == Op::spgemm)
      if (round > 0) plan->advance();
    plan->reset();
    const double ran = sent(world, [&] { plan->run(); });
    const double fetched = rounds == 1 ? sent(world, [&] { plan->fetch(); }) : 0;
    const auto metrics = plan->metrics();
    const double scattered = metric(metrics, "bytes_scattered"),
                 exchanged = products * metric(metrics, "bytes_exchanged"),
                 gathered = metric(metrics, "bytes_gathered"), moved = metric(metrics, "bytes_moved");
    const double all = ran + (rounds == 1 ? placed + fetched : 0);
    const bool parts =
        rounds > 1 || fetched == 0 || (scattered == placed && exchanged == ran && gathered == fetched);
    require(parts && moved == all && scattered + exchanged + gathered == moved,
            "{}, {}, round {} of {}: says {} + {} + {} = {} bytes, and sent {} + {} + {}", entry.name,
            problem.name, round, rounds, scattered, exchanged, gathered, moved, placed, ran, fetched);
  }
}

/// Whether processes share GPUs that the entry needs. They take turns, and only what each takes with its GPU
/// to itself is told.
bool takes_turns([[maybe_unused]] const World& world, [[maybe_unused]] const Entry& entry) {
#ifdef STAGES_HAVE_MULTIGPU
  return entry.needs.gpu && as_gpu(world.on_gpu()).is_shared();
#else
  return false;
#endif
}

}  // namespace

/// Words: the part of an entry's name that chooses entries; none: all.
MPI_TEST(battery) {
  const battery::Pass pass = battery::pass_from_environment();
  for (const Entry& entry : chosen(world)) {
    for (const bool single : {true, false}) {
      const battery::Tally tally = single ? battery::run<float>(entry, world.of(entry), pass)
                                          : battery::run<double>(entry, world.of(entry), pass);
      if (!world.root()) continue;
      const std::string objection = tally.objection(battery::least_cases());
      require(objection.empty(), "{} on {} ranks: {}", entry.name, world.ranks.size(), objection);
      fmt::print("{} {}: {} cases, {} skipped\n", entry.name, single ? "f32" : "f64", tally.ran,
                 tally.skips.size());
    }
  }
  if (pass == battery::Pass::sweep) return;
  // The battery's cases ask for C on the host; the other destinations where an entry has them.
  for (const Entry& entry : chosen(world)) {
    if (entry.op != Op::spgemm) continue;
    for (const Destination destination :
         {Destination::host, Destination::distributed, Destination::one_gpu}) {
      const std::string failure = battery::check_chains(entry, world.of(entry), destination);
      require(failure.empty(), "{}, C {}: {}", entry.name, to_string(destination), failure);
    }
    for (const Destination destination : {Destination::distributed, Destination::one_gpu}) {
      for (const char* const spec : {"gen:rmat:scale=9,edge_factor=8", "gen:hypersparse:n=500,nnz=3"})
        check_destination(world, entry, square_on_root<double>(world, spec), destination);
      for (const battery::Case& c : battery::cases(Op::spgemm, battery::Pass::small))
        check_destination(
            world, entry,
            world.root() ? battery::make_problem<SpgemmProblem<double>>(c) : SpgemmProblem<double>{},
            destination, {.quick = true});
    }
  }
}

/// They have copies of what they load, on ranks and on GPUs. For one rank, whose time says something anywhere.
MPI_TEST(in_run) {
  require(world.ranks.size() == 1, "this test is for one rank");
  for (const Entry& entry : chosen(world)) {
    Exec& exec = world.of(entry);
    std::string why;
    if (entry.needs.gpu) {
      if (!judge::can_count()) continue;
      require(entry.op == Op::spgemm, "{} multiplies with kernels, and is no SpGEMM", entry.name);
      const auto a = generated<float>("gen:uniform:n=600,per_row=10");
      why = not_counted_in_run(entry, make_spgemm_problem<float>("spgemm", a, a), exec);
    } else {
      why = not_timed_in_run(entry, exec);
    }
    require(why.empty(), "{}: {}", entry.name, why);
    fmt::print("{}\n", entry.name);
  }
}

/// What plans say that they move is what ranks sent meanwhile.
MPI_TEST(bytes) {
  const auto a = generated<double>("gen:rmat:scale=7,edge_factor=4"),
             small = generated<double>("gen:dense:n=3");
  for (const Entry& entry : chosen(world)) {
    if (entry.op == Op::spmv) {
      expect_what_was_sent(world, entry, make_spmv_problem<double>("few rows", small));
      expect_what_was_sent(world, entry, make_spmv_problem<double>("stream", a, Mode::stream, 5), 5);
      expect_what_was_sent(world, entry, make_spmv_problem<double>("chain", a, Mode::chain, 3), 3);
    } else if (entry.op == Op::spmm) {
      expect_what_was_sent(world, entry, make_spmm_problem<double>({.name = "spmm", .a = a, .n_cols = 3}));
    } else {
      for (const Destination destination :
           {Destination::host, Destination::distributed, Destination::one_gpu})
        for (const Index rounds : {1, 3})
          if (rounds == 1 || entry.chains)
            expect_what_was_sent(world, entry, make_spgemm_problem<double>("C", a, a, destination, rounds));
    }
  }
}

/// Only shared_window depends on nodes, and must say so.
MPI_TEST(nodes) {
  require(world.ranks.pretends(), "set STAGES_MPI_NODES for this test");
  const int expected = std::min(std::atoi(std::getenv("STAGES_MPI_NODES")), world.ranks.size());
  require(world.ranks.nodes() == expected, "{} nodes instead of {}", world.ranks.nodes(), expected);
  const auto problem = square_on_root<float>(world, "gen:rmat:scale=9,edge_factor=8", Destination::host);
  const auto offer =
      all_entries().find("02_mpi/shared_window").on<SpgemmProblem<float>>().look(problem, world.exec);
  const std::string why = offer.refuse(problem, world.exec).value_or("");
  require(why.find("several nodes") != std::string::npos, "shared_window on {} nodes says '{}'", expected,
          why);
}

MPI_TEST(clocks) {
  const double ranks = world.ranks.size();
  for (const Destination destination : {Destination::host, Destination::distributed}) {
    const auto problem = square_on_root<double>(world, "gen:rmat:scale=10,edge_factor=8", destination);
    for (const Entry& entry : chosen(world)) {
      Exec& exec = world.of(entry);
      if (entry.op != Op::spgemm) continue;
      const auto plan = loaded(world, entry, problem);
      for (int k = 0; k < 3; ++k) exec.time([&] { plan->run(); });
      const auto metrics = plan->metrics();
      const double compute = metric(metrics, "compute_seconds"),
                   distributed = metric(metrics, "distributed_seconds"),
                   whole = metric(metrics, "root_to_root_seconds");
      // With C distributed, or operands that lie on GPUs, root to root is measured in other runs, which may
      // have been quicker.
      const bool same_runs = destination == Destination::host && !entry.needs.gpu;
      const double in_time = metric(metrics, "compute_imbalance");
      if (exec.simulated()) {
        require(std::isnan(compute) && std::isnan(distributed) && std::isnan(whole) && std::isnan(in_time),
                "{}: the executor knows no times, and says {}, {}, {} and {}", entry.name, compute,
                distributed, whole, in_time);
      } else {
        require(in_time >= 1 && in_time <= ranks, "{}: imbalance in time {}", entry.name, in_time);
        if (takes_turns(world, entry)) {
          require(0 < compute && std::isnan(distributed) && std::isnan(whole),
                  "{}: processes take turns, so {}, {} and {} should be a time and two unknowns", entry.name,
                  compute, distributed, whole);
        } else {
          require(0 < compute && compute <= distributed && (same_runs ? distributed <= whole : whole > 0),
                  "{}: clocks {} <= {} <= {} do not hold", entry.name, compute, distributed, whole);
        }
      }
      const double imbalance = metric(metrics, "imbalance");
      require(imbalance >= 1 && imbalance <= ranks, "{}: imbalance {}", entry.name, imbalance);
    }
  }
  // Phases are the maximum over the ranks: each rank claims another time.
  world.exec.clear_phases();
  world.exec.time([&] {
    Phase phase(world.exec, "nap");
    const timespec nap{0, 10'000'000L * (world.ranks.rank() + 1)};
    nanosleep(&nap, nullptr);
  });
  const double longest = world.exec.phases().at(0).seconds;
  require(longest >= 0.01 * ranks, "the phase took {} s on rank {}, and {} s on the last", longest,
          world.ranks.rank(), 0.01 * ranks);
}

}  // namespace stages::mpi_tests
