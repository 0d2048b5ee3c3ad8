// The program `spgemm_tricks`: what each trick of common/kernels/spgemm_rows.hpp is worth, one thread. It
// leaves out one after the other, and shows how much longer the product then takes.
//
//   spgemm_tricks                                    eight generated matrices, squared
//   spgemm_tricks -m wave.mtx.gz --seconds 2 --json tricks.json
//
// C = A A, of a rectangular A C = A A^T. Every form must give the same C, to the last bit. Forms are timed in
// turns, and the medians are shown.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/bench.hpp"
#include "common/harness/build_info.hpp"
#include "common/harness/clock.hpp"
#include "common/harness/machine.hpp"
#include "common/kernels/spgemm_rows.hpp"
#include "common/matrix/convert.hpp"

namespace stages {
namespace {

using kernels::Tricks;

struct Arguments {
  std::vector<std::string> matrices = {"data:road",
                                       "data:fem",
                                       "data:web",
                                       "data:circuit",
                                       "gen:fixed:n=1000,zeros=0.9",
                                       "gen:uniform:n=2e5,per_row=4",
                                       "gen:uniform:n=2e5,per_row=3",
                                       "gen:rmat:scale=15,edge_factor=8"};
  double seconds = 4;
  std::string json;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Counts nnz(C) as 6_gustavson_dense.cpp of step 1 does, which the one pass saves.
Offset count(const CsrView<double>& a, const CsrView<double>& b) {
  std::vector<bitmap::Word> bits(bitmap::words(b.cols), 0);
  Offset counted = 0;
  for (Index i = 0; i < a.rows; ++i) {
    std::size_t begin = bits.size(), end = 0;
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
      const Offset first = b.row_ptr[a.col_idx[p]], last = b.row_ptr[a.col_idx[p] + 1];
      if (first == last) continue;
      begin = std::min(begin, bitmap::word_of(b.col_idx[first]));
      end = std::max(end, bitmap::word_of(b.col_idx[last - 1]) + 1);
      for (Offset q = first; q < last; ++q)
        bits[bitmap::word_of(b.col_idx[q])] |= bitmap::bit_of(b.col_idx[q]);
    }
    for (std::size_t w = begin; w < end; ++w) {
      counted += std::popcount(bits[w]);
      bits[w] = 0;
    }
  }
  return counted;
}

using Multiply = std::function<void(const CsrView<double>&, const CsrView<double>&, Csr<double>&)>;

/// The form with these tricks. What it holds for B is made once, as a plan does.
template <Tricks kTricks>
Multiply with(Index columns) {
  return [rows = std::make_shared<kernels::SpgemmRows<double, kTricks>>(columns)](
             const auto& a, const auto& b, Csr<double>& c) {
    rows->reserve(a, b, c);
    rows->fill(a, b, c);
  };
}

/// A way to multiply: with everything, or without the trick that it names.
struct Form {
  std::string without;
  Multiply multiply;
};

std::vector<Form> forms(Index columns) {
  const Multiply all = with<Tricks{}>(columns);
  const Multiply counting_first = [all](const auto& a, const auto& b, Csr<double>& c) {
    const Offset counted = count(a, b);
    all(a, b, c);
    if (counted != c.nnz()) fail("counted {} non-zeros of {}", counted, c.nnz());
  };
  return {{"", all},
          {"one pass", counting_first},
          {"insertion", with<Tricks{.insertion = false}>(columns)},
          {"summary", with<Tricks{.summary = false}>(columns)},
          {"bytes", with<Tricks{.bytes = false}>(columns)},
          {"batches", with<Tricks{.batches = false}>(columns)},
          {"masks", with<Tricks{.masks = false}>(columns)},
          {"fetch", with<Tricks{.fetch = false}>(columns)},
          {"narrow pointers", with<Tricks{.narrow_pointers = false}>(columns)}};
}

bool same(const Csr<double>& one, const Csr<double>& other) {
  return std::equal(one.row_ptr.begin(), one.row_ptr.end(), other.row_ptr.begin(), other.row_ptr.end()) &&
         std::equal(one.col_idx.begin(), one.col_idx.end(), other.col_idx.begin(), other.col_idx.end()) &&
         std::equal(one.values.begin(), one.values.end(), other.values.begin(), other.values.end());
}

/// The line of one matrix, which is printed, too. At least three rounds, and as many as fit into `seconds`.
nlohmann::json measure(const std::string& name, double seconds) {
  const Csr<double> a = bench::matrix_named<double>(name);
  const Csr<double> b = a.rows == a.cols ? a : transpose(a);
  const std::vector<Form> all = forms(b.cols);
  std::vector<std::vector<double>> samples(all.size());
  Csr<double> c, expected;
  all.front().multiply(a.view(), b.view(), expected);
  const double end = now() + seconds;
  for (std::size_t round = 0; round < 4 || now() < end; ++round) {
    for (std::size_t turn = 0; turn < all.size(); ++turn) {
      const std::size_t f = (turn + round) % all.size();  // each comes first now and then
      const double start = now();
      all[f].multiply(a.view(), b.view(), c);
      if (round > 0) samples[f].push_back(now() - start);  // the first warms up, and is checked
      if (round == 0 && !same(c, expected)) fail("{}: another C without '{}'", name, all[f].without);
    }
  }
  nlohmann::json without = nlohmann::json::object();
  const double with_all = summarize(samples.front()).median;
  fmt::print("{}: {:.3g} ms\n", name, 1e3 * with_all);
  for (std::size_t f = 1; f < all.size(); ++f) {
    without[all[f].without] = summarize(samples[f]).median;
    fmt::print("  without {:16} {:5.2f} times that\n", all[f].without,
               summarize(samples[f]).median / with_all);
  }
  return {{"matrix", name},
          {"nnz", a.nnz()},
          {"rounds", samples.front().size()},
          {"seconds", with_all},
          {"without", without}};
}

std::string today() {
  const std::time_t time = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&time));
  return text;
}

int run_bench(int argc, char** argv) {
  CLI::App app("What each trick of the fast sparse product is worth, on one thread.");
  Arguments arguments;
  app.add_option("-m,--matrix", arguments.matrices, "matrices, as specs or Matrix Market files")
      ->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "time for each matrix")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--json", arguments.json, "a file for all figures");
  CLI11_PARSE(app, argc, argv);
  nlohmann::json lines = nlohmann::json::array();
  for (const std::string& name : arguments.matrices) lines.push_back(measure(name, arguments.seconds));
  bench::write_record(arguments.json, {{"cpu", cpu_name()},
                                       {"date", today()},
                                       {"source_digest", build_info().source_digest},
                                       {"tricks", lines}});
  return 0;
}

}  // namespace
}  // namespace stages

int main(int argc, char** argv) {
  return stages::bench::exit_code_of("spgemm_tricks", [&] { return stages::run_bench(argc, argv); });
}
