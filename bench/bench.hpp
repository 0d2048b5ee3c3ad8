// What the programs of bench/ share: a matrix by its name, the factors of a product, a turn at the GPU, which
// choices of a study are timed again, a record, and the end of main.

#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/harness/clock.hpp"
#include "common/matrix/builtin.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"
#include "common/matrix/matrix_market.hpp"
#include "common/matrix/statistics.hpp"

namespace stages::bench {

/// The matrix that a spec (gen:..., data:...) or the path of a Matrix Market file names. Throws Error where
/// there is none.
template <typename Value>
Csr<Value> matrix_named(const std::string& name) {
  return is_matrix_spec(name) ? generate<Value>(name) : read_matrix_market<Value>(name);
}

/// The factors of a sparse product: of a built-in pair both, of a square A twice A, of a rectangle A and its
/// transpose, on the side that takes fewer products.
template <typename Value>
std::pair<std::shared_ptr<const Csr<Value>>, std::shared_ptr<const Csr<Value>>> factors_named(
    const std::string& name) {
  const auto a = std::make_shared<const Csr<Value>>(matrix_named<Value>(name));
  constexpr std::string_view kSet = "data:";
  if (name.starts_with(kSet)) {
    const BuiltinMatrix& known = builtin(std::string_view(name).substr(kSet.size()));
    const std::string b(known.b_spec);
    if (!b.empty()) return {a, std::make_shared<const Csr<Value>>(matrix_named<Value>(b))};
  }
  if (a->rows == a->cols) return {a, a};
  const auto t = std::make_shared<const Csr<Value>>(transpose(*a));
  if (spgemm_products(*a, *t) <= spgemm_products(*t, *a)) return {a, t};
  return {t, a};
}

/// Waits until no other program has a turn with this file, and has one until it ends: programs that make
/// their matrices side by side time them one after the other. Without a name there are no turns. Throws Error
/// where there can be no such file.
inline void take_turn(const std::string& file) {
  static bool has_turn = file.empty();
  if (has_turn) return;
  const int at = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  has_turn = at >= 0 && flock(at, LOCK_EX) == 0;
  if (!has_turn) fail("{} cannot be locked; name a file in a directory that exists", file);
}

/// The seconds that a study may take, from its first look at the clock on.
class Budget {
 public:
  explicit Budget(double seconds) : seconds_(seconds) {}
  bool has_spent(double share) const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() >
           share * seconds_;
  }

 private:
  double seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// The times of choices, of which the first named is the rules' own. The least of many times is small by
/// chance, too. So what was fastest is timed again, each as often, and only those times say how fast the best
/// choice is: of each the median of its best round, as other work on the machine makes a round slower, never
/// faster.
class ChoiceTimes {
 public:
  static constexpr int kBetween = 8;     ///< choices; then the rules' own is timed once more
  static constexpr double kFirst = 0.7;  ///< of the budget, for all choices once
  static constexpr std::size_t kBest = 3;

  void add(const std::string& name, const std::vector<double>& seconds) {
    if (!has(name)) names_.push_back(name);
    first_[name].insert(first_[name].end(), seconds.begin(), seconds.end());
  }
  bool has(const std::string& name) const { return first_.contains(name); }
  void add_again(const std::string& name, const std::vector<double>& round) {
    double& best = again_.try_emplace(name, std::numeric_limits<double>::infinity()).first->second;
    best = std::min(best, median_of(round));
  }

  double median(const std::string& name) const { return median_of(first_.at(name)); }

  /// The rules' choice and the fastest others: what is to be timed again.
  std::vector<std::string> to_time_again() const {
    std::vector<std::string> best(names_.begin() + (names_.empty() ? 0 : 1), names_.end());
    std::sort(best.begin(), best.end(),
              [&](const std::string& a, const std::string& b) { return median(a) < median(b); });
    best.resize(std::min(best.size(), kBest));
    best.insert(best.begin(), names_.begin(), names_.begin() + (names_.empty() ? 0 : 1));
    return best;
  }

  /// {"seconds": {choice: median}, "again": {choice: median of its best round}}.
  nlohmann::ordered_json json() const {
    nlohmann::ordered_json seconds, again;
    for (const std::string& name : names_) seconds[name] = median(name);
    for (const std::string& name : names_) {
      if (const auto found = again_.find(name); found != again_.end()) again[name] = found->second;
    }
    return {{"seconds", seconds}, {"again", again}};
  }

 private:
  static double median_of(const std::vector<double>& samples) {
    return samples.empty() ? std::numeric_limits<double>::quiet_NaN() : summarize(samples).median;
  }

  std::vector<std::string> names_;
  std::map<std::string, std::vector<double>> first_;
  std::map<std::string, double> again_;
};

/// Writes what was measured to a file, if one was asked for. Throws Error if it cannot be written.
inline void write_record(const std::string& path, const nlohmann::json& record) {
  if (path.empty()) return;
  std::ofstream out(path);
  out << record.dump(1) << "\n";
  if (!out.flush()) fail("{} cannot be written; name a file in a directory that exists", path);
}

/// The exit code of a program's work; 2, with a line on stderr, if it throws.
template <typename Work>
int exit_code_of(const char* program, Work work) {
  try {
    return work();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return 2;
  }
}

}  // namespace stages::bench
