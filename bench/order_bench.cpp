// The program `order_bench`: what reordering the rows of a matrix (07_spmm/order/row_order.hpp) gains, counted
// without a GPU, and what it costs.
//
//   order_bench                                                communities in both orders, R-MAT
//   order_bench -m gen:twin:arxiv -m wave.mtx --window 512 --json order.json
//
// For each matrix and window, the share of the non-zeros that ask for a row of B which their window has not
// asked for before: with the rows as they come, and in the order found. The seconds are the CPU's
// for finding the order, on one thread: what else the machine does meanwhile is not in them.

#include <CLI/CLI.hpp>
#include <ctime>
#include <numeric>

#include "07_spmm/order/row_order.hpp"
#include "bench/bench.hpp"
#include "common/harness/build_info.hpp"
#include "common/harness/machine.hpp"

namespace stages {
namespace {

struct Arguments {
  std::vector<std::string> matrices = {"gen:communities:n=1e5,blocks=500,order=planted",
                                       "gen:communities:n=1e5,blocks=500,order=shuffled",
                                       "gen:communities:n=1e6,blocks=2000,edge_factor=16,order=planted",
                                       "gen:communities:n=1e6,blocks=2000,edge_factor=16,order=shuffled",
                                       "gen:rmat:scale=17",
                                       "gen:twin:arxiv"};
  std::vector<Offset> windows = {4096, Offset{1} << 20};
  std::string json;
};

/// The line of one matrix, which is printed, too.
nlohmann::json measure(const std::string& name, const std::vector<Offset>& windows) {
  const Csr<float> a = bench::matrix_named<float>(name);
  std::vector<Index> as_it_comes(static_cast<std::size_t>(a.rows));
  std::iota(as_it_comes.begin(), as_it_comes.end(), Index{0});
  const std::clock_t start = std::clock();
  const std::vector<Index> order = spmm::community_order(a.cols, a.row_ptr, a.col_idx);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;

  fmt::print("{}: {} non-zeros, order found in {:.3g} s\n", name, a.nnz(), seconds);
  nlohmann::json fresh = nlohmann::json::array();
  for (const Offset window : windows) {
    const double before = spmm::fresh_share(a.cols, a.row_ptr, a.col_idx, as_it_comes, window);
    const double after = spmm::fresh_share(a.cols, a.row_ptr, a.col_idx, order, window);
    fmt::print("  of {:>8} in turn, first to ask for their row of B: {:5.1f} %, reordered {:5.1f} %\n",
               window, 100 * before, 100 * after);
    fresh.push_back({{"window", window}, {"before", before}, {"after", after}});
  }
  return {{"matrix", name}, {"nnz", a.nnz()}, {"seconds", seconds}, {"fresh", fresh}};
}

int run_bench(int argc, char** argv) {
  CLI::App app("What reordering the rows of a matrix gains, counted without a GPU, and what it costs.");
  Arguments arguments;
  app.add_option("-m,--matrix", arguments.matrices, "matrices, as specs or Matrix Market files")
      ->capture_default_str();
  app.add_option("--window", arguments.windows, "non-zeros in a window")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--json", arguments.json, "a file for all figures");
  CLI11_PARSE(app, argc, argv);
  nlohmann::json orders = nlohmann::json::array();
  for (const std::string& name : arguments.matrices) orders.push_back(measure(name, arguments.windows));
  bench::write_record(
      arguments.json,
      {{"cpu", cpu_name()}, {"source_digest", build_info().source_digest}, {"orders", orders}});
  return 0;
}

}  // namespace
}  // namespace stages

int main(int argc, char** argv) {
  return stages::bench::exit_code_of("order_bench", [&] { return stages::run_bench(argc, argv); });
}
