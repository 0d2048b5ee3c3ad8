#include "common/gpu/rules.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/gpu/facts.hpp"
#include "common/matrix/embedded_table.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/instantiate.hpp"
#include "common/matrix/nearest.hpp"

namespace stages {

extern const std::string_view rules_text;

namespace {

/// The lines of a file of rules, without comments, as words.
class Lines {
 public:
  Lines(std::string_view text, std::string_view file) : text_(text), file_(file) { next(); }

  bool done() const { return words_.empty(); }
  const std::vector<std::string>& words() const { return words_; }
  /// To the next line that says something.
  void next() {
    words_.clear();
    while (words_.empty() && !text_.empty()) {
      ++number_;
      std::string_view line = take(text_, '\n');
      line = line.substr(0, line.find('#'));
      if (line.find('\t') != line.npos) {
        while (!line.empty()) words_.emplace_back(take(line, '\t'));
      } else {
        std::istringstream words{std::string(line)};
        for (std::string word; words >> word;) words_.push_back(word);
      }
    }
  }
  [[noreturn]] void reject(std::string_view wanted) const {
    fail("{}:{}: here must stand {}", file_, number_, wanted);
  }
  double number(const std::string& word) const {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (end == word.c_str() || *end != '\0' || !std::isfinite(value)) reject("a number for '" + word + "'");
    return value;
  }

 private:
  std::string_view text_, file_;
  int number_ = 0;
  std::vector<std::string> words_;
};

void parse_tree(Lines& lines, std::vector<Rules::Node>& tree) {
  const std::vector<std::string> words = lines.words();
  if (words.size() == 2 && words[0] == "take") {
    tree.push_back({.take = words[1]});
    return lines.next();
  }
  if (words.size() != 4 || words[0] != "if" || words[2] != "<")
    lines.reject("'if FEATURE < NUMBER' or 'take ENTRY'");
  const std::size_t node = tree.size();
  tree.push_back({.feature = words[1], .below = lines.number(words[3])});
  lines.next();
  parse_tree(lines, tree);
  if (lines.words() != std::vector<std::string>{"else"}) lines.reject("'else'");
  lines.next();
  tree[node].otherwise = tree.size();
  parse_tree(lines, tree);
}

/// How far one GPU is from another, in powers of e.
double distance(const Rules& rules, const DeviceFacts& device) {
  const double here = copy_bytes_per_second();
  return std::abs(std::log(rules.sms / device.sms)) +
         std::abs(std::log(rules.l2_bytes / static_cast<double>(device.l2_bytes))) +
         (here > 0 ? std::abs(std::log(rules.bytes_per_second / here)) : 0);
}

std::vector<Rules> all_rules() {
  const char* const file = std::getenv("STAGES_RULES");
  if (file == nullptr) return parse_rules(rules_text, "data/rules.txt");
  std::ifstream in(file);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) fail("{}: cannot be read; --rules wants a file of rules", file);
  return parse_rules(text.str(), file);
}

const Rules& rules_here() {
  static const std::vector<Rules> all = all_rules();
  static const Rules& nearest =
      all.size() == 1 ? all.front() : *std::ranges::min_element(all, {}, [](const Rules& rules) {
        return distance(rules, device_facts());
      });
  return nearest;
}

}  // namespace

std::vector<Rules> parse_rules(std::string_view text, std::string_view file) {
  std::vector<Rules> all;
  for (Lines lines(text, file); !lines.done();) {
    const std::vector<std::string> words = lines.words();
    if (words.size() == 5 && words[0] == "gpu") {
      all.push_back({words[1], lines.number(words[2]), lines.number(words[3]), lines.number(words[4]), {}});
      lines.next();
      continue;
    }
    const std::optional<Op> op = value_named(kOps, words[0]);
    if (all.empty() || words.size() != 1 || !op)
      lines.reject(
          "'gpu' with its name, SMs, bytes of L2 and bytes a second, with tabs between, or an operation");
    lines.next();
    parse_tree(lines, all.back().trees.emplace_back(*op, std::vector<Rules::Node>()).second);
  }
  if (all.empty()) fail("{}: has no rules; tools/fit-rules.sh makes them", file);
  return all;
}

Choice Rules::choose(Op op, const Features& features) const {
  const auto of_op = std::ranges::find(trees, op, [](const auto& tree) { return tree.first; });
  if (of_op == trees.end()) fail("the rules of {} have no tree for {}", gpu, to_string(op));
  const std::vector<Node>& tree = of_op->second;
  std::string why;
  std::size_t at = 0;
  while (!tree[at].feature.empty()) {
    const Node& node = tree[at];
    const auto feature = std::ranges::find(features, node.feature, &Metric::name);
    if (feature == features.end()) {
      std::vector<std::string_view> names;
      for (const Metric& known : features) names.push_back(known.name);
      fail("the rules ask for '{}' of {}; {}", node.feature, to_string(op),
           nearest_names(node.feature, names));
    }
    const bool holds = feature->value < node.below;
    why += fmt::format("{}{} {:.3g} {} {:g}", why.empty() ? "" : ", ", node.feature, feature->value,
                       holds ? "<" : ">=", node.below);
    at = holds ? at + 1 : node.otherwise;
  }
  return {tree[at].take, why, features};
}

Choice choose(Op op, const Features& features) {
  const Rules& rules = rules_here();
  Choice choice = rules.choose(op, features);
  if (rules.gpu != device_facts().name) choice.why += fmt::format(" (rules of an {})", rules.gpu);
  return choice;
}

template <class T>
Features matrix_features(const Csr<T>& a) {
  constexpr Offset kNeighbours = 32;
  const DeviceFacts& device = device_facts();
  const double nnz = std::max(1.0, static_cast<double>(a.nnz())), rows = std::max(1, a.rows);
  Offset longest = 0, places = 0;
  for (Offset first = 0; first < a.rows; first += kNeighbours) {
    Offset of_these = 0;
    for (Offset i = first; i < std::min(Offset{a.rows}, first + kNeighbours); ++i)
      of_these = std::max(of_these, Offset{a.row_nnz(static_cast<Index>(i))});
    longest = std::max(longest, of_these);
    places += kNeighbours * of_these;
  }
  return {{"mean_row", nnz / rows, ""},
          {"row_share", static_cast<double>(longest) * device.sms / nnz, ""},
          {"padding", static_cast<double>(places) / nnz, ""},
          {"nnz_an_sm", nnz / device.sms, ""}};
}

STAGES_FOR_VALUES(matrix_features)

}  // namespace stages
