// The lists of matrices under tools/sets: those that rules are fitted on, and those that are reported. Each is
// long enough, has all kinds, names no matrix that is in its other list, and holds nothing that cannot be made.

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

std::string text_of(const std::string& list) {
  std::ifstream file(std::string(STAGES_SETS) + "/" + list + ".txt");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The matrices that a list's text names.
std::vector<std::string> matrices_of(const std::string& text) {
  std::vector<std::string> matrices;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] != '#') matrices.push_back(line);
  }
  return matrices;
}

/// A spec whose parameters stand in the order of the alphabet: two that differ in order are one matrix.
std::string in_order(std::string matrix) {
  if (matrix.starts_with("data:")) matrix = builtin(matrix.substr(5)).spec;
  const std::size_t colon = matrix.find(':', 4);
  if (!matrix.starts_with("gen:") || colon == std::string::npos) return matrix;
  std::set<std::string> parameters;
  std::istringstream text(matrix.substr(colon + 1));
  for (std::string parameter; std::getline(text, parameter, ',');) parameters.insert(parameter);
  std::string ordered = matrix.substr(0, colon);
  for (const std::string& parameter : parameters) ordered += "," + parameter;
  return ordered;
}

/// What is wrong with two lists of one operation: one line each, nothing if all is well.
std::vector<std::string> faults(const std::string& fitted, const std::string& reported,
                                std::size_t at_least) {
  std::vector<std::string> found;
  std::map<std::string, int> times;
  for (const std::string& text : {fitted, reported}) {
    const std::vector<std::string> matrices = matrices_of(text);
    if (matrices.size() < at_least)
      found.push_back(std::to_string(matrices.size()) + " matrices are too few");
    for (const char* kind : {"hubs", "lp", "banded", "stencil", "fem", "pruned", "hypergraph"})
      if (text.find("\ngen:" + std::string(kind) + ":") == std::string::npos)
        found.push_back("no matrix of the kind " + std::string(kind));
    for (const std::string& matrix : matrices) {
      if (++times[in_order(matrix)] == 2) found.push_back(matrix + " is there twice");
      if (is_matrix_spec(matrix)) {
        // On a GPU of 80 GB there is then room for a product. Larger ones are planned here, and not made.
        constexpr Offset kMost = 10'000'000'000, kMade = 8'000'000;
        const std::string error = error_of([&] {
          const Offset bytes = generation_bytes<float>(matrix);
          if (bytes > kMost) found.push_back(matrix + " is too large");
          if (bytes < kMade && generate<float>(matrix).nnz() == 0) found.push_back(matrix + " is empty");
        });
        if (!error.empty()) found.push_back(error);
      } else if (!std::regex_match(matrix, std::regex("[A-Za-z0-9_-]+\\.mtx(\\.gz)?"))) {
        found.push_back(matrix + " is neither gen:, data: nor the name of a file");
      } else if (!std::regex_search(text, std::regex("\n# [^\n]*[/:][^\n]*\n" + matrix + "\n"))) {
        found.push_back("no line above " + matrix + " says where it comes from");
      }
    }
  }
  return found;
}

TEST(Sets, EachOperationHasTwoOfEnoughMatrices) {
  for (const auto& [op, at_least] : {std::pair<std::string, std::size_t>("spgemm", 40), {"spmm", 30}})
    for (const std::string& fault : faults(text_of(op + "-fitted"), text_of(op + "-reported"), at_least))
      ADD_FAILURE() << fault;
}

TEST(Sets, FaultsAreSeen) {
  const std::string kinds =
      "# small ones\ngen:hubs:n=50,hub_length=9\ngen:lp:rows=50,cols=90\ngen:banded:n=9\ngen:stencil:nx=3\n"
      "gen:fem:nx=2\ngen:pruned:rows=9,cols=90\ngen:hypergraph:nets=9,cells=9\n";
  const std::string others =
      "# others\ngen:hubs:n=60,hub_length=9\ngen:lp:rows=60,cols=90\ngen:banded:n=8\ngen:stencil:nx=4\n"
      "gen:fem:nx=3\ngen:pruned:rows=8,cols=90\ngen:hypergraph:nets=8,cells=9\n";
  EXPECT_EQ(faults(kinds, others, 7), std::vector<std::string>{});
  struct Planted {
    std::string fitted, reported, word;
  };
  const Planted planted[] = {
      {kinds + "gen:eye:n=4\n", others, "too few"},
      {kinds, others + "gen:banded:n=9\n", "gen:banded:n=9 is there twice"},
      {kinds + "gen:dense:rows=3,cols=4\n", others + "gen:dense:cols=4,rows=3\n", "twice"},
      {kinds + "data:d1\n", others + "gen:d1:a\n", "twice"},
      {kinds, others + "gen:nosuch:n=9\n", "no generator 'nosuch'"},
      {kinds, others + "gen:banded:n=2e9,half_bandwidth=9\n", "too large"},
      {kinds, others + "gen:banded:n=0\n", "empty"},
      {kinds, others + "directory/file.mtx\n", "neither"},
      {kinds, others + "file.mtx.gz\n", "says where"},
      {"# fem missing\ngen:hubs:n=50,hub_length=9\n", others, "no matrix of the kind fem"},
  };
  for (const Planted& p : planted) {
    std::string found;
    for (const std::string& fault : faults(p.fitted, p.reported, 8)) found += fault + "\n";
    EXPECT_TRUE(has(found, p.word));
  }
}

}  // namespace
}  // namespace stages
