// Reads a matrix, makes another, converts both, and prints what they are. Includes all public headers of the
// library.
#include <common/matrix/builtin.hpp>
#include <common/matrix/byte_source.hpp>
#include <common/matrix/convert.hpp>
#include <common/matrix/error.hpp>
#include <common/matrix/generate.hpp>
#include <common/matrix/matrix_market.hpp>
#include <common/matrix/statistics.hpp>
#include <common/matrix/types.hpp>
#include <iostream>

int main(int argc, char** argv) {
  try {
    if (argc != 3) stages::fail("usage: {} FILE.mtx COPY.mtx.gz", argv[0]);
    const auto read = stages::read_matrix_market<double>(argv[1]);
    const auto made = stages::generate<float>("gen:fixed:n=64,zeros=0.75");
    stages::write_matrix_market(argv[2], stages::transpose(read));
    std::cout << read.rows << " x " << read.cols << ", " << read.nnz() << " non-zeros read\n"
              << made.rows << " x " << made.cols << ", " << made.nnz() << " non-zeros made\n"
              << stages::to_dense(made).rows << " rows written out, " << stages::builtin_set().size()
              << " built-in matrices, " << stages::statistics(read).empty_rows << " empty rows\n";
  } catch (const stages::Error& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
