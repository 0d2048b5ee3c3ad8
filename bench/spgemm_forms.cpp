// The choices of step 8's rules, timed: which form should have which rows (08_spgemm_multigpu/fast/rules.hpp).
//
// For each matrix (C = A A, single precision) a table: the rules as they are, then with one choice changed at
// a time, and once with the forms one after the other, each with its own time. A row shows the time of a
// whole product and of its phases, medians of some runs after one that warms up; and by how much the product
// is slower or faster than with the rules as they are. Nothing is checked here but the number of results,
// which must be the same for all: the tests check the rest.
//
//   spgemm_forms [--samples N] [--filter REGEX] [MATRIX ...]
//
// A MATRIX is a Matrix Market file or gen:SPEC; without any, the set of tools/verify-gpu.sh. On the executor
// the times are 0: a GPU is what this is for.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "08_spgemm_multigpu/fast/binned.hpp"
#include "bench/bench.hpp"
#include "common/gpu/exec.hpp"
#include "common/gpu/facts.hpp"
#include "common/harness/clock.hpp"
#include "common/harness/operands.hpp"

namespace {

using namespace stages;
using spgemm::Rules;
using spgemm::Settings;

struct Choice {
  std::string name;
  Settings settings;
};

std::vector<Choice> choices() {
  std::vector<Choice> all;
  const auto with = [&](const std::string& name, auto change) {
    Rules rules;
    change(rules);
    all.push_back({name, {.rules = rules}});
  };
  with("as it is", [](Rules&) {});
  all.push_back({"one form after the other", {.one_by_one = true}});
  with("threads up to 16", [](Rules& r) { r.most_by_threads = 16; });
  with("no threads", [](Rules& r) { r.most_by_threads = 0; });
  for (const Index most : {128, 64, 32}) {
    with(fmt::format("sorted up to {}", most), [&](Rules& r) { r.most_sorted = most; });
  }
  with("nothing narrow", [](Rules& r) { r.narrow_columns = r.narrow_small_columns = 0; });
  for (const Index columns : {8, 64, 128}) {
    with(fmt::format("narrow: {} columns a product", columns),
         [&](Rules& r) { r.narrow_columns_a_product = columns; });
  }
  with("tables of 256 slots go to warps of 1024", [](Rules& r) { r.warp_small_slots = 0; });
  with("tables: warps to 2048 slots", [](Rules& r) { r.warp_slots = 2048; });
  with("tables: warps to 4096 slots", [](Rules& r) { r.warp_slots = 4096; });
  for (const Index warps : {2, 4, 16}) {
    with(fmt::format("tables: blocks of {} warps", warps), [&](Rules& r) { r.block_warps = warps; });
  }
  with("large tables: blocks of 8 warps", [](Rules& r) { r.large_warps = 8; });
  for (const Index columns : {768, 3072}) {
    with(fmt::format("windows of {}", columns), [&](Rules& r) { r.window_columns = columns; });
  }
  with("no ranks", [](Rules& r) { r.ranked_bytes = 0; });
  for (const Index bytes : {0, 16, 56}) {
    with(fmt::format("small ranks in {} KB", bytes), [&](Rules& r) { r.ranked_small_bytes = bytes * 1024; });
  }
  for (const Index columns : {1, 8}) {
    with(fmt::format("spans: {} columns a result", columns),
         [&](Rules& r) { r.span_columns_a_result = columns; });
  }
  with("no spans", [](Rules& r) { r.span_columns_a_result = std::numeric_limits<Index>::max(); });
  with("ranks in 74 KB", [](Rules& r) { r.ranked_bytes = 74 * 1024; });
  with("ranks in place of small windows", [](Rules& r) { r.window_small_columns = 0; });
  for (const Index products : {2048, 4096, 8192, 32768}) {
    with(fmt::format("narrow: warps to {} products", products),
         [&](Rules& r) { r.warp_products = products; });
  }
  for (const Index rows : {64, 1024}) {
    with(fmt::format("narrow: warps to {} rows of B", rows), [&](Rules& r) { r.warp_rows_of_b = rows; });
  }
  for (const Index columns : {16, 32, 128, 256, 512}) {
    with(fmt::format("windows: {} columns a result", columns),
         [&](Rules& r) { r.window_columns_a_result = columns; });
  }
  with("counting by hashing", [](Rules& r) { r.sorts_to_count = false; });
  for (const Index columns : {32, 512}) {
    with(fmt::format("counting: bitmaps to {} columns a product", columns),
         [&](Rules& r) { r.count_columns_a_product = columns; });
  }
  with("counting: warps' tables of 1024 slots", [](Rules& r) { r.count_warp_slots = 1024; });
  with("counting: warps' tables of 512 slots", [](Rules& r) { r.count_warp_slots = 512; });
  with("counting: no blocks' tables", [](Rules& r) { r.count_block_slots = 0; });
  return all;
}

std::vector<std::string> default_matrices() {
  return {"gen:rmat:n=1062400,edge_factor=8,a=0.25",
          "gen:rmat:scale=17,edge_factor=8,a=0.57",
          "gen:rmat:scale=18,edge_factor=4,a=0.45",
          "gen:rmat:n=1138499,edges=3e6,a=0.5",
          "gen:stencil:points=5,nx=1000",
          "gen:stencil:points=27,nx=60",
          "gen:stencil:points=27,nx=100",
          "gen:banded:n=2e5,half_bandwidth=20",
          "gen:fem:nx=30",
          "gen:uniform:n=8191,nnz=784379"};
}

/// What the runs of one choice took: medians, in ms.
struct Times {
  double whole = 0;
  std::map<std::string, double> phases;
  double results = 0;
};

Times measure(const SpgemmProblem<float>& problem, const Settings& settings, int samples) {
  GpuExec exec;
  const auto plan = spgemm::make_binned(problem, exec, settings);
  plan->load(make_operands(problem, ValueKind::real, 1));
  std::vector<double> whole;
  std::map<std::string, std::vector<double>> phases;
  for (int k = -1; k < samples; ++k) {
    plan->reset();
    exec.clear_phases();
    const double seconds = exec.time([&] { plan->run(); });
    if (k < 0) continue;
    whole.push_back(seconds * 1e3);
    for (const PhaseTime& phase : exec.phases()) phases[phase.name].push_back(phase.seconds * 1e3);
  }
  Times times;
  times.whole = summarize(whole).median;
  for (const auto& [name, of_phase] : phases) times.phases[name] = summarize(of_phase).median;
  for (const Metric& metric : plan->metrics()) {
    if (metric.name == "results") times.results = metric.value;
  }
  return times;
}

void print(const std::string& name, const SpgemmProblem<float>& problem, const Times& times,
           const Times& as_it_is) {
  const double rate = times.whole > 0 ? 2e-6 * static_cast<double>(problem.products) / times.whole : 0;
  fmt::print("{:<42} {:8.3f} {:7.1f} {:6.2f}x |", name, times.whole, rate,
             times.whole > 0 ? as_it_is.whole / times.whole : 0);
  for (const auto& [phase, time] : times.phases) fmt::print(" {} {:.3f}", phase, time);
  fmt::print("\n");
  std::fflush(stdout);
  if (times.results != as_it_is.results)
    fail("{}: {} results, not {}", name, times.results, as_it_is.results);
}

void study(const std::string& name, int samples, const std::regex& filter) {
  auto a = std::make_shared<const Csr<float>>(bench::matrix_named<float>(name));
  const auto problem = make_spgemm_problem(name, a, a);
  Times as_it_is;
  for (const Choice& choice : choices()) {
    const bool first = choice.name == choices().front().name;
    if (!first && !std::regex_search(choice.name, filter)) continue;
    const Times times = measure(problem, choice.settings, samples);
    if (first) {
      as_it_is = times;
      fmt::print("\n{}: {} products, {} results\n{:<42} {:>8} {:>7} {:>7} | phases, ms\n", name,
                 problem.products, times.results, "", "ms", "GFLOP/s", "speed");
    }
    print(choice.name, problem, times, as_it_is);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The choices of step 8's rules, timed");
  std::vector<std::string> matrices;
  int samples = 7;
  std::string filter = ".";
  app.add_option("MATRIX", matrices, "Matrix Market files or gen:SPEC");
  app.add_option("--samples", samples, "Runs of each choice that are timed")->check(CLI::Range(1, 1000));
  app.add_option("--filter", filter, "Only choices whose name matches (and the rules as they are)");
  CLI11_PARSE(app, argc, argv);
  return stages::bench::exit_code_of("spgemm_forms", [&] {
    if (const std::string reason = device_problem(); !reason.empty()) fail("no kernel can run: {}", reason);
    if (matrices.empty()) matrices = default_matrices();
    for (const std::string& matrix : matrices) study(matrix, samples, std::regex(filter));
    return 0;
  });
}
