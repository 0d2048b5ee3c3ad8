// Several GPUs: memory that is brought together from parts, and how rows are dealt.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "08_spgemm_multigpu/stage.hpp"
#include "common/gpu/facts.hpp"
#include "common/harness/check.hpp"
#include "common/mpi/deal.hpp"
#include "common/mpi/transfer.hpp"
#include "common/multigpu/exec.hpp"
#include "common/multigpu/peer_memory.hpp"
#include "tests/mpi/checks.hpp"

namespace stages::mpi_tests {
namespace {

std::int32_t token(std::size_t round, std::size_t k) {
  return static_cast<std::int32_t>(100'000 * round + k);
}

/// Parts of `sizes` numbers; each process brings its own and must have all, twice with other numbers. Before
/// that, on several nodes too, rank 0 brings all.
void share_parts(World& world, const std::vector<std::size_t>& sizes) {
  constexpr Offset kToken = sizeof(std::int32_t);
  std::vector<Offset> bounds(1, 0);
  for (const std::size_t size : sizes) bounds.push_back(bounds.back() + static_cast<Offset>(size) * kToken);
  const auto me = static_cast<std::size_t>(world.ranks.rank());
  const auto bytes = static_cast<std::size_t>(bounds.back()), count = bytes / kToken;
  const cudaStream_t stream = as_gpu(world.on_gpu()).stream();
  mpi::PeerMemory memory(world.ranks, bounds.back());
  require(memory.reachable() == (world.ranks.nodes() == 1), "reachable on {} nodes: {}", world.ranks.nodes(),
          memory.reachable());
  for (std::size_t round = 0; round < 3 && (round == 0 || memory.reachable()); ++round) {
    const Offset first = round > 0 ? bounds[me] : 0;
    const Offset end = round > 0 ? bounds[me + 1] : world.root() ? bounds.back() : 0;
    std::vector<std::int32_t> part, all(count, -1);
    for (Offset at = first; at < end; at += kToken)
      part.push_back(token(round, static_cast<std::size_t>(at / kToken)));
    if (round > 0 && !part.empty())
      STAGES_CUDA(cudaMemcpyAsync(memory.data() + first, part.data(), part.size() * kToken,
                                  cudaMemcpyHostToDevice, stream));
    round > 0 ? memory.share(bounds, stream) : memory.broadcast(0, part.data(), bounds.back(), stream);
    if (count > 0)
      STAGES_CUDA(cudaMemcpyAsync(all.data(), memory.data(), bytes, cudaMemcpyDeviceToHost, stream));
    world.on_gpu().synchronize();
    for (std::size_t k = 0; k < count; ++k)
      require(all[k] == token(round, k), "round {}: number {} of {} is {}", round, k, count, all[k]);
  }
}

/// What a run of an entry says about itself.
struct Ran {
  Offset received = 0;  ///< by this process in messages of run()
  Offset results = 0;   ///< rank 0: nnz(C)
  std::vector<Metric> metrics;
};

Ran run(World& world, const char* name, const SpgemmProblem<float>& problem) {
  Registry registry;
  add_08_spgemm_multigpu(registry);
  const auto plan = loaded(world, registry.find(name), problem);
  const Offset before = mpi::bytes_received();
  plan->run();
  const Offset received = mpi::bytes_received() - before, results = plan->fetch().nnz();
  return {received, results, plan->metrics()};
}

/// The problem A B where rank 0 has what `matrices` gives: A and B.
template <class Matrices>
SpgemmProblem<float> on_root(World& world, Matrices matrices, Destination destination = Destination::host) {
  SpgemmProblem<float> problem;
  problem.destination = destination;
  if (!world.root()) return problem;
  const auto [a, b] = matrices();
  return make_spgemm_problem<float>("on ranks", std::make_shared<const Csr<float>>(a),
                                    std::make_shared<const Csr<float>>(b), destination);
}

/// Each `period`-th row has many entries, from row `first` on; the others have one.
Csr<float> heavy_every(Index rows, Index period, Index first = 0) {
  Csr<float> a(rows, rows);
  for (Index i = 0; i < rows; ++i) {
    const Index length = i % period == first ? 64 : 1;
    for (Index k = 0; k < length; ++k) a.col_idx.push_back((i + k) % rows);
    std::sort(a.col_idx.end() - length, a.col_idx.end());
    a.row_ptr[static_cast<std::size_t>(i) + 1] = a.row_ptr[static_cast<std::size_t>(i)] + length;
  }
  a.values.assign(a.col_idx.size(), 1.0F);
  return a;
}

}  // namespace

MPI_TEST(peers) {
  const auto processes = static_cast<std::size_t>(world.ranks.size());
  std::vector<std::size_t> sizes(processes, 1000);
  share_parts(world, sizes);
  for (std::size_t p = 0; p < processes; ++p) sizes[p] = 7 * p;  // the first has none
  share_parts(world, sizes);
  sizes.assign(processes, 0);
  share_parts(world, sizes);
  sizes.back() = 1 << 20;  // one has all, and more than a block of memory
  share_parts(world, sizes);
}

/// On the executor each process has one of its own, and nobody waits.
MPI_TEST(alone) {
  std::array<Offset, 2> own = device_facts().uuid;
  if (world.on_gpu().simulated()) own = {world.ranks.rank(), 0};
  const std::vector<Offset> gpus = mpi::all_gather(own, world.ranks.comm());
  Stay stay;
  as_gpu(world.on_gpu()).alone([&stay] { stay(); });
  require_apart(world, stay, [&gpus](int a, int b) {
    const auto i = static_cast<std::size_t>(2 * a), j = static_cast<std::size_t>(2 * b);
    return gpus[i] != gpus[j] || gpus[i + 1] != gpus[j + 1];
  });
}

/// D4 (d): where C comes to the host, all of it passes rank 0 as messages, or, through the window, none. The
/// original's scheme is the planted fault: what is demanded of multi_blocks does not hold for it.
MPI_TEST(through_root) {
  const auto problem = square_on_root<float>(world, "gen:uniform:rows=900,cols=900,per_row=6");
  const Ran gather = run(world, "08_spgemm_multigpu/multi_gather", problem);
  const Ran hash = run(world, "08_spgemm_multigpu/multi_gather_hash", problem);
  const Ran blocks = run(world, "08_spgemm_multigpu/multi_blocks", problem);
  // And the values of B from the part of each process to all others.
  const double of_b = metric(blocks.metrics, "bytes_exchanged_b");
  require(of_b == (world.ranks.nodes() > 1 ? 0.0 : 900 * 6 * 4.0 * (world.ranks.size() - 1)),
          "{} processes exchanged {} bytes of B", world.ranks.size(), of_b);
  if (!world.root()) return;
  const double of_others = 8.0 * static_cast<double>(gather.results) * (1 - 1.0 / world.ranks.size());
  require(static_cast<double>(gather.received) >= 0.9 * of_others, "rank 0 received {} bytes of {:.0f}",
          gather.received, of_others);
  require(hash.results == gather.results && hash.received == gather.received,
          "rank 0 received {} bytes of {} results with the original's kernels, {} of {} with binned's",
          hash.received, hash.results, gather.received, gather.results);
  require(world.ranks.nodes() > 1 || blocks.received == 0, "rank 0 received {} bytes of C", blocks.received);
}

/// D4 (c): rows dealt out one by one, when the heavy ones lie a multiple of the processes apart, all go to
/// one process; blocks by products share them. Blocks by rows, the planted fault, would not.
MPI_TEST(balance) {
  const Index processes = world.ranks.size();
  const Csr<float> heavy = heavy_every(600, processes);
  const auto periodic = on_root(world, [&] { return std::pair(heavy, heavy); });
  const double dealt =
      metric(run(world, "08_spgemm_multigpu/multi_gather_hash", periodic).metrics, "imbalance");
  const double blocks = metric(run(world, "08_spgemm_multigpu/multi_blocks", periodic).metrics, "imbalance");
  require(processes == 1 || dealt > 0.8 * processes, "{} processes, rows one by one: imbalance {}", processes,
          dealt);
  require(blocks < 1.1, "{} processes, blocks: imbalance {}", processes, blocks);

  const auto graded = square_on_root<float>(world, "gen:rmat:scale=10,edge_factor=8");
  if (world.root()) {
    const auto products = mpi::products_before(*graded.a, *graded.b, 0);
    std::vector<Offset> rows(products.size());
    std::iota(rows.begin(), rows.end(), Offset{0});
    const double by_rows = mpi::imbalance(products, mpi::deal(rows, processes));
    require(processes == 1 || by_rows > 1.3, "choose another matrix: blocks by rows have imbalance {}",
            by_rows);
  }
  const double by_products =
      metric(run(world, "08_spgemm_multigpu/multi_blocks", graded).metrics, "imbalance");
  require(by_products < 1.25, "{} processes, blocks by products: imbalance {}", processes, by_products);

  Registry registry;
  add_multi_blocks(registry, "by_time", {.least_trial = 0});
  const CheckReport report = check_entry(registry.find("by_time"), graded, world.on_gpu());
  require(report.passed(), "{} processes, blocks dealt again: {}", processes, report.failure);
}

/// How rows are dealt does not show in C: a row has the same form, and so the same order of sums, in each
/// block that it may come to. In this problem forms differ by what is a share's work.
MPI_TEST(dealt_bits) {
  const auto problem = on_root(world, [] {
    return std::pair(generate<float>("gen:uniform:rows=200,cols=300,per_row=40"),
                     generate<float>("gen:uniform:rows=300,cols=2000,per_row=40"));
  });
  Registry registry;
  add_multi_blocks(registry, "by_products");
  add_multi_blocks(registry, "by_time", {.least_trial = 0});
  add_multi_gather(registry, "one_by_one");
  std::vector<Csr<float>> results;
  for (const Entry& entry : registry.entries()) {
    const auto plan = loaded(world, entry, problem);
    plan->run();
    results.push_back(plan->fetch());
  }
  for (const Csr<float>& c : results)
    require(same_bits(c, results.front()), "C has other bits where rows are dealt in another way");
}

/// A part of C that does not fit on its GPU comes to the host in batches; rank 0 has the note also where it
/// is another process's part. Words: the entry, gather or blocks; none: both.
MPI_TEST(batches) {
  const int last = world.ranks.size() - 1;
  for (const Destination destination : {Destination::host, Destination::distributed}) {
    const auto matrices = [&] {
      return std::pair(heavy_every(200, world.ranks.size(), last),
                       generate<float>("gen:banded:n=200,half_bandwidth=2"));
    };
    const auto problem = on_root(world, matrices, destination);
    for (const double bytes : {0.0, 8000.0}) {
      Registry registry;
      add_multi_gather(registry, "gather", {.result_bytes = bytes});
      add_multi_blocks(registry, "blocks", {.result_bytes = bytes});
      for (const Entry& entry : registry.entries()) {
        if (!world.words.empty() && entry.name != world.words.front()) continue;
        if (world.root()) {
          fmt::print("{}, C {}, {} bytes fit\n", entry.name, to_string(destination), bytes);
          std::fflush(stdout);
        }
        const CheckReport report = check_entry(entry, problem, world.on_gpu());
        require(report.passed(), "{}, C {} of which {} bytes fit: {}", entry.name, to_string(destination),
                bytes, report.failure);
        const auto plan = loaded(world, entry, problem);
        plan->run();
        const std::string note = plan->note();
        require((note.find("batches") != std::string::npos) == (bytes > 0),
                "{}, {} bytes fit: the note is '{}'", entry.name, bytes, note);
        require(bytes == 0 || entry.name != "gather" || note.starts_with(fmt::format("process {}:", last)),
                "the heavy rows are those of process {}, and the note is '{}'", last, note);
      }
    }
  }
}

}  // namespace stages::mpi_tests
