// The program `l2_requests`: how many requests of up to 64 bytes a sparse product asks of L2, if L1 held
// nothing. Counted without a GPU.
//
//   l2_requests --json results/cpu-2-cores/l2_requests.json gen:stencil:points=27,nx=60 wave.mtx.gz
//
// A kernel of step 8 reads a row of B for each non-zero of A: its columns, and its values. Both lie somewhere
// in arrays that begin at a line of the cache. So the row touches some segments of 64 bytes in each, and L2
// takes about as long for a whole segment as for a part of it (step 7, "How fast rows of B arrive"). The sum
// over the non-zeros of A of these segments is what is written down; single precision, so that values take
// what columns do.

#include <CLI/CLI.hpp>

#include "bench/bench.hpp"
#include "common/harness/build_info.hpp"

namespace stages {
namespace {

constexpr Offset kSegment = 64 / sizeof(float);  ///< columns, or values
static_assert(sizeof(Index) == sizeof(float));

/// The segments of one array that a stretch of it touches.
Offset segments(Offset begin, Offset end) {
  return end > begin ? (end - 1) / kSegment - begin / kSegment + 1 : 0;
}

nlohmann::ordered_json requests(const std::string& name) {
  const auto [a, b] = bench::factors_named<float>(name);
  std::vector<Offset> of_row(static_cast<std::size_t>(b->rows));
  for (std::size_t k = 0; k < of_row.size(); ++k) of_row[k] = segments(b->row_ptr[k], b->row_ptr[k + 1]);
  Offset of_columns = 0;
  for (const Index k : a->col_idx) of_columns += of_row[static_cast<std::size_t>(k)];
  const Offset products = spgemm_products(*a, *b), both = 2 * of_columns;
  fmt::print("{}: {} products, {} requests\n", name, products, both);
  return {{"matrix", name}, {"nnz", a->nnz()}, {"products", products}, {"requests", both}};
}

int run(int argc, char** argv) {
  CLI::App app("Counts the requests of up to 64 bytes that a sparse product asks of L2.");
  std::vector<std::string> matrices;
  std::string json;
  app.add_option("MATRIX", matrices, "Matrix Market files, gen:SPEC or data:NAME")->required();
  app.add_option("--json", json, "A file for the counts");
  CLI11_PARSE(app, argc, argv);
  nlohmann::ordered_json all;
  for (const std::string& matrix : matrices) all.push_back(requests(matrix));
  bench::write_record(json, {{"source_digest", build_info().source_digest}, {"products", all}});
  return 0;
}

}  // namespace
}  // namespace stages

int main(int argc, char** argv) {
  return stages::bench::exit_code_of("l2_requests", [&] { return stages::run(argc, argv); });
}
