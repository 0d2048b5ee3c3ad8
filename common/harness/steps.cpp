#include "common/harness/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "common/matrix/embedded_table.hpp"

namespace stages {

extern const std::string_view records_text;  // data/records.tsv, embedded by CMake

namespace {

std::vector<RecordedTime> parse_records() {
  constexpr std::string_view kFile = "data/records.tsv";
  std::vector<RecordedTime> out;
  for (const auto& [entry, seconds, problem, machine, matrix, options] : table_rows<6>(records_text, kFile)) {
    RecordedTime time{.entry = entry,
                      .problem = problem,
                      .machine = machine,
                      .matrix = matrix,
                      .options = options == "-" ? "" : options};
    const char* const end = seconds.data() + seconds.size();
    if (std::from_chars(seconds.data(), end, time.seconds).ptr != end || !(time.seconds > 0))
      fail("{}: '{}' is no time in seconds; tools/tables.py writes this file", kFile, seconds);
    out.push_back(time);
  }
  return out;
}

const RecordedTime* record_of(std::string_view entry) {
  const auto all = recorded_times();
  const auto found = std::ranges::find(all, entry, &RecordedTime::entry);
  return found == all.end() ? nullptr : &*found;
}

StepLine::Time time_of(const ResultRow& row) {
  StepLine::Time time;
  const std::string name = row.entry.substr(row.entry.find('/') + 1);
  time.entry = row.mpi && row.ranks > 0 && row.timed()
                   ? fmt::format("{} on {} {}", name, row.ranks, row.ranks == 1 ? "rank" : "ranks")
                   : name;
  if (row.timed()) time.seconds = row.run.median;
  time.outcome = row.timed()                     ? format_seconds(row.run.median)
                 : row.status == Status::good    ? "checked"
                 : row.status == Status::skipped ? "skipped"
                 : row.status == Status::wrong   ? "WRONG"
                                                 : "FAILED";
  if (const RecordedTime* const record = record_of(row.entry)) {
    time.recorded_seconds = record->seconds;
    time.recorded = format_seconds(record->seconds);
  }
  return time;
}

/// Lower is better: the time here, else the recorded one.
double rank_of(const ResultRow& row, bool timed) {
  if (timed) return row.timed() ? row.run.median : INFINITY;
  const RecordedTime* const record = record_of(row.entry);
  return record != nullptr ? record->seconds : INFINITY;
}

/// "a -> b", and only one of them where they are the same.
std::string from_to(const std::string& a, const std::string& b) {
  if (a.empty() && b.empty()) return "-";
  return a == b || b.empty() ? a : fmt::format("{} -> {}", a.empty() ? "?" : a, b);
}

}  // namespace

std::span<const RecordedTime> recorded_times() {
  static const std::vector<RecordedTime> all = parse_records();
  return all;
}

const RecordedTime* exact_record(std::string_view entry, const ProblemFacts& problem) {
  const RecordedTime* const of = record_of(entry);
  const bool same = of != nullptr && problem.type == "f32" && of->matrix == problem.matrix;
  return same && of->options == problem.options ? of : nullptr;
}

StepLine step_line(std::string step, std::span<const ResultRow* const> rows) {
  StepLine line{.step = std::move(step)};
  if (rows.empty()) {
    line.missing = "nothing was run";
    return line;
  }
  std::vector<const ResultRow*> good(rows.begin(), rows.end());
  std::erase_if(good, [](const ResultRow* r) { return r->status != Status::good || r->structure_reuse; });
  const ProblemFacts& p = rows.front()->problem;
  line.matrix = p.matrix;
  line.options = to_string(p.op) + (p.options.empty() ? "" : ", " + p.options);
  const auto bad = std::ranges::find_if(rows, &ResultRow::is_bad);
  if (bad != rows.end()) {  // the table must not look green
    line.plainest = line.best = time_of(**bad);
    return line;
  }
  if (good.empty()) {
    line.missing = rows.front()->reason;
    return line;
  }
  const bool timed = std::ranges::any_of(good, &ResultRow::timed);
  const auto best =
      std::ranges::min_element(good, {}, [&](const ResultRow* row) { return rank_of(*row, timed); });
  // One without a record has nothing to stand beside the best one's.
  const auto recorded = std::ranges::find_if(good, record_of, &ResultRow::entry);
  const ResultRow& plainest = recorded == good.end() ? *good.front() : **recorded;
  line.plainest = time_of(plainest);
  line.best = time_of(std::isfinite(rank_of(**best, timed)) ? **best : *good.back());
  for (const ResultRow* const row : {*best, &plainest}) {
    if (const RecordedTime* const record = record_of(row->entry))
      line.record = fmt::format("{}: {}", record->machine, record->problem);
  }
  return line;
}

std::string to_step_table(std::span<const StepLine> lines, bool colour) {
  if (lines.empty()) return {};
  using Cells = std::array<std::string, 6>;
  std::vector<Cells> table = {{"step", "plainest entry -> best", "multiplied here", "time here",
                               "time in records", "machine, and what it multiplied"}};
  for (const StepLine& line : lines) {
    if (!line.missing.empty()) {
      table.push_back({line.step, line.missing, "", "", "", ""});
      continue;
    }
    const std::string operation = line.options.substr(0, line.options.find(','));
    table.push_back({line.step, from_to(line.plainest.entry, line.best.entry), operation + " " + line.matrix,
                     from_to(line.plainest.outcome, line.best.outcome),
                     line.record.empty() ? "-" : from_to(line.plainest.recorded, line.best.recorded),
                     line.record});
  }
  std::array<std::size_t, 6> widths{};
  for (std::size_t row = 0; row < table.size(); ++row) {
    const bool says_why = row > 0 && !lines[row - 1].missing.empty();
    for (std::size_t k = 0; k < widths.size(); ++k) {
      if (!(says_why && k == 1)) widths[k] = std::max(widths[k], printed_width(table[row][k]));
    }
  }
  std::string out = colour ? "\033[1mThe steps\033[0m\n" : "The steps\n";
  for (const Cells& cells : table) {
    std::string text = "  ";
    for (std::size_t k = 0; k < cells.size(); ++k) {
      const std::size_t width = printed_width(cells[k]);
      text += cells[k] + std::string(std::max(widths[k], width) - width, ' ') + "  ";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += (colour && &cells == &table.front() ? "\033[2m" + text + "\033[0m" : text) + "\n";
  }
  return out;
}

}  // namespace stages
