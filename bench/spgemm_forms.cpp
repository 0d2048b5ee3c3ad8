// The choices of step 8's rules, timed: which form should have which rows (08_spgemm_multigpu/fast/rules.hpp).
//
// For each matrix (C = A A, A A^T or A^T A of a rectangle, or a built-in pair; single precision) a table: the
// rules as they are, once with the forms one after the other, each with its own time, and then with one
// choice changed at a time: a form dropped, if the matrix has rows for it, or another number. A row shows the
// time of a whole product and of its phases, medians of some runs after one that warms up; and by how much
// the product is slower or faster than with the rules as they are. These are timed again after each eight
// choices, because a GPU gets faster and slower, and in the end once more, beside the three fastest. Nothing
// is checked here but the number of results, which must be the same for all: the tests check the rest.
//
//   spgemm_forms [--samples N] [--filter REGEX] [--budget SECONDS] [--turns FILE] [--json FILE] [MATRIX ...]
//
// A MATRIX is a Matrix Market file or gen:SPEC; without any, the set of tools/verify-gpu.sh. On the executor
// the times are 0: a GPU is what this is for. tools/rules-cost.sh runs this on lists of matrices.

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

/// `drops`: phases of forms, "symbolic FORM" or "numeric FORM", whose rows another form takes; where a matrix
/// has none of them, the choice is the rules' own.
struct Choice {
  std::string name;
  Settings settings;
  std::vector<std::string> drops;
};

class Choices {
 public:
  template <class Change>
  void with(const std::string& name, Change change) {
    Rules rules;
    change(rules);
    all.push_back({name, {.rules = rules}, {}});
  }

  /// Without some forms, in one pass (symbolic: counting; numeric: multiplying) or in both.
  template <class Change>
  void without(const std::vector<std::string>& forms, const std::string& pass, Change change) {
    with(fmt::format("without {}{}", fmt::join(forms, " and "),
                     pass.empty()         ? ""
                     : pass == "symbolic" ? " when counting"
                                          : " when multiplying"),
         change);
    for (const std::string& form : forms) {
      for (const char* const each : {"symbolic", "numeric"}) {
        if (pass.empty() || pass == each) all.back().drops.push_back(fmt::format("{} {}", each, form));
      }
    }
  }

  std::vector<Choice> all;
};

void add_dropped_forms(Choices& out) {
  constexpr Index kAll = std::numeric_limits<Index>::max();
  out.without({"threads_32"}, "", [](Rules& r) { r.most_by_threads = 16; });
  out.without({"threads_32", "threads_16"}, "", [](Rules& r) { r.most_by_threads = 0; });
  out.without({"sorted_32", "sorted_16"}, "", [](Rules& r) { r.thread_rows_a_sm = 0; });
  out.without({"sorted_256"}, "", [](Rules& r) { r.most_sorted = 128; });
  out.without({"sorted_256", "sorted_128"}, "", [](Rules& r) { r.most_sorted = 64; });
  out.without({"sorted_256", "sorted_128", "sorted_64"}, "", [](Rules& r) { r.most_sorted = 32; });
  out.without({"sorted_256", "sorted_128", "sorted_64"}, "symbolic",
              [](Rules& r) { r.sorts_to_count = false; });
  out.without({"copied_short"}, "", [](Rules& r) { r.most_copied_short = 0; });
  out.without({"copied_long"}, "", [](Rules& r) { r.most_copied_short = kAll; });
  out.without({"narrow"}, "", [](Rules& r) { r.count_narrow_columns = r.narrow_columns = 0; });
  out.without({"narrow"}, "symbolic", [](Rules& r) { r.count_narrow_columns = 0; });
  out.without({"narrow"}, "numeric", [](Rules& r) { r.narrow_columns = 0; });
  out.without({"small_tables"}, "", [](Rules& r) { r.warp_small_slots = 0; });
  out.without({"warp_tables"}, "numeric", [](Rules& r) { r.warp_slots = 0; });
  out.without({"warp_tables"}, "symbolic", [](Rules& r) { r.count_warp_slots = 0; });
  out.without({"block_tables"}, "numeric", [](Rules& r) { r.block_slots = 0; });
  out.without({"block_tables"}, "symbolic", [](Rules& r) { r.count_block_slots = 0; });
  out.without({"large_tables"}, "", [](Rules& r) { r.large_slots = 0; });
  out.without({"small_windows"}, "", [](Rules& r) { r.window_small_columns = 0; });
  out.without({"ranked"}, "", [](Rules& r) { r.ranked_bytes = r.ranked_small_bytes; });
  out.without({"small_ranked"}, "", [](Rules& r) { r.ranked_small_bytes = 0; });
  out.without({"ranked", "small_ranked", "ranked_spans"}, "", [](Rules& r) { r.ranked_bytes = 0; });
  out.without({"ranked_spans"}, "", [](Rules& r) { r.span_columns_a_result = kAll; });
}

constexpr const char* kRulesChoice = "as it is";

std::vector<Choice> choices() {
  Choices out;
  const auto with = [&](const std::string& name, auto change) { out.with(name, change); };
  with(kRulesChoice, [](Rules&) {});
  add_dropped_forms(out);
  for (const Index columns : {8, 64, 128}) {
    with(fmt::format("narrow: {} columns a product", columns),
         [&](Rules& r) { r.narrow_columns_a_product = columns; });
  }
  with("tables: warps to 2048 slots", [](Rules& r) { r.warp_slots = 2048; });
  with("tables: warps to 4096 slots", [](Rules& r) { r.warp_slots = 4096; });
  for (const Index warps : {2, 4, 16}) {
    with(fmt::format("tables: blocks of {} warps", warps), [&](Rules& r) { r.block_warps = warps; });
  }
  with("large tables: blocks of 8 warps", [](Rules& r) { r.large_warps = 8; });
  for (const Index columns : {768, 3072}) {
    with(fmt::format("windows of {}", columns), [&](Rules& r) { r.window_columns = columns; });
  }
  for (const Index bytes : {16, 56}) {
    with(fmt::format("small ranks in {} KB", bytes), [&](Rules& r) { r.ranked_small_bytes = bytes * 1024; });
  }
  for (const Index columns : {1, 8}) {
    with(fmt::format("spans: {} columns a result", columns),
         [&](Rules& r) { r.span_columns_a_result = columns; });
  }
  with("spans: as wide as fits", [](Rules& r) { r.span_blocks_an_sm = 0; });
  with("words of rows of any length", [](Rules& r) { r.most_word_row = std::numeric_limits<Index>::max(); });
  with("recorded with up to 16 M results", [](Rules& r) { r.recorded_results = 1 << 24; });
  with("ranks in 74 KB", [](Rules& r) { r.ranked_bytes = 74 * 1024; });
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
  for (const Index columns : {32, 512}) {
    with(fmt::format("counting: bitmaps to {} columns a product", columns),
         [&](Rules& r) { r.count_columns_a_product = columns; });
  }
  for (const Index products : {32, 64, 256}) {
    with(fmt::format("narrow: rows of more than {} products", products),
         [&](Rules& r) { r.most_sorted_narrow = products; });
  }
  with("no exchange", [](Rules& r) { r.exchanged_products = 0; });
  for (const Index entries : {128, 1024}) {
    with(fmt::format("exchange: more than {} entries", entries),
         [&](Rules& r) { r.exchanged_entries = entries; });
  }
  for (const Index products : {8, 32}) {
    with(fmt::format("exchange: up to {} an entry", products),
         [&](Rules& r) { r.exchanged_products = products; });
  }
  with("no words", [](Rules& r) { r.entries_a_word = 33; });
  for (const Index entries : {3, 4, 8}) {
    with(fmt::format("words of {} columns or more", entries), [&](Rules& r) { r.entries_a_word = entries; });
  }
  with("words of small products", [](Rules& r) { r.word_products = 0; });
  with("words of each B", [](Rules& r) { r.word_products = r.products_a_word_entry = 0; });
  with("not recorded", [](Rules& r) { r.recorded_rows_a_sm = 0; });
  with("recorded in 2 blocks an SM", [](Rules& r) { r.recorded_blocks_a_sm = 2; });
  with("recorded in 8 blocks an SM", [](Rules& r) { r.recorded_blocks_a_sm = 8; });
  with("no row split", [](Rules& r) { r.long_row = std::numeric_limits<Index>::max(); });
  for (const Index entries : {4096, 8192, 65536}) {
    with(fmt::format("split: rows of more than {} entries", entries),
         [&](Rules& r) { r.long_row = entries; });
  }
  for (const Index entries : {32, 128, 256}) {
    with(fmt::format("split: sections of {} entries", entries),
         [&](Rules& r) { r.section_entries = entries; });
  }
  with("counting: warps' tables of 1024 slots", [](Rules& r) { r.count_warp_slots = 1024; });
  with("counting: warps' tables of 512 slots", [](Rules& r) { r.count_warp_slots = 512; });
  return out.all;
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

/// What the runs of one choice took.
struct Times {
  std::vector<double> whole;             ///< seconds
  std::map<std::string, double> phases;  ///< medians, seconds
  double results = 0;

  double median() const { return summarize(whole).median; }
};

struct Arguments {
  std::vector<std::string> matrices;
  int samples = 7;
  std::string filter = ".";
  double budget = std::numeric_limits<double>::infinity();
  std::string turns, json;
};

Times measure(const SpgemmProblem<float>& problem, const Settings& settings, int samples) {
  constexpr double kLong = 3e-3;  // seconds of a run of which three samples are enough
  GpuExec exec;
  const auto plan = spgemm::make_binned(problem, exec, settings);
  plan->load(make_operands(problem, ValueKind::real, 1));
  Times times;
  std::map<std::string, std::vector<double>> phases;
  for (int k = -1; k < samples; ++k) {
    plan->reset();
    exec.clear_phases();
    const double seconds = exec.time([&] { plan->run(); });
    if (k < 0) continue;
    times.whole.push_back(seconds);
    for (const PhaseTime& phase : exec.phases()) phases[phase.name].push_back(phase.seconds);
    if (k >= 2 && seconds > kLong) break;
  }
  for (const auto& [name, of_phase] : phases) times.phases[name] = summarize(of_phase).median;
  for (const Metric& metric : plan->metrics()) {
    if (metric.name == "results") times.results = metric.value;
  }
  return times;
}

SpgemmProblem<float> product_of(const std::string& name) {
  const auto [a, b] = bench::factors_named<float>(name);
  return make_spgemm_problem(name, a, b);
}

/// All choices on one matrix.
class Study {
 public:
  Study(const std::string& name, const Arguments& arguments)
      : name_(name), arguments_(arguments), filter_(arguments.filter), problem_(product_of(name)) {}

  nlohmann::ordered_json run() {
    bench::take_turn(arguments_.turns);
    const bench::Budget budget(arguments_.budget);
    const std::vector<Choice> all = choices();
    const Settings as_it_is = all.front().settings;
    first_ = measure(problem_, as_it_is, arguments_.samples);
    fmt::print("\n{}: {} products, {} results\n{:<58} {:>9} {:>7} {:>7} | phases, ms\n", name_,
               problem_.products, first_.results, "", "ms", "GFLOP/s", "speed");
    note(kRulesChoice, first_);
    const Times in_turn = measure(problem_, {.one_by_one = true}, arguments_.samples);
    print("one form after the other", in_turn);
    int left_out = 0, since = 0;
    for (const Choice& choice : all) {
      if (choice.name == kRulesChoice || !std::regex_search(choice.name, filter_)) continue;
      if (!changes_anything(choice, in_turn)) continue;
      if (budget.has_spent(bench::ChoiceTimes::kFirst)) {
        ++left_out;
        continue;
      }
      note(choice.name, measure(problem_, choice.settings, arguments_.samples));
      if (++since % bench::ChoiceTimes::kBetween == 0) {
        note(kRulesChoice, measure(problem_, as_it_is, arguments_.samples));
      }
    }
    time_again(all, budget);
    nlohmann::ordered_json out = {{"matrix", name_}};
    out.update(times_.json());
    out["left_out"] = left_out;
    return out;
  }

 private:
  static bool changes_anything(const Choice& choice, const Times& in_turn) {
    return choice.drops.empty() ||
           std::any_of(choice.drops.begin(), choice.drops.end(),
                       [&](const auto& form) { return in_turn.phases.contains(form); });
  }

  void note(const std::string& name, const Times& times) {
    print(name, times);
    times_.add(name, times.whole);
  }

  void time_again(const std::vector<Choice>& all, const bench::Budget& budget) {
    constexpr int kRounds = 3;
    const std::vector<std::string> names = times_.to_time_again();
    for (int round = 0; round < kRounds; ++round) {
      if (round > 0 && budget.has_spent(1)) return;
      for (const std::string& name : names) {
        const auto choice =
            std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.name == name; });
        const Times times = measure(problem_, choice->settings, arguments_.samples);
        print(name + ", again", times);
        times_.add_again(name, times.whole);
      }
    }
  }

  void print(const std::string& name, const Times& times) {
    const double took = times.median();
    fmt::print("{:<58} {:9.4f} {:7.1f} {:6.2f}x |", name, took * 1e3,
               took > 0 ? 2e-9 * static_cast<double>(problem_.products) / took : 0,
               took > 0 ? first_.median() / took : 0);
    for (const auto& [phase, time] : times.phases) fmt::print(" {} {:.4f}", phase, time * 1e3);
    fmt::print("\n");
    std::fflush(stdout);
    if (times.results != first_.results) fail("{}: {} results, not {}", name, times.results, first_.results);
  }

  std::string name_;
  const Arguments& arguments_;
  std::regex filter_;
  SpgemmProblem<float> problem_;
  Times first_;
  bench::ChoiceTimes times_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The choices of step 8's rules, timed");
  Arguments arguments;
  app.add_option("MATRIX", arguments.matrices, "Matrix Market files or gen:SPEC");
  app.add_option("--samples", arguments.samples, "Runs of each choice that are timed; three of long ones")
      ->check(CLI::Range(1, 1000));
  app.add_option("--filter", arguments.filter, "Only choices whose name matches (and the rules as they are)");
  app.add_option("--budget", arguments.budget, "Seconds for a matrix; then further choices are left out");
  app.add_option("--turns", arguments.turns,
                 "A file: programs that name the same one use the GPU one after the other");
  app.add_option("--json", arguments.json, "A file for all times");
  CLI11_PARSE(app, argc, argv);
  return stages::bench::exit_code_of("spgemm_forms", [&] {
    if (arguments.matrices.empty()) arguments.matrices = default_matrices();
    nlohmann::ordered_json all;
    for (const std::string& matrix : arguments.matrices) {
      Study study(matrix, arguments);
      if (const std::string reason = device_problem(); !reason.empty()) fail("no kernel can run: {}", reason);
      all.push_back(study.run());
    }
    stages::bench::write_record(arguments.json, {{"device", GpuExec().device()}, {"choices", all}});
    return 0;
  });
}
