#include "common/cli/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "common/cli/terminal.hpp"
#include "common/harness/seconds.hpp"

namespace stages {
namespace {

constexpr double kRefresh = 0.08;  ///< seconds between two states of the line in place

std::string timing_of(const ResultRow& row) {
  const std::string noise = row.run.noise < 1 ? fmt::format(", noise {:.1f} %", 100 * row.run.noise) : "";
  return fmt::format("{}{}", format_seconds(row.run.median), noise);
}

std::string outcome_of(const ResultRow& row) {
  if (row.status == Status::skipped) return "skipped: " + row.reason;
  if (row.status == Status::wrong) return "WRONG: " + row.reason;
  if (row.status == Status::failed) return "FAILED: " + row.reason;
  return row.timed() ? timing_of(row) : "checked";
}

}  // namespace

Progress::Progress(std::size_t total) : total_(total), terminal_(is_terminal(stderr)) {}

Progress::~Progress() { clear(); }

std::string Progress::numbered(std::size_t number, const ResultRow& row, const std::string& what) const {
  const ProblemFacts& p = row.problem;
  return printable(fmt::format("[{}/{}] {}, {} {}{}{}: {}", number, total_, row.entry, to_string(p.op),
                               p.matrix, p.options.empty() ? "" : ", ", p.options, what));
}

/// The state of an entry in place, where the next one is due.
void Progress::show(const ResultRow& row, const std::string& what) {
  if (!terminal_ || (shown_ && seconds_since(last_) < kRefresh)) return;
  show(numbered(begun_, row, what));
  last_ = Clock::now();
}

/// Puts `line` in place, cut to one line of the terminal.
void Progress::show(const std::string& line) {
  const auto width = static_cast<std::size_t>(std::max(20, terminal_width(stderr) - 1));
  std::size_t end = line.size();
  if (end > width) {
    end = width - 3;
    while ((line[end] & 0xC0) == 0x80) --end;  // not in the middle of a character
  }
  print_stderr("\r\033[K{}{}", line.substr(0, end), end < line.size() ? "..." : "");
  std::fflush(stderr);
  shown_ = true;
}

void Progress::doing(const std::string& what) {
  if (terminal_) show(printable(fmt::format("[{}/{}] {}", begun_, total_, what)));
}

void Progress::say(const std::string& line) {
  clear();
  print_stderr("{}\n", line);
}

void Progress::clear() {
  if (!shown_) return;
  print_stderr("\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

RunEvents Progress::events() {
  RunEvents events;
  events.checking = [this](const ResultRow& row) {
    ++begun_;
    show(row, "checking");
  };
  events.timing = [this](const ResultRow& row) { show(row, timing_of(row)); };
  events.done = [this](const ResultRow& row) {
    ++done_;
    if (!terminal_) say(numbered(done_, row, outcome_of(row)));
    if (terminal_ && row.is_bad()) say(printable(row.entry + ": " + outcome_of(row)));
  };
  return events;
}

}  // namespace stages
