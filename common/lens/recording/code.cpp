#include "common/lens/recording/code.hpp"

#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <string_view>

#include "common/matrix/error.hpp"

namespace stages::simt {
namespace {

/// What a program of binutils says about this one, line by line.
std::vector<std::string> ask(const std::string& tool, const std::string& arguments) {
  const std::string command = fmt::format("{} {} /proc/{}/exe 2> /dev/null", tool, arguments, getpid());
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::vector<std::string> lines(1);
  for (int c = pipe != nullptr ? std::fgetc(pipe) : EOF; c != EOF; c = std::fgetc(pipe)) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += static_cast<char>(c);
    }
  }
  constexpr int kNotFound = 127;  // as a shell says it
  const int status = pipe != nullptr ? pclose(pipe) : -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotFound)
    fail("{} (Debian: binutils) is not on the PATH; it reads this program's code", tool);
  if (status != 0)
    fail("{} cannot read this program: it must not be stripped, and memory be left for another process",
         tool);
  lines.pop_back();
  return lines;
}

/// The hexadecimal number that the text begins with, which then is taken off.
std::uint64_t take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return number;
}

std::string_view without_spaces(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text;
}

struct Instruction {
  std::uint64_t address = 0;
  std::uint64_t target = 0;  ///< of a jump; 0: it is none, or it is not known
  bool goes_on = true;       ///< the next one may follow
};

/// What objdump wrote, from the instruction's name on.
Instruction instruction(std::uint64_t address, std::string_view text) {
  const auto begins = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&](auto word) { return text.starts_with(word); });
  };
  Instruction out{.address = address};
  out.goes_on = !begins({"jmp", "notrack jmp", "ret", "ud2", "hlt", "b ", "b\t", "br "});
  if (begins({"j", "b.", "cb", "tb", "b ", "b\t"})) {
    text.remove_prefix(std::min(text.find_first_of(" \t"), text.size()));
    text = without_spaces(text);
    out.target = take_number(text);
  }
  return out;
}

/// Whether the instruction at `from` leads to that at `to` by none that stands before `from`. A jump back from
/// `to` to `from` is a loop then. It is none where a compiler only put a piece of code behind what follows it.
bool leads_to(const std::vector<Instruction>& code, std::uint64_t from, std::uint64_t to) {
  const auto at = [&](std::uint64_t address) {
    return static_cast<std::size_t>(
        std::lower_bound(code.begin(), code.end(), address,
                         [](const Instruction& i, std::uint64_t a) { return i.address < a; }) -
        code.begin());
  };
  std::vector<bool> seen(code.size());
  std::vector<std::size_t> next = {at(from)};
  while (!next.empty()) {
    std::size_t i = next.back();
    next.pop_back();
    for (; i < code.size() && !seen[i]; ++i) {
      if (code[i].address == to) return true;
      seen[i] = true;
      if (code[i].target >= from) next.push_back(at(code[i].target));
      if (!code[i].goes_on) break;
    }
  }
  return false;
}

}  // namespace

std::uint64_t program_begin() {
  static const std::uint64_t begin = [] {
    std::uint64_t address = 0;
    dl_iterate_phdr(
        [](dl_phdr_info* program, std::size_t, void* result) {
          *static_cast<std::uint64_t*>(result) = program->dlpi_addr;
          return 1;  // the program itself comes first
        },
        &address);
    return address;
  }();
  return begin;
}

Loops::Loops(std::vector<Loop> loops) : loops_(std::move(loops)) {
  std::sort(loops_.begin(), loops_.end(),
            [](const Loop& a, const Loop& b) { return a.latch - a.head < b.latch - b.head; });
}

std::optional<std::uint64_t> Loops::latch(std::uint64_t from, std::uint64_t to) const {
  for (const Loop& loop : loops_)
    if (loop.head <= to && from <= loop.latch) return loop.latch;
  return std::nullopt;
}

Loops loops_of(const void* function) {
  constexpr std::uint64_t kMost = 1 << 18;  // bytes of a kernel that are looked at
  const std::uint64_t begin = code_address(function);
  std::vector<Instruction> code;
  bool inside = false;
  for (const std::string& line :
       ask("objdump", fmt::format("-d --no-show-raw-insn --start-address={:#x} --stop-address={:#x}", begin,
                                  begin + kMost))) {
    std::string_view rest = without_spaces(line);
    if (!line.empty() && line.back() == ':' && line.find('<') != std::string::npos) {
      if (inside) break;  // the next function
      inside = true;
      continue;
    }
    const std::uint64_t here = take_number(rest);
    if (!inside || here == 0 || rest.empty() || rest.front() != ':') continue;
    code.push_back(instruction(here, without_spaces(rest.substr(1))));
  }
  std::vector<Loops::Loop> loops;
  for (const Instruction& jump : code)
    if (jump.target >= begin && jump.target <= jump.address && leads_to(code, jump.target, jump.address))
      loops.push_back({jump.target, jump.address});
  return Loops(std::move(loops));
}

std::string from_root(const std::string& file) {
  const std::filesystem::path path = std::filesystem::path(file).lexically_normal();
  const std::string relative = path.lexically_relative(STAGES_ROOT).string();
  return relative.empty() || relative.starts_with("..") ? path.string() : relative;
}

bool is_device_language(const std::string& file) {
  return file.find("common/simt/") != std::string::npos || file.starts_with("/usr/") || file.starts_with("?");
}

std::vector<std::vector<CodeLine>> lines_of(const std::vector<std::uint64_t>& codes) {
  std::vector<std::vector<CodeLine>> found;
  std::string addresses;
  // An address is that behind a call.
  for (const std::uint64_t code : codes) addresses += fmt::format(" {:#x}", code - 1);
  if (codes.empty()) return found;
  std::string function;
  for (const std::string& line : ask("addr2line", fmt::format("-a -i -f -C{} -e", addresses))) {
    if (line.starts_with("0x")) {
      found.emplace_back();
      function.clear();
    } else if (function.empty()) {
      function = line;
    } else {
      const std::size_t colon = line.rfind(':');
      unsigned number = 0;
      if (colon != std::string::npos)
        std::from_chars(line.data() + colon + 1, line.data() + line.size(), number);
      found.back().push_back({std::move(function), line.substr(0, colon), number});
      function.clear();
    }
  }
  return found;
}

static std::vector<std::optional<CodeLine>> own_lines(const std::vector<std::uint64_t>& codes) {
  std::vector<std::optional<CodeLine>> own(codes.size());
  try {
    std::vector<std::vector<CodeLine>> found = lines_of(codes);
    for (std::size_t i = 0; i < own.size(); ++i) {
      for (CodeLine& line : found.at(i)) {
        if (own[i] || is_device_language(line.file)) continue;
        line.file = from_root(line.file);
        own[i] = std::move(line);
      }
    }
  } catch (const std::exception&) {  // no binutils, or no such code
  }
  return own;
}

std::optional<CodeLine> own_line(std::uint64_t code) { return own_lines({code}).front(); }

std::vector<std::string> lines_of_own(const std::vector<std::uint64_t>& codes) {
  std::vector<std::string> lines;
  for (const std::optional<CodeLine>& line : own_lines(codes))
    lines.push_back(line ? fmt::format("{}:{}", line->file, line->line)
                         : fmt::format("code {:#x}", codes[lines.size()]));
  return lines;
}

}  // namespace stages::simt
