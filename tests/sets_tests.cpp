// data/matrices.tsv, the matrices that rules are fitted on and those that are reported: each operation has
// enough of either, in enough families, no matrix is there twice, none is too large, and all can be made.

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/matrix/builtin.hpp"
#include "common/matrix/generate.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

/// A spec whose parameters stand in the order of the alphabet, without the seed: two that differ in no more are
/// one matrix.
std::string in_order(std::string matrix) {
  if (matrix.starts_with("data:")) matrix = builtin(matrix.substr(5)).spec;
  const std::size_t colon = matrix.find(':', 4);
  if (!matrix.starts_with("gen:") || colon == std::string::npos) return matrix;
  std::set<std::string> parameters;
  std::istringstream text(matrix.substr(colon + 1));
  for (std::string parameter; std::getline(text, parameter, ',');)
    if (!parameter.starts_with("seed=")) parameters.insert(parameter);
  std::string ordered = matrix.substr(0, colon);
  for (const std::string& parameter : parameters) ordered += "," + parameter;
  return ordered;
}

/// What is wrong with a matrix that can be made; nothing: "".
std::string fault_of(const std::string& matrix) {
  // On a GPU of 80 GB there is then room for a product. Larger ones are planned here, and not made.
  constexpr Offset kMost = 10'000'000'000, kMade = 8'000'000;
  std::string fault;
  const std::string error = error_of([&] {
    const Offset bytes = generation_bytes<float>(matrix);
    if (bytes > kMost) fault = matrix + " is too large";
    if (bytes < kMade && generate<float>(matrix).nnz() == 0) fault = matrix + " is empty";
  });
  return error.empty() ? fault : error;
}

/// What is wrong with the table: one line each. `least`: matrices of an operation in a list.
std::vector<std::string> faults(const std::string& table, std::size_t least, std::size_t least_families) {
  std::vector<std::string> found;
  std::map<std::string, std::map<std::string, int>> families;  // of each operation and list
  std::set<std::string> seen;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::smatch m;
    if (!std::regex_match(
            line, m,
            std::regex("([a-z ]+)\t(fitted|reported)\t([a-z,]+)\t([^\t]+)(\t([^\t]+[/:][^\t]+))?"))) {
      found.push_back("no family, list, operations, matrix and source: " + line);
      continue;
    }
    const std::string matrix = m[4], operations = m[3];
    for (const std::string op : {"spmv", "spmm", "spgemm"})
      if (operations == "all" || operations.find(op) != std::string::npos)
        ++families[op + " " + std::string(m[2])][m[1]];
    if (!seen.insert(in_order(matrix)).second) found.push_back(matrix + " is there twice");
    if (is_matrix_spec(matrix)) {
      if (const std::string fault = fault_of(matrix); !fault.empty()) found.push_back(fault);
    } else if (!std::regex_match(matrix, std::regex("[A-Za-z0-9_-]+\\.mtx(\\.gz)?"))) {
      found.push_back(matrix + " is neither gen:, data: nor the name of a file");
    } else if (!m[5].matched) {
      found.push_back("nothing says where " + matrix + " comes from");
    }
  }
  for (const auto& [list, of_family] : families) {
    std::size_t matrices = 0;
    for (const auto& [family, count] : of_family) {
      matrices += static_cast<std::size_t>(count);
      if (count < 2) found.push_back(list + ": one matrix of the family " + family);
    }
    if (matrices < least || of_family.size() < least_families) found.push_back(list + ": too few");
  }
  if (families.size() < 6) found.push_back("an operation without a list");
  return found;
}

TEST(Sets, EachOperationHasTwoOfEnoughMatrices) {
  std::ifstream file(STAGES_MATRICES);
  std::ostringstream table;
  table << file.rdbuf();
  for (const std::string& fault : faults(table.str(), 50, 14)) ADD_FAILURE() << fault;
}

TEST(Sets, FaultsAreSeen) {
  const std::string good =
      "# comment\nband\tfitted\tall\tgen:banded:n=9\nband\tfitted\tall\tgen:banded:n=8\n"
      "band\treported\tspmv,spmm\tgen:banded:n=7\nband\treported\tall\tgen:banded:n="
      "6\nband\treported\tspgemm\ta.mtx\ta/b\n";
  EXPECT_EQ(faults(good, 2, 1), std::vector<std::string>{});
  const std::pair<std::string, std::string> planted[] = {
      {"hub\tfitted\tspmv\tgen:eye:n=4\n", "one matrix of the family hub"},
      {"band\treported\tall\tgen:banded:n=9,seed=2\n", "gen:banded:n=9,seed=2 is there twice"},
      {"band\tfitted\tall\tgen:nosuch:n=9\n", "no generator 'nosuch'"},
      {"band\tfitted\tall\tgen:banded:n=2e9,half_bandwidth=9\n", "too large"},
      {"band\tfitted\tall\tgen:banded:n=0\n", "empty"},
      {"band\tfitted\tall\tdirectory/file.mtx\ta/b\n", "neither"},
      {"band\tfitted\tall\tfile.mtx.gz\n", "where file.mtx.gz comes from"},
      {"band\tlater\tall\tgen:eye:n=4\n", "no family, list"}};
  for (const auto& [line, word] : planted) {
    std::string found;
    for (const std::string& fault : faults(good + line, 2, 1)) found += fault + "\n";
    EXPECT_TRUE(has(found, word));
  }
  EXPECT_TRUE(has(faults(good, 3, 1).at(0), "too few"));
  EXPECT_TRUE(has(faults("", 0, 0).at(0), "without a list"));
}

}  // namespace
}  // namespace stages
