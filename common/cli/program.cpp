#include "common/cli/program.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <ranges>

#include "common/cli/last_words.hpp"
#include "common/cli/processor.hpp"
#include "common/cli/terminal.hpp"
#include "common/harness/build_info.hpp"
#include "common/harness/machine.hpp"
#include "common/harness/results.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/memory.hpp"

namespace stages {
namespace {

/// Lets freed memory be used again instead of going back to the system. A fresh page costs a fault and a
/// clearing, at about 2 GB/s: entries that allocate per run would pay for that every time, and others not.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kNever = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

/// A stream that was closed is opened as one that cannot be written: the first file that a program opens
/// would take its number, and messages would go into that file.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", O_RDONLY);  // the lowest number that is free: this one
  }
}

/// Where nobody reads on, or a file may not grow (ulimit -f), writing fails and does not end the process: files
/// are still to be written. A handler, for that a signal is ignored goes on to programs that this one starts.
void survive_lost_output() {
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, [](int) {});
}

/// One line, whatever the message looked like.
std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  text.erase(text.find_last_not_of(' ') + 1);
  return printable(text);
}

/// Where there are several ranks the others wait in the middle of something, so all of them are ended.
int report(const Program& program, const std::string& what) {
  std::fflush(stdout);
  Ranks& ranks = program.ranks;
  if (ranks.size() > 1 || !ranks.problem().empty())
    ranks.abort(fmt::format("{}: error on rank {}: {}\n", program.name, ranks.rank(), one_line(what)),
                kBadInput);
  print_stderr("{}\n", error_line(program, what));
  return kBadInput;
}

/// Standard output could not be written. Where nobody reads on, as in `| head`, that is the usual end.
int lost_output(const Program& program) {
  pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  if (poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0) {
    std::signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
  }
  return report(
      program,
      "standard output cannot be written, so what it shows is not complete; give it a place with room");
}

std::string version() {
  return fmt::format("sparse-stages {} ({}, {})", build_info().version, build_info().compiler,
                     build_info().backend);
}

int parse_and_work(const Program& program) {
  CommandLine line(
      program.name, "Sparse matrix products, step by step: every step checked and timed beside the others.",
      version,
      examples(program,
               {{"list", "what there is to run"},
                {"run", "a look at every step"},
                {"run -m graph.mtx.gz --op spgemm", "the square of a matrix of yours, by every method"},
                {"COMMAND --help", "more about a command"}}) +
          "\nExit codes: 0 good; 1 a wrong result; 2 bad usage or input; 77 everything was skipped.");
  for (const auto add_command : {add_list_command, add_run_command, add_multiply_command, add_info_command,
                                 add_generate_command, add_convert_command})
    add_command(line, program);
  for (const auto add_command : program.commands) add_command(line, program);
  const auto words = program.arguments | std::views::drop(1);
  const CommandLine::Parsed parsed = line.parse({words.begin(), words.end()});
  // All ranks take part in a run and in a product; whatever else there is, one does it.
  const bool root = program.ranks.root();
  if (!parsed.text.empty() && root) fmt::print("{}", parsed.text);
  const bool together = parsed.command == "run" || parsed.command == "multiply";
  if (!parsed.text.empty() || (!root && !together)) return kGood;
  if (!parsed.work) fail("no command given; see {} --help", program.name);
  return parsed.work();
}

}  // namespace

std::string error_line(const Program& program, const std::string& what) {
  return fmt::format("{}: error: {}", program.name, one_line(what));
}

std::string out_of_memory() {
  return fmt::format(
      "out of memory ({} of {} are free); use a smaller matrix, one --op at a time, or a lower --max-memory",
      format_bytes(static_cast<double>(available_memory())), format_bytes(total_memory_bytes()));
}

std::string examples(const Program& program, const std::vector<std::pair<std::string, std::string>>& lines) {
  std::size_t width = 0;
  for (const auto& [command, what] : lines) width = std::max(width, command.size());
  std::string out = "Examples:\n";
  for (const auto& [command, what] : lines) {
    // A short command has what it does beside it, a long one below it.
    out += width <= 46 ? fmt::format("  {} {:<{}}  {}\n", program.name, command, width, what)
                       : fmt::format("  {} {}\n      {}\n", program.name, command, what);
  }
  return out;
}

int run_program(int argc, char** argv, Parts parts) {
  hold_standard_streams();
  survive_lost_output();
  leave_nothing_behind();
  keep_freed_memory();
  require_processor();
  Ranks ranks;
  Program program{std::move(parts),
                  argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "stages",
                  {argv, argv + argc},
                  ranks};
  try {
    if (const std::string problem = ranks.problem(); !problem.empty()) fail("{}", problem);
    program.add_entries(program.registry);
    const int code = parse_and_work(program);
    return std::fflush(stdout) != 0 || std::ferror(stdout) != 0 ? lost_output(program) : code;
  } catch (const Error& error) {
    return report(program, error.what());
  } catch (const std::bad_alloc&) {
    return report(program, out_of_memory());
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return lost_output(program);  // fmt::print throws
    return report(program,
                  fmt::format("unexpected: {}; please report it with the command line", error.what()));
  }
}

}  // namespace stages
