#include "common/matrix/edge_list.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "common/matrix/convert.hpp"
#include "common/matrix/memory.hpp"

namespace stages {
namespace {

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(kBlank), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

/// Takes the first field away from `rest`, which begins with no blank.
std::string_view take_field(std::string_view& rest, char separator) {
  const bool blanks = separator == ' ' || separator == '\t';
  const std::size_t end = std::min(blanks ? rest.find_first_of(kBlank) : rest.find(separator), rest.size());
  const std::string_view field = without_blanks(rest.substr(0, end));
  rest = without_blanks(rest.substr(std::min(end + 1, rest.size())));
  return field;
}

bool begins_as_number(std::string_view field) {
  return !field.empty() && std::string_view("+-.0123456789").find(field[0]) != std::string_view::npos;
}

/// What stands for a weight in what follows the two nodes; `rest` becomes what is left out.
std::string_view take_weight(std::string_view& rest, char separator) {
  if (!rest.starts_with('{')) return take_field(rest, separator);
  constexpr std::string_view kKey = "'weight':";
  const std::size_t key = rest.find(kKey);
  const std::string_view value = key == rest.npos ? "" : without_blanks(rest.substr(key + kKey.size()));
  rest = rest == "{}" || !value.empty() ? "" : rest;
  return value.substr(0, value.find_first_of(",} "));
}

class EdgeReader {
 public:
  EdgeReader(Lines& lines, const EdgeListOptions& options) : lines_(lines), options_(options) {}

  EdgeListReport report;

  /// Reads on to the next edge. False at the end of the text.
  bool next() {
    for (std::string_view text; lines_.next(text);) {
      if (lines_.line() == 1) require_other_than_known(text);
      text = without_blanks(text);
      if (text.empty() || options_.comments.find(text[0]) != std::string::npos) continue;
      if (edges_ == 0 && report.header.empty()) report.separator = separator_of(text);
      std::string_view rest = text;
      const std::string_view from = take_field(rest, report.separator),
                             to = take_field(rest, report.separator);
      if (edges_ == 0 && report.header.empty() && !to.empty() && !begins_as_number(from) &&
          !begins_as_number(to)) {
        report.header = quoted(text);
        continue;
      }
      if (to.empty())
        fail_at(lines_.name(), lines_.line(), "{} is one column, but an edge has two nodes; {}", quoted(text),
                kHowToMend);
      take_edge(node(from), node(to), rest);
      return true;
    }
    return false;
  }

  Csr<double> matrix() {
    while (next()) {
    }
    if (edges_ == 0)
      fail_at(lines_.name(), std::max<Offset>(lines_.line(), 1),
              "the file holds no edge; it is empty or cut off");
    report.base = options_.base.value_or(least_ == 0 ? 0 : 1);
    require_memory(static_cast<double>(all_.nnz()) * (2 * sizeof(Index) + sizeof(double)), lines_.name());
    if (options_.compact) {
      renumber();
    } else {
      for (Buffer<Index>* ids : {&all_.row_idx, &all_.col_idx})
        for (Index& id : *ids) id -= report.base;
      all_.rows = all_.cols = rows();
    }
    Csr<double> out = to_csr(std::move(all_), Repeats::keep_last);
    Offset loops = 0;
    for (Index i = 0; options_.undirected && i < out.rows; ++i)
      loops += std::binary_search(out.col_idx.begin() + out.row_ptr[at(i)],
                                  out.col_idx.begin() + out.row_ptr[at(i) + 1], i);
    report.repeated = edges_ - (options_.undirected ? (out.nnz() + loops) / 2 : out.nnz());
    lines_.rewind();  // which sees whether the file is still the same
    return out;
  }

 private:
  static constexpr Index kLastNode = std::numeric_limits<Index>::max();
  static constexpr const char* kHowToMend =
      "correct the line, or say how fields are separated (--separator) or comments begin (--comments)";

  static std::size_t at(Offset k) { return static_cast<std::size_t>(k); }

  void require_other_than_known(std::string_view text) const {
    refuse_encodings(lines_.name(), text);
    if (text.starts_with("%%MatrixMarket"))
      fail_at(lines_.name(), 1, "this is a Matrix Market file already; use it as it is");
    if (text.starts_with("% bip"))
      fail_at(
          lines_.name(), 1,
          "this bipartite graph numbers two kinds of nodes apart, so its matrix is not square; write it as a "
          "Matrix Market file, with its two sizes");
  }

  char separator_of(std::string_view text) const {
    if (options_.separator) return *options_.separator;
    const std::size_t found = text.substr(0, text.find('{')).find_first_of(",;\t");
    return found == text.npos ? ' ' : text[found];
  }

  Index node(std::string_view text) const {
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc::invalid_argument || stop != end)
      fail_at(lines_.name(), lines_.line(), "the node {} is not a whole number; {}", quoted(text),
              kHowToMend);
    const Index least = options_.base.value_or(0);
    if (text[0] == '-' || number < least)
      fail_at(lines_.name(), lines_.line(), "the node {} lies below {}; number the nodes from there", text,
              least);
    if (error != std::errc() || number > kLastNode)
      fail_at(lines_.name(), lines_.line(),
              "the node {} lies beyond {}, the last row that a matrix has; number them anew", quoted(text),
              kLastNode);
    return static_cast<Index>(number);
  }

  void take_edge(Index from, Index to, std::string_view rest) {
    const std::string_view text = take_weight(rest, report.separator);
    double weight = 1;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, weight);
    const bool good = error == std::errc() && stop == end && std::isfinite(weight);
    if (edges_ == 0) report.weights = options_.weights.value_or(good);
    if (report.weights ? !good : good && !options_.weights)
      fail_at(lines_.name(), lines_.line(), "{}; correct the line, or leave out weights with --weights no",
              good           ? "this edge has a weight, and the first has none"
              : text.empty() ? "the edge has no weight"
                             : fmt::format("the weight {} is not a number", quoted(text)));
    report.more_columns = report.more_columns || !rest.empty() || (!report.weights && !text.empty());
    ++edges_;
    if (const Index larger = std::max(from, to); larger > most_) {
      most_ = larger;
      line_of_most_ = lines_.line();
    }
    least_ = std::min({least_, from, to});
    if (!report.weights) weight = 1;
    push(from, to, weight);
    if (options_.undirected) push(to, from, weight);
  }

  void push(Index row, Index col, double weight) {
    if (all_.values.size() == all_.values.capacity()) {
      const std::size_t room = std::max<std::size_t>(1024, 2 * all_.values.size());
      require_memory(static_cast<double>(room) * (2 * sizeof(Index) + sizeof(double)), lines_.name());
      all_.row_idx.reserve(room);
      all_.col_idx.reserve(room);
      all_.values.reserve(room);
    }
    all_.push(row, col, weight);
  }

  /// As many as there are nodes, if that is not beyond what a matrix may take.
  Index rows() const {
    const Offset found = Offset{most_} + 1 - report.base;
    const Offset rows = options_.nodes.value_or(found);
    if (found > rows)
      fail_at(lines_.name(), line_of_most_,
              "the node {} is none of the {} nodes that --nodes says; correct one of them", most_, rows);
    const double bytes = (static_cast<double>(rows) + 1) * sizeof(Offset);
    if (bytes > kMostForEmptyLines && rows / 8 > all_.nnz())
      fail_at(lines_.name(), line_of_most_,
              "{} nodes take {:.2f} GB, and the limit is {:.2f} GB where most have no edge; leave those out "
              "with --compact",
              rows, bytes / 1e9, kMostForEmptyLines / 1e9);
    require_memory(bytes, lines_.name());
    return narrow<Index>(rows, "the number of nodes");
  }

  void renumber() {
    Buffer<Index> ids(all_.row_idx);
    ids.insert(ids.end(), all_.col_idx.begin(), all_.col_idx.end());
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (Buffer<Index>* nodes : {&all_.row_idx, &all_.col_idx})
      for (Index& id : *nodes) id = static_cast<Index>(std::ranges::lower_bound(ids, id) - ids.begin());
    all_.rows = all_.cols = static_cast<Index>(ids.size());
  }

  Lines& lines_;
  const EdgeListOptions& options_;
  Coo<double> all_;
  Offset edges_ = 0, line_of_most_ = 0;
  Index least_ = kLastNode, most_ = -1;
};

}  // namespace

Csr<double> read_edge_list(ByteSource& source, const std::string& name, const EdgeListOptions& options,
                           EdgeListReport* report) {
  Lines lines(source, name);
  EdgeReader reader(lines, options);
  Csr<double> out = reader.matrix();
  if (report != nullptr) *report = std::move(reader.report);
  return out;
}

bool begins_as_edge_list(Lines& lines) {
  const EdgeListOptions options;
  try {
    lines.rewind();
    return EdgeReader(lines, options).next();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace stages
