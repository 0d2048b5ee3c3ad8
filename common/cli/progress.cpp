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
  return format_seconds(row.run.median) + noise;
}

std::string outcome_of(const ResultRow& row) {
  if (row.status == Status::skipped) return "skipped: " + row.reason;
  if (row.status == Status::wrong) return "WRONG: " + row.reason;
  if (row.status == Status::failed) return "FAILED: " + row.reason;
  return row.timed() ? timing_of(row) : "checked";
}

std::string described(const ResultRow& row, const std::string& what) {
  const ProblemFacts& p = row.problem;
  return fmt::format("{}, {} {}{}{}: {}", row.entry, to_string(p.op), p.matrix, p.options.empty() ? "" : ", ",
                     p.options, what);
}

}  // namespace

Progress::Progress(std::size_t total) : total_(total), terminal_(is_terminal(stderr)) {}

Progress::~Progress() { clear(); }

std::string Progress::numbered(std::size_t number, const std::string& what) const {
  return printable(fmt::format("[{}/{}] {}", number, total_, what));
}

void Progress::doing(const std::string& what) {
  if (!terminal_) return;
  const std::string line = numbered(begun_, what);
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

/// Where the next state of the entries is due.
void Progress::running(const ResultRow& row, const std::string& what) {
  if (!terminal_ || (shown_ && seconds_since(last_) < kRefresh)) return;
  doing(described(row, what));
  last_ = Clock::now();
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
    running(row, "checking");
  };
  events.timing = [this](const ResultRow& row) { running(row, timing_of(row)); };
  events.done = [this](const ResultRow& row) {
    ++done_;
    if (!terminal_) say(numbered(done_, described(row, outcome_of(row))));
    if (terminal_ && row.is_bad()) say(printable(row.entry + ": " + outcome_of(row)));
  };
  return events;
}

}  // namespace stages
