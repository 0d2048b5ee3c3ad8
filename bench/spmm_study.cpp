// The program `spmm_study`: what the numbers of `balanced` are worth, of `whole_rows` where no row is very
// long, and of `dense_tiles` where tiles are not all but empty, and on request other entries and the libraries
// beside them. Each matrix is made and copied to the GPU once, B once, and then cut and multiplied in every
// way (a form of the latter two has its own copies while it is timed); `stages run` copies both for each entry.
//
//   spmm_study                                        the thirteen twins at N = 32 and 256
//   spmm_study --twin am --twin ddi --n-cols 64 --entries vendor/cusparse --json study.json
//
// Every result is checked against a sum in double precision, on a sample of rows with the longest and the
// first and last among it; C is poisoned before. Times are medians of three samples of half a millisecond or
// more, warm. The rules' choice is timed again after each eight ways, because a GPU gets faster and slower,
// and in the end five times more, beside the three fastest (bench/bench.hpp). Tables go to stdout: a line a
// variant, a column a matrix, microseconds; the last column is the geometric mean of (best of --entries /
// variant). After the tables: what columns cost that make no multiple of 32, if multiples next to them are
// among --n-cols. The exit code is 1 if a result was wrong.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <regex>

#include "07_spmm/fast/adaptive.hpp"
#include "07_spmm/fast/balanced.hpp"
#include "07_spmm/stage.hpp"
#include "07_spmm/tiles.hpp"
#include "bench/bench.hpp"
#include "common/gpu/tensor.hpp"
#include "common/harness/clock.hpp"
#include "common/harness/operands.hpp"
#include "common/matrix/random.hpp"
#include "common/vendor/vendor.hpp"

namespace stages {
namespace {

using spmm::BalancedMatrix;
using spmm::Granularity;
using spmm::Packing;

struct Variant {
  std::string name;
  Granularity granularity = {};
  std::function<void(Registry&)> add = {};  ///< the entry that it is, if it is not balanced
};

Variant variant(Index strip, Index lanes, Index loads, Index share, Index bands = 1, Index block = 128) {
  const std::string blocks = block == 128 ? "" : fmt::format(" block {}", block);
  return {fmt::format("strip {:3} lanes {:2} loads {} share {:3} bands {}{}", strip, lanes, loads, share,
                      bands, blocks),
          {.share = share,
           .strip = strip,
           .lanes = lanes,
           .loads = loads,
           .bands = bands,
           .block = block,
           .packing = Packing::never}};
}

constexpr const char* kRulesChoice = "the rules' choice";

Variant tiles(const std::string& name, spmm::TileForm form = {}) {
  return {.name = name, .add = [=](Registry& registry) { spmm::add_dense_tiles(registry, name, form); }};
}

Variant whole_rows(const std::string& name, spmm::RowForm form = {}) {
  return {.name = name, .add = [=](Registry& registry) { spmm::add_whole_rows(registry, name, form); }};
}

/// Every form of whole_rows, and what it takes by rule.
std::vector<Variant> whole_rows_forms(Index n_cols) {
  using spmm::RowOrder;
  std::vector<Variant> out = {whole_rows("whole_rows")};
  for (const Index lanes : {8, 16}) {
    if (lanes == 16 && n_cols <= 32) break;
    const std::string on = n_cols <= 32 ? "" : fmt::format(" on {} lanes", lanes);
    const auto add = [&](const std::string& how, RowOrder order, Index nonzeros) {
      out.push_back(
          whole_rows("whole_rows " + how + on, {.order = order, .nonzeros = nonzeros, .lanes = lanes}));
    };
    add("as they lie", RowOrder::as_they_lie, 0);
    for (const Index nonzeros : {8, 16, 32, 64, 128})
      add(fmt::format("by length {:3}", nonzeros), RowOrder::by_length, nonzeros);
  }
  return out;
}

/// Every form of dense_tiles, and what it takes by rule.
void add_tiles(std::vector<Variant>& out) {
  out.push_back(tiles("dense_tiles"));
  for (const Index warps : {4, 8, 16}) {
    for (const Index ahead : {1, 2, 4}) {
      out.push_back(tiles(fmt::format("dense_tiles warps {:2} ahead {}", warps, ahead),
                          {.warps = warps, .ahead = ahead}));
    }
  }
}

/// What the rules choose, and, where rows of B begin anywhere, what comes of packing B or not, all else by
/// rule.
std::vector<Variant> by_rules(Index n_cols) {
  std::vector<Variant> out = {{kRulesChoice, {}}};
  if (n_cols <= 16 || n_cols % 32 == 0) return out;
  out.push_back({"B as it lies", {.packing = Packing::never}});
  out.push_back({"B packed", {.packing = Packing::always}});
  return out;
}

/// How to cut rows, all else by rule: shares of every size; boundaries that move to beginnings of rows as by
/// rule, or as far as it takes to cut no row that is no longer than a share, or four.
void add_cuts(std::vector<Variant>& out) {
  for (const Index share : {8, 16, 32, 64, 128, 256}) {
    for (const Index slack : {Index{0}, share, 4 * share}) {
      const std::string moves = slack == 0 ? "" : fmt::format(" slack {:3}", slack);
      out.push_back({fmt::format("share {:3}{}", share, moves), {.share = share, .slack = slack}});
    }
  }
}

/// What is worth trying where rows of B begin anywhere.
std::vector<Variant> unaligned_variants(Index n_cols) {
  std::vector<Variant> out = by_rules(n_cols);
  add_cuts(out);
  const auto add = [&](Index strip, Index lanes, Index share) {
    out.push_back(variant(strip, lanes, 4, share));
  };
  for (const Index share : {64, 128, 256}) {
    for (const Index lanes : {8, 32}) add(32, lanes, share);
    if (n_cols <= 32) continue;
    for (const Index lanes : {16, 32}) add(64, lanes, share);
    if (n_cols > 64) add(96, 32, share);
  }
  return out;
}

/// What is worth trying for so many columns where rows of B may be aligned, the rules' own choice first.
std::vector<Variant> all_variants(Index n_cols) {
  if (n_cols % 4 != 0) return unaligned_variants(n_cols);
  std::vector<Variant> out = by_rules(n_cols);
  add_cuts(out);
  const auto add = [&](Index strip, Index lanes) {
    for (const Index loads : {4, 8}) {
      for (const Index share : {32, 64, 128, 256, 512}) out.push_back(variant(strip, lanes, loads, share));
      for (const Index share : {64, 128, 256}) {
        for (const Index bands : {10, 20}) out.push_back(variant(strip, lanes, loads, share, bands));
      }
    }
    for (const Index bands : {1, 20}) out.push_back(variant(strip, lanes, 4, 128, bands, 1024));
  };
  for (const Index share : {16, 32, 64, 128, 256, 512}) {
    if (n_cols > 16) break;
    const Index strip = n_cols <= 8 ? 8 : 16;
    out.push_back(variant(strip, strip, 8, share));
    out.push_back(variant(strip, 4, 4, share));
  }
  add(32, 8);
  out.push_back(variant(32, 8, 2, 64));
  if (n_cols <= 32) return out;
  add(64, 16);
  for (const Index share : {128, 256}) out.push_back(variant(64, 8, 8, share));
  if (n_cols <= 64) return out;
  for (const Index loads : {4, 8}) {
    for (const Index bands : {1, 20}) out.push_back(variant(128, 16, loads, 128, bands));
  }
  return out;
}

/// Those of them whose names match, and the rules' own choice. dense_tiles is among them where tiles are not
/// all but empty, whole_rows where no row is very long, both where plans for each of their forms find room.
std::vector<Variant> variants_for(const SpmmProblem<float>& problem, const spmm::Shape& shape,
                                  const std::regex& wanted) {
  constexpr double kHardlyFilled = 0.1;
  constexpr Offset kMostNonzeros = 8'000'000, kLongestRow = 8192;
  std::vector<Variant> out = all_variants(problem.n_cols);
  const spmm::TileSample sample = spmm::sample_tiles(*problem.a);
  const spmm::Form form = spmm::form_for<float>(shape, [&] { return sample; });
  if (form == spmm::Form::dense_tiles) out.front() = tiles(kRulesChoice);
  if (form == spmm::Form::whole_rows) out.front() = whole_rows(kRulesChoice);
  if (has_tf32() && shape.nnz <= kMostNonzeros && sample.filled >= kHardlyFilled) add_tiles(out);
  if (shape.nnz <= kMostNonzeros && shape.longest <= kLongestRow) {
    const std::vector<Variant> rows = whole_rows_forms(problem.n_cols);
    out.insert(out.begin() + 1, rows.begin(), rows.end());
  }
  // What comes late may find no time left: the other entries come first, but for that which the rules take.
  if (form != spmm::Form::balanced) {
    const std::string taken = form == spmm::Form::whole_rows ? "whole_rows" : "dense_tiles";
    std::erase_if(out, [&](const Variant& v) { return v.name == taken; });
    out.insert(out.begin() + 1, {.name = "balanced"});
  }
  std::erase_if(
      out, [&](const Variant& v) { return v.name != kRulesChoice && !std::regex_search(v.name, wanted); });
  return out;
}

/// The values of B: a block of random ones again and again, so that neither host nor check need B itself.
class Pattern {
 public:
  Pattern() : values_(kSize) {
    random::Stream stream(random::key(1, random::Purpose::values), 0);
    for (float& v : values_) v = static_cast<float>(static_cast<double>(stream.next() >> 40U) * 0x1p-23 - 1);
  }
  float at(Offset place) const { return values_[static_cast<std::size_t>(place % kSize)]; }

  void fill(DeviceArray<float>& array) const {
    for (std::size_t done = 0; done < array.size(); done += kSize) {
      const std::size_t count = std::min<std::size_t>(kSize, array.size() - done);
      STAGES_CUDA(
          cudaMemcpy(array.data() + done, values_.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    }
    STAGES_CUDA(cudaStreamSynchronize(nullptr));
  }

 private:
  static constexpr Offset kSize = 4'194'301;  ///< a prime, so that equal rows of B are far apart
  std::vector<float> values_;
};

/// Rows of C that are looked at, and what they must be.
class Reference {
 public:
  Reference(const Csr<float>& a, const Pattern& b, Index n_cols) : n_cols_(n_cols) {
    constexpr Index kRows = 200;
    for (Index k = 0; k < std::min(kRows, a.rows); ++k) {
      rows_.push_back(
          static_cast<Index>(Offset{k} * (a.rows - 1) / std::max(1, std::min(kRows, a.rows) - 1)));
    }
    Index longest = 0;
    for (Index i = 0; i < a.rows; ++i) longest = a.row_nnz(i) > a.row_nnz(longest) ? i : longest;
    if (a.rows > 0) rows_.push_back(longest);
    for (const Index row : rows_) add(a, b, row);
    got_ = PinnedArray<float>(sums_.size());
  }

  /// Empty, or what is wrong with C, which lies by rows without gaps and is what `stream` makes.
  std::string objection(const DeviceArray<float>& c, cudaStream_t stream) {
    const auto n = static_cast<std::size_t>(n_cols_);
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      STAGES_CUDA(cudaMemcpyAsync(got_.data() + k * n, c.data() + Offset{rows_[k]} * n_cols_,
                                  n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    }
    STAGES_CUDA(cudaStreamSynchronize(stream));
    for (std::size_t k = 0; k < sums_.size(); ++k) {
      const double got = got_.data()[k];
      if (std::abs(got - sums_[k]) <= bounds_[k]) continue;
      return fmt::format("C({}, {}) is {}, expected {}", rows_[k / n], k % n, got, sums_[k]);
    }
    return {};
  }

 private:
  void add(const Csr<float>& a, const Pattern& b, Index row) {
    for (Index j = 0; j < n_cols_; ++j) {
      double sum = 0, size = 0;
      const auto i = static_cast<std::size_t>(row);
      for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
        const auto k = static_cast<std::size_t>(p);
        const double product = double{a.values[k]} * double{b.at(Offset{a.col_idx[k]} * n_cols_ + j)};
        sum += product;
        size += std::abs(product);
      }
      sums_.push_back(sum);
      const auto n = static_cast<double>(a.row_nnz(row));
      bounds_.push_back(2 * n * double{std::numeric_limits<float>::epsilon()} * size);
    }
  }

  Index n_cols_;
  std::vector<Index> rows_;
  std::vector<double> sums_, bounds_;
  PinnedArray<float> got_;
};

/// Seconds of `work`, by samples of half a millisecond or more; 0 on the executor.
std::vector<double> sampled(GpuExec& exec, const std::function<void()>& work) {
  constexpr int kSamples = 3;
  exec.time(work);  // warm
  const double once = exec.time(work);
  if (exec.simulated()) return {0};
  const int runs = std::clamp(static_cast<int>(0.5e-3 / once), 1, 100);
  std::vector<double> samples;
  for (int k = 0; k < kSamples; ++k) {
    samples.push_back(exec.time([&] {
      for (int r = 0; r < runs; ++r) work();
    }) / runs);
  }
  return samples;
}

double median_time(GpuExec& exec, const std::function<void()>& work) {
  return summarize(sampled(exec, work)).median;
}

/// As text; 0 is unknown.
std::string microseconds(double seconds) { return seconds > 0 ? fmt::format("{:.1f}", seconds * 1e6) : "?"; }

/// All times of a study, in the order in which names and matrices came.
struct Times {
  std::vector<std::string> names, matrices;
  std::map<std::pair<std::string, std::string>, double> seconds;
  std::map<std::string, double> best_peer;  ///< of each matrix

  void add(const std::string& name, const std::string& matrix, double time) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    if (std::find(matrices.begin(), matrices.end(), matrix) == matrices.end()) matrices.push_back(matrix);
    seconds[{name, matrix}] = time;
  }

  /// 0: unknown.
  double of(const std::string& name, const std::string& matrix) const {
    const auto found = seconds.find({name, matrix});
    return found == seconds.end() ? 0 : found->second;
  }

  double speed(const std::string& name) const {
    double sum = 0;
    int count = 0;
    for (const auto& [matrix, peer] : best_peer) {
      const double time = of(name, matrix);
      if (time <= 0) continue;
      sum += std::log(peer / time);
      ++count;
    }
    return count > 0 ? std::exp(sum / count) : 0;
  }

  void print(Index n_cols) const {
    fmt::print("\nN = {}, microseconds\n{:46}", n_cols, "");
    for (const std::string& m : matrices) fmt::print(" {:>9.9}", m);
    fmt::print(" {:>7}\n", "speed");
    for (const std::string& name : names) {
      fmt::print("{:46.46}", name);
      for (const std::string& m : matrices) {
        const auto found = seconds.find({name, m});
        fmt::print(" {:>9}", found == seconds.end() ? "" : microseconds(found->second));
      }
      fmt::print(" {:7.3f}\n", speed(name));
    }
    std::fflush(stdout);
  }
};

struct Arguments {
  std::vector<std::string> twins = {"arxiv", "collab",  "ddi",      "am",     "youtube",  "yelp",  "wikikg2",
                                    "ppa",   "protein", "citation", "reddit", "products", "amazon"};
  std::vector<std::string> matrices;
  std::vector<Index> n_cols = {32, 256};
  std::string entries, filter = ".";
  double budget = std::numeric_limits<double>::infinity();
  std::string turns, json;
};

class Study {
 public:
  explicit Study(const Arguments& arguments) : arguments_(arguments), wanted_(arguments.filter) {
    Registry all;
    spmm::add_warp_per_row(all);
    spmm::add_tensor_tiles(all);
    spmm::add_adaptive(all);
    add_vendor(all);
    if (arguments.entries.empty()) return;
    const std::regex wanted(arguments.entries);
    for (const Entry& entry : all.entries()) {
      if (entry.op == Op::spmm && entry.needs.gpu && std::regex_search(entry.name, wanted)) {
        entries_.push_back(entry);
      }
    }
  }

  /// True if all was right.
  bool run() {
    for (const std::string& twin : arguments_.twins) {
      if (twin != "none") measure(twin, "gen:twin:" + twin);
    }
    for (const std::string& spec : arguments_.matrices) measure(spec, spec);
    for (const auto& [n_cols, times] : times_) times.print(n_cols);
    if (std::any_of(times_.begin(), times_.end(), [](const auto& t) { return t.first % 32 != 0; })) {
      print_cliffs();
    }
    write_json();
    return good_;
  }

 private:
  void measure(const std::string& name, const std::string& spec) {
    const auto a = std::make_shared<const Csr<float>>(bench::matrix_named<float>(spec));
    fmt::print("{}: {} x {}, {} non-zeros; fresh {:.2f}, tiles filled {:.2f}\n", name, a->rows, a->cols,
               a->nnz(), spmm::sampled_fresh_share(*a), spmm::sample_tiles(*a).filled);
    std::fflush(stdout);
    std::vector<Reference> references;
    for (const Index n_cols : arguments_.n_cols) references.emplace_back(*a, pattern_, n_cols);
    bench::take_turn(arguments_.turns);
    for (std::size_t k = 0; k < arguments_.n_cols.size(); ++k) {
      const Index n_cols = arguments_.n_cols[k];
      measure_variants(name, a, n_cols, references[k]);
      for (const Entry& entry : entries_) measure_entry(entry, name, a, n_cols);
    }
  }

  void measure_variants(const std::string& name, const std::shared_ptr<const Csr<float>>& a, Index n_cols,
                        Reference& reference) {
    const Csr<float>& host = *a;
    const SpmmProblem<float> problem =
        make_spmm_problem(SpmmProblem<float>{.name = name, .a = a, .n_cols = n_cols});
    AnyDeviceCsr<float> any = to_device(host);
    const auto n = static_cast<std::size_t>(n_cols);
    DeviceArray<float> b(static_cast<std::size_t>(host.cols) * n), c(static_cast<std::size_t>(host.rows) * n);
    pattern_.fill(b);
    const spmm::Product<float> product{.b = {b.data(), n_cols}, .c = {c.data(), n_cols}, .n_cols = n_cols};
    const spmm::Shape shape = spmm::shape_of(problem);
    const bench::Budget budget(arguments_.budget / static_cast<double>(arguments_.n_cols.size()));
    bench::ChoiceTimes times;
    std::map<std::string, std::unique_ptr<SpmmPlan<float>>> plans;
    // C is poisoned, made by `multiply` again and again, and looked at.
    const auto timed = [&](const Variant& v, const std::function<void()>& multiply) {
      c.fill_bytes(0xFF, exec_.stream());
      const std::vector<double> samples = sampled(exec_, multiply);
      judge(v.name, name, n_cols, reference.objection(c, exec_.stream()));
      return samples;
    };
    const auto time_of = [&](const Variant& v) {
      if (v.add) {
        auto& plan = plans[v.name];
        if (plan == nullptr) plan = plan_of(v, problem);
        auto& by_rows = dynamic_cast<spmm::RowMajorPlan<float>&>(*plan);
        return timed(v, [&] { by_rows.multiply(product); });
      }
      const Granularity g = spmm::resolve<float>(v.granularity, shape);
      BalancedMatrix<float> matrix =
          std::visit([&](auto& m) { return BalancedMatrix<float>(m, shape, g, exec_.stream()); }, any);
      const std::vector<double> samples = timed(v, [&] { matrix.multiply(product, exec_.stream()); });
      if ((v.name == kRulesChoice || v.name == "balanced") && !times.has(v.name)) {
        say_how(g, matrix, n_cols, summarize(samples).median);
      }
      return samples;
    };
    const std::vector<Variant> variants = variants_for(problem, shape, wanted_);
    int left_out = 0, since = 0;
    for (const Variant& v : variants) {
      if (v.name != kRulesChoice && budget.has_spent(bench::ChoiceTimes::kFirst)) {
        ++left_out;
        continue;
      }
      times.add(v.name, time_of(v));
      if (v.name != kRulesChoice) plans.erase(v.name);  // it has its own copies of A, B and C
      if (++since % bench::ChoiceTimes::kBetween == 0) times.add(kRulesChoice, time_of(variants.front()));
    }
    for (const Variant& v : variants) {
      if (times.has(v.name)) times_[n_cols].add(v.name, name, times.median(v.name));
    }
    time_again(variants, times, budget, time_of);
    nlohmann::ordered_json record = {{"matrix", name}, {"n_cols", n_cols}};
    record.update(times.json());
    record["left_out"] = left_out;
    choices_.push_back(record);
  }

  /// Of an entry that is not `balanced`, with its own copy of the matrix.
  std::unique_ptr<SpmmPlan<float>> plan_of(const Variant& v, const SpmmProblem<float>& problem) {
    Registry registry;
    v.add(registry);
    return registry.entries().front().on<SpmmProblem<float>>().prepare(problem, exec_);
  }

  template <class TimeOf>
  static void time_again(const std::vector<Variant>& variants, bench::ChoiceTimes& times,
                         const bench::Budget& budget, TimeOf&& time_of) {
    constexpr int kRounds = 5;
    const std::vector<std::string> names = times.to_time_again();
    for (int round = 0; round < kRounds; ++round) {
      if (round > 0 && budget.has_spent(1)) return;
      for (const std::string& again : names) {
        const auto v =
            std::find_if(variants.begin(), variants.end(), [&](const auto& x) { return x.name == again; });
        times.add_again(again, time_of(*v));
      }
    }
  }

  /// How the rules cut this matrix.
  static void say_how(const Granularity& g, const BalancedMatrix<float>& matrix, Index n_cols, double time) {
    const double cut = matrix.partition().seconds().value_or(0);
    const std::string packed =
        matrix.packed_bytes() > 0 ? fmt::format(", B packed ({:.1f} MB)", matrix.packed_bytes() / 1e6) : "";
    fmt::print("  N = {}: strips of {}{}, shares of {}, {} bands: {} us; cutting took {} us, {} slots\n",
               n_cols, g.strip, packed, g.share, g.bands, microseconds(time), microseconds(cut),
               matrix.partition().slots());
    std::fflush(stdout);
  }

  /// An entry through its plan, checked by nothing here: the battery and `stages run` do that.
  void measure_entry(const Entry& entry, const std::string& name, const std::shared_ptr<const Csr<float>>& a,
                     Index n_cols) {
    const SpmmProblem<float> wanted{.name = name, .a = a, .n_cols = n_cols};
    const SpmmProblem<float> problem = make_spmm_problem(wanted);
    const auto plan = entry.on<SpmmProblem<float>>().prepare(problem, exec_);
    plan->load(make_operands(problem, ValueKind::real, 1));
    plan->reset();
    const double time = median_time(exec_, [&] { plan->run(); });
    Times& times = times_[n_cols];
    times.add(entry.name, name, time);
    if (!entry.is_peer() || time <= 0) return;
    const auto [peer, first] = times.best_peer.emplace(name, time);
    if (!first) peer->second = std::min(peer->second, time);
  }

  /// What columns cost that make no multiple of 32: time per column over that of the next multiple and of the
  /// one below, as far as these were measured too, and by the rules' choice.
  void print_cliffs() const {
    fmt::print("\ncolumns that are no multiple of 32: time per column over that of another N\n");
    for (const auto& [n_cols, times] : times_) {
      const Index below = n_cols / 32 * 32;
      if (n_cols == below) continue;
      for (const Index other : {below + 32, below}) {
        if (times_.contains(other)) print_cliff(n_cols, times, other, times_.at(other));
      }
    }
  }

  static void print_cliff(Index n_cols, const Times& times, Index other, const Times& of_other) {
    fmt::print("{:46}", fmt::format("N = {} over {}", n_cols, other));
    for (const std::string& m : times.matrices) fmt::print(" {:>9.9}", m);
    fmt::print("\n");
    for (const Variant& v : by_rules(n_cols)) {
      fmt::print("  {:44}", v.name);
      for (const std::string& m : times.matrices) {
        const double here = times.of(v.name, m) / n_cols, there = of_other.of(kRulesChoice, m) / other;
        fmt::print(" {:>9}", there > 0 ? fmt::format("{:.2f}", here / there) : "?");
      }
      fmt::print("\n");
    }
  }

  void judge(const std::string& variant_name, const std::string& matrix, Index n_cols,
             const std::string& objection) {
    if (objection.empty()) return;
    good_ = false;
    fmt::print("WRONG: {} on {}, N = {}: {}\n", variant_name, matrix, n_cols, objection);
  }

  void write_json() const {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& [n_cols, times] : times_) {
      for (const auto& [key, seconds] : times.seconds) {
        out.push_back(
            {{"variant", key.first}, {"matrix", key.second}, {"n_cols", n_cols}, {"seconds", seconds}});
      }
    }
    bench::write_record(arguments_.json, {{"device", exec_.device()}, {"times", out}, {"choices", choices_}});
  }

  Arguments arguments_;
  std::regex wanted_;
  std::vector<Entry> entries_;
  GpuExec exec_;
  Pattern pattern_;
  std::map<Index, Times> times_;
  nlohmann::ordered_json choices_;
  bool good_ = true;
};

int run_study(int argc, char** argv) {
  CLI::App app("Times every way in which 07_spmm/balanced can cut a matrix, and its tiles on tensor cores.");
  Arguments arguments;
  app.add_option("--twin", arguments.twins, "names of gen:twin: matrices, or 'none'")->capture_default_str();
  app.add_option("-m,--matrix", arguments.matrices, "further matrices, as specs or Matrix Market files");
  app.add_option("--n-cols", arguments.n_cols, "columns of B")->delimiter(',')->capture_default_str();
  app.add_option("--entries", arguments.entries,
                 "entries to time too, as a regular expression: "
                 "vendor/, warp_per_row, tensor_tiles, adaptive");
  app.add_option("--filter", arguments.filter, "ways to time beside the rules', as a regular expression")
      ->capture_default_str();
  app.add_option("--budget", arguments.budget, "seconds for a matrix; then further ways are left out");
  app.add_option("--turns", arguments.turns,
                 "a file: programs that name the same one use the GPU one after the other");
  app.add_option("--json", arguments.json, "a file for all times");
  CLI11_PARSE(app, argc, argv);
  if (const std::string problem = device_problem(); !problem.empty()) {
    fmt::print(stderr, "spmm_study: {}\n", problem);
    return 77;
  }
  return Study(arguments).run() ? 0 : 1;
}

}  // namespace
}  // namespace stages

int main(int argc, char** argv) {
  return stages::bench::exit_code_of("spmm_study", [&] { return stages::run_study(argc, argv); });
}
