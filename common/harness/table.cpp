// The table that a person reads: one block a problem, entries in course order, vendor libraries below a rule.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>

#include "common/harness/results.hpp"
#include "common/harness/steps.hpp"

namespace stages {
namespace {

constexpr const char* kBold = "\033[1m";
constexpr const char* kDim = "\033[2m";
constexpr const char* kRed = "\033[31m";
constexpr const char* kGreen = "\033[32m";

/// Wraps text in colour codes, or not.
struct Paint {
  bool on;
  std::string operator()(const char* code, const std::string& text) const {
    return on ? code + text + "\033[0m" : text;
  }
};

using Cells = std::vector<std::string>;
/// By head: the same in all tables.
using Widths = std::map<std::string, std::size_t>;

/// Exactly 1 is what the noise leaves of it.
std::string ratio(double value) {
  if (value <= 0) return "";
  if (value == 1) return "~1x";
  if (value < 0.005) return "<0.01x";
  return value >= 100  ? fmt::format("{:.0f}x", value)
         : value >= 10 ? fmt::format("{:.1f}x", value)
                       : fmt::format("{:.2f}x", value);
}

std::string pays_after(const ResultRow& row) {
  if (!row.break_even_known) return "?";
  if (std::isinf(row.break_even)) return "never";
  if (row.break_even == 0) return "at once";
  return row.break_even >= 1e6 ? format_count(row.break_even) : fmt::format("{:.0f} runs", row.break_even);
}

std::string recorded(const ResultRow& row) {
  const RecordedTime* const record = exact_record(row.entry, row.problem);
  return record == nullptr || !row.simulated
             ? ""
             : fmt::format("{} on {}", format_seconds(record->seconds), record->machine);
}

/// The share of its time for which the device was busy; empty: not known.
std::string busy(const ResultRow& row) {
  return row.busy.samples.empty() ? "" : fmt::format("{:.0f}%", 100 * row.busy.median / row.run.median);
}

struct Column {
  const char* head;
  std::string (*text)(const ResultRow&);
};
/// Of rows that were timed, where any was. Prepared once: before the first round of a chain.
constexpr Column kOfTimes[] = {
    {"time", [](const ResultRow& row) { return format_seconds(row.run.median); }},
    {"±", [](const ResultRow& row) { return format_noise(row.run.noise); }},
    {"GFLOP/s", [](const ResultRow& row) { return fmt::format("{:#.3g}", row.gflops); }},
    {"bandwidth",
     [](const ResultRow& row) {
       return row.bandwidth_share > kInCache ? "in cache" : fmt::format("{:.0f}%", 100 * row.bandwidth_share);
     }},
    {"vs step", [](const ResultRow& row) { return ratio(row.speedup_previous); }},
    {"vs vendor", [](const ResultRow& row) { return ratio(row.speedup_vendor); }},
    {"prepare", [](const ResultRow& row) { return row.prepare > 0 ? format_seconds(row.prepare) : ""; }},
    {"pays after", [](const ResultRow& row) { return row.prepare > 0 ? pays_after(row) : ""; }}};
/// Where any row has a text for them.
constexpr Column kTold[] = {{"busy", busy}, {"recorded", recorded}};

/// Times and counts where any row has them, and the entries' own metrics that are asked for.
Cells heads_of(std::span<const ResultRow> rows, const Cells& metrics) {
  Cells heads = {"entry"};
  if (std::ranges::any_of(rows, &ResultRow::timed))
    for (const Column& column : kOfTimes) heads.push_back(column.head);
  for (const char* const name : kCounted)
    if (std::ranges::any_of(rows,
                            [&](const ResultRow& row) { return !metric_text(row.metrics, name).empty(); }))
      heads.push_back(name);
  for (const auto& [head, text] : kTold)
    if (std::ranges::any_of(rows, [&](const ResultRow& row) { return !text(row).empty(); }))
      heads.push_back(head);
  heads.insert(heads.end(), metrics.begin(), metrics.end());
  return heads;
}

Cells cells_of(const ResultRow& row, const Cells& heads) {
  Cells cells = {row.mpi ? fmt::format("{} on {}", row.entry, row.ranks) : row.entry};
  for (const std::string& head : std::span(heads).subspan(1)) {
    const auto* const of_times = std::ranges::find(kOfTimes, head, &Column::head);
    const auto* const told = std::ranges::find(kTold, head, &Column::head);
    if (of_times != std::ranges::end(kOfTimes)) {
      cells.push_back(row.timed() ? of_times->text(row) : "");
    } else if (told != std::ranges::end(kTold)) {
      cells.push_back(told->text(row));
    } else {
      const std::string text = metric_text(row.metrics, head);
      const bool asked_for = std::ranges::find(kCounted, head) == std::ranges::end(kCounted);
      cells.push_back(text.empty() && asked_for && row.status == Status::good ? "-" : text);
    }
  }
  return cells;
}

/// A bound that is no more than a launch is said once, below the table: nearly all small products have it.
struct Launch {
  std::string said = {};
  int rows = 0;

  /// The note without it.
  std::string left_of(const std::string& note) {
    const std::size_t at = note.rfind("at least ");
    if (at == note.npos || !note.ends_with(": launch")) return note;
    said = note.substr(at);
    ++rows;
    return note.substr(0, at > 1 ? at - 2 : 0);
  }
  std::string text() const { return rows == 0 ? "" : fmt::format("{} rows: {}", rows, said); }
};

/// What stands after the cells: why there are none, or what is special about them. `told` is what the title
/// says of the check: the rows that are compared depend on the problem, so mostly all entries have the same.
std::string remark(const ResultRow& row, const std::string& told, Launch& launch) {
  if (row.status == Status::skipped) return "skipped: " + row.reason;
  if (row.status != Status::good) return (row.status == Status::wrong ? "WRONG: " : "FAILED: ") + row.reason;
  std::string text;
  const auto add = [&](const std::string& more) {
    text += (text.empty() || more.empty() ? "" : "; ") + more;
  };
  if (row.simulated) add("checked on the executor, not timed");
  if (row.is_unsteady()) add("unsteady");
  if (row.speedup_previous > 0) add("vs " + row.previous.substr(row.previous.find('/') + 1));
  const std::string open = left_open(row.check);
  if (open != told) add(open);
  add(launch.left_of(row.note));
  return text;
}

bool is_skipped(const ResultRow& row) { return row.status == Status::skipped; }

std::string title(const ProblemFacts& p, const std::string& told, const Paint& paint) {
  std::string facts =
      fmt::format("{} x {}, {} non-zeros", p.rows, p.cols, format_count(static_cast<double>(p.nnz)));
  if (p.op == Op::spgemm)
    facts += fmt::format(", {} products", format_count(static_cast<double>(p.multiplications)));
  if (!told.empty()) facts += ", " + told;
  const std::string options = p.options.empty() ? "" : ", " + p.options;
  return fmt::format("{}  {} {}{}  {}\n", paint(kBold, p.matrix), to_string(p.op), p.type, options,
                     paint(kDim, facts));
}

void add_line(std::string& out, const Cells& cells, const Cells& heads, Widths& widths, const char* colour,
              const std::string& after, const Paint& paint) {
  std::string line = "  ";
  for (std::size_t k = 0; k < cells.size(); ++k) {
    const std::string gap(widths[heads[k]] - printed_width(cells[k]), ' ');
    line += k == 0 ? cells[k] + gap : "  " + gap + spaced(cells[k]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  if (!after.empty() && printed_width(line) < 2 + widths[heads[0]])
    line.append(2 + widths[heads[0]] - printed_width(line), ' ');
  out += colour != nullptr ? paint(colour, line) : line;
  if (!after.empty()) out += "  " + paint(kDim, after);
  out += '\n';
}

/// The rows of one problem, which make one table.
struct Block {
  std::span<const ResultRow> rows;
  std::ptrdiff_t skipped = 0;
  bool fold = false;  ///< skipped rows have one line together
  Cells heads = {};

  bool shows(const ResultRow& row) const { return !fold || !is_skipped(row); }
};

std::vector<Block> blocks_of(const Results& results, bool all, const Cells& metrics) {
  std::vector<Block> blocks;
  for (std::span<const ResultRow> rest = results.rows; !rest.empty();) {
    const auto end = std::ranges::find_if(
        rest, [&](const ResultRow& row) { return !same_problem(row.problem, rest.front().problem); });
    Block block{.rows = rest.first(static_cast<std::size_t>(end - rest.begin()))};
    block.skipped = std::ranges::count_if(block.rows, is_skipped);
    block.fold = !all && block.skipped > 1;
    block.heads = heads_of(block.rows, metrics);
    blocks.push_back(block);
    rest = rest.subspan(block.rows.size());
  }
  return blocks;
}

/// "5 skipped (--all shows them), such as 01_cpu_serial/two_pointer_dot: needs 6.79 G steps, ...".
std::string folded(const Block& block) {
  const auto first = std::ranges::find_if(block.rows, is_skipped);
  return fmt::format("{} skipped (--all shows them), such as {}: {}", block.skipped, first->entry,
                     first->reason);
}

/// Whether all entries failed of one cause, as where their matrix cannot be read.
bool lost(const Block& block) {
  return block.rows.size() > 1 && std::ranges::all_of(block.rows, [&](const ResultRow& row) {
           return row.status == Status::failed && row.reason == block.rows.front().reason;
         });
}

void add_block(std::string& out, const Block& block, Widths& widths, const Paint& paint) {
  const ResultRow& first = block.rows.front();
  if (lost(block)) {
    out +=
        fmt::format("{}  {} {}\n  {}\n\n", paint(kBold, first.problem.matrix), to_string(first.problem.op),
                    first.problem.type,
                    paint(kRed, fmt::format("all {} entries FAILED: {}", block.rows.size(), first.reason)));
    return;
  }
  std::string told;
  for (const ResultRow& row : block.rows)
    if (told.empty() && row.checked) told = left_open(row.check);
  const std::vector<const ResultRow*> best = fastest(block.rows);
  out += title(first.problem, told, paint);
  add_line(out, block.heads, block.heads, widths, kDim, "", paint);
  Launch launch;
  for (const ResultRow& row : block.rows) {
    if (!block.shows(row)) continue;
    const bool is_best = std::ranges::count(best, &row) > 0;
    const std::string mark = !is_best ? "" : best.size() > 1 ? "<- fastest, with others" : "<- fastest";
    const std::string more = remark(row, told, launch);
    add_line(out, cells_of(row, block.heads), block.heads, widths,
             row.is_bad()  ? kRed
             : is_best     ? kGreen
             : row.timed() ? nullptr
                           : kDim,
             mark + (mark.empty() || more.empty() ? "" : "; ") + more, paint);
  }
  for (const std::string& line : {launch.text(), block.fold ? folded(block) : ""})
    if (!line.empty()) out += "  " + paint(kDim, line) + "\n";
  out += '\n';
}

}  // namespace

std::string left_open(const CheckReport& check) {
  std::string text;
  if (check.sampled())
    text = fmt::format("{} of {} rows checked in full", format_count(static_cast<double>(check.rows_checked)),
                       format_count(static_cast<double>(check.rows)));
  if (check.not_judged > 0)
    text += fmt::format("{}{} of {} sums beyond the type's range: not judged", text.empty() ? "" : ", ",
                        format_count(static_cast<double>(check.not_judged)),
                        format_count(static_cast<double>(check.sums)));
  return text;
}

std::size_t printed_width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string spaced(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string metric_text(const std::vector<Metric>& metrics, const std::string& name) {
  const auto found = std::ranges::find(metrics, name, &Metric::name);
  if (found == metrics.end() || !std::isfinite(found->value)) return {};
  const double value = found->value;
  if (found->unit == "B") return format_bytes(value);
  if (found->unit == "s") return format_seconds(value);
  const bool whole = std::abs(value) < 1e15 && (value == std::floor(value) || std::abs(value) >= 1e4);
  return whole ? grouped(std::llround(value)) : fmt::format("{:#.3g}", value);
}

std::string to_table(const Results& results, bool colour, bool all, const std::vector<std::string>& metrics) {
  const Paint paint{colour};
  const std::vector<Block> blocks = blocks_of(results, all, metrics);
  Widths widths;
  for (const Block& block : blocks) {
    const auto fit = [&](const Cells& cells) {
      for (std::size_t k = 0; k < cells.size(); ++k)
        widths[block.heads[k]] = std::max(widths[block.heads[k]], printed_width(cells[k]));
    };
    fit(block.heads);
    for (const ResultRow& row : block.rows)
      if (block.shows(row)) fit(cells_of(row, block.heads));
  }
  std::string out;
  for (const Block& block : blocks) add_block(out, block, widths, paint);
  out += fmt::format("{} good, {} wrong, {} failed, {} skipped\n", results.count(Status::good),
                     results.count(Status::wrong), results.count(Status::failed),
                     results.count(Status::skipped));
  return out;
}

}  // namespace stages
