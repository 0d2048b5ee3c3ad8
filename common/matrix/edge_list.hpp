#pragma once
// Edge lists, as SNAP, KONECT, OGB (its csv files) and networkx (write_edgelist, write_weighted_edgelist) write
// graphs: a line for each edge with the numbers of two nodes and perhaps a weight; plain or gzip-compressed.
//
// An edge from i to j is the entry at row i, column j of a square matrix. Nodes without edges are empty rows
// and columns. An edge that comes again counts once, with the weight that stands last, as networkx reads a
// DiGraph. A weight stands in the third column or, as networkx writes it, in {'weight': 2}; other columns are
// left out. A first line whose first two fields do not begin as numbers do is a header.
//
// Every error is one line, `file:line: what is wrong; how to mend it`.

#include <optional>
#include <string>

#include "common/matrix/byte_source.hpp"
#include "common/matrix/text_lines.hpp"
#include "common/matrix/types.hpp"

namespace stages {

/// What is not said is told by the text.
struct EdgeListOptions {
  std::string comments = "#%";      ///< a line that begins with one of these holds no edge
  std::optional<char> separator{};  ///< one of ",; \t"; a blank or a tab: any blanks; else by the first line
  std::optional<int> base{};        ///< the number of the first node: else 0 if there is a node 0, or 1
  std::optional<bool> weights{};    ///< else whether the first edge has one; without, all values are 1
  bool undirected = false;          ///< an edge is entered in both directions
  bool compact = false;             ///< nodes without edges are left out; the others keep their order
  std::optional<Index> nodes{};     ///< how many there are: else up to the last that has an edge
};

/// What was found.
struct EdgeListReport {
  char separator = ' ';
  int base = 0;
  bool weights = false;
  bool more_columns = false;  ///< some hold what was not read
  std::string header;         ///< quoted; empty: there is none
  Offset repeated = 0;        ///< edges that came again; of an undirected graph, also in the other direction
};

/// The matrix in canonical form. While it is made, each edge takes 16 bytes besides the result (twice that if
/// undirected). `source` is unpacked already; `name` stands for the file in messages. Throws Error.
Csr<double> read_edge_list(ByteSource& source, const std::string& name, const EdgeListOptions& options,
                           EdgeListReport* report = nullptr);

/// Whether the text, read from its start, comes to an edge before anything that is wrong.
bool begins_as_edge_list(Lines& lines);

}  // namespace stages
