// Results of several numbers of ranks: speed-up against serial, and the table that shows where the time goes.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "common/harness/results.hpp"

namespace stages {
namespace {

constexpr const char* kSerialStage = "01_";

/// The metric of that name; NaN where the row has none.
double metric(const ResultRow& row, const char* name) {
  const auto found = std::ranges::find(row.metrics, name, &Metric::name);
  return found != row.metrics.end() ? found->value : std::nan("");
}

std::string_view step_of(const ResultRow& row) {
  return std::string_view(row.entry).substr(0, row.entry.find('/'));
}

std::string scaling_line(const ResultRow& row, std::size_t width) {
  const double efficiency = row.speedup_serial / row.ranks;
  const double serial = row.speedup_serial * row.run.median;
  const auto ratio = [](double of) { return of > 0 ? fmt::format("{:.2f}x", of) : ""; };
  const auto words = [&](const char* name, std::string (*in_words)(double)) {
    const double value = metric(row, name);
    return std::isnan(value) ? "?" : in_words(value);
  };
  const auto number = [](double value) { return fmt::format("{:.2f}", value); };
  std::string line =
      fmt::format("  {:<{}} {:>5} {:>9} {:>5} {:>8} {:>8}", row.entry, width, row.ranks,
                  format_seconds(row.run.median), format_noise(row.run.noise), ratio(row.speedup_serial),
                  efficiency > 0 ? fmt::format("{:.0f}%", 100 * efficiency) : "");
  for (const char* const name : {"compute_seconds", "distributed_seconds", "root_to_root_seconds"})
    line += fmt::format(" {:>9} {:>8}", words(name, format_seconds), ratio(serial / metric(row, name)));
  return line + fmt::format(" {:>9} {:>9} {:>7} {:>10}\n", words("bytes_moved", format_bytes),
                            words("imbalance", number), words("compute_imbalance", number),
                            words("ranks_per_core", number));
}

}  // namespace

bool same_problem(const ProblemFacts& a, const ProblemFacts& b) {
  return a.matrix == b.matrix && a.options == b.options && a.op == b.op && a.type == b.type;
}

void relate_to_serial(Results& results) {
  for (ResultRow& row : results.rows) {
    row.speedup_serial = 0;
    if (!row.mpi || !row.timed()) continue;
    double own_step = INFINITY, serial = INFINITY;
    for (const ResultRow& other : results.rows) {
      if (other.mpi || !other.timed() || other.structure_reuse || !same_problem(other.problem, row.problem))
        continue;
      if (step_of(other) == step_of(row)) own_step = std::min(own_step, other.run.median);
      if (other.entry.starts_with(kSerialStage)) serial = std::min(serial, other.run.median);
    }
    const double best = std::isfinite(own_step) ? own_step : serial;
    if (std::isfinite(best)) row.speedup_serial = best / row.run.median;
  }
}

std::string to_scaling_table(const Results& results, bool colour) {
  const auto bold = [&](const std::string& text) { return colour ? "\033[1m" + text + "\033[0m" : text; };
  std::string out;
  const ProblemFacts* problem = nullptr;
  std::size_t width = 24;
  for (const ResultRow& row : results.rows)
    if (row.mpi) width = std::max(width, row.entry.size());
  for (const ResultRow& row : results.rows) {
    if (!row.mpi || !row.timed()) continue;
    if (problem == nullptr || !same_problem(*problem, row.problem)) {
      if (problem != nullptr) out += '\n';
      problem = &row.problem;
      out += fmt::format(
          "{}  {} {}{}{}, on ranks; speed-ups are over the fastest entry of one process, of the same stage "
          "or of stage 01\n",
          bold(problem->matrix), to_string(problem->op), problem->type, problem->options.empty() ? "" : ", ",
          problem->options);
      out += fmt::format(
          "  {:<{}} {:>5} {:>9} {:>5} {:>8} {:>8} {:>18} {:>18} {:>18} {:>9} {:>9} {:>7} {:>10}\n", "entry",
          width, "ranks", "run", "±", "speed-up", "per rank", "compute", "distributed", "root to root",
          "moved", "imbalance", "in time", "ranks/core");
    }
    out += scaling_line(row, width);
  }
  return out;
}

std::string scaled_spec(const std::string& text, int ranks, bool& scaled) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    double value = 0;
    const bool begins = std::isdigit(static_cast<unsigned char>(text[at])) != 0 &&
                        (at == 0 || text[at - 1] == '=' || text[at - 1] == ':');
    const auto [end, error] = begins ? std::from_chars(text.data() + at, text.data() + text.size(), value)
                                     : std::from_chars_result{text.data() + at, std::errc::invalid_argument};
    const auto length = static_cast<std::size_t>(end - text.data()) - at;
    if (error == std::errc{} && text.compare(at + length, 2, "xR") == 0) {
      out += fmt::format("{:.0f}", value * ranks);
      at += length + 2;
      scaled = true;
    } else {
      out += text[at++];
    }
  }
  return out;
}

}  // namespace stages
