#include "common/judge/text.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <sstream>

#include "common/matrix/descriptor.hpp"

namespace stages::judge {

std::string read_text(const std::filesystem::path& path) {
  constexpr std::size_t kMost = 1'000'000;
  std::string text;
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    std::vector<char> part(65536);  // where the stack may be small
    for (ssize_t n = 0; text.size() < kMost && (n = read(file.get(), part.data(), part.size())) > 0;)
      text.append(part.data(), static_cast<std::size_t>(n));
  }
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool holds(std::string_view line, std::string_view what) { return line.find(what) != std::string_view::npos; }

std::string one_line(std::string_view text, std::size_t most) {
  std::string out(text.substr(0, most));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  return text.size() > most ? out + "..." : out;
}

std::string without_directories(std::string text) {
  for (std::size_t at = 0; (at = text.find('/', at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const bool begins = (at == 0 || text[at - 1] == ' ' || text[at - 1] == '(') && end > at + 1;
    if (begins) text.erase(at, text.rfind('/', end - 1) + 1 - at);
    at = begins ? at : end;
  }
  return text;
}

std::string thrown_text(std::string_view said) {
  constexpr std::string_view kLaunch = "(unspecified launch failure): ";
  if (const std::size_t at = said.find(kLaunch); at != std::string_view::npos)
    said.remove_prefix(at + kLaunch.size());
  return one_line(without_directories(one_line(said, 2000)), 500);
}

std::string last_words(std::string_view output) {
  std::string_view last;
  for (const std::string_view line : lines_of(output)) {
    if (line.starts_with("rank ")) return std::string(line);
    if (line.find_first_not_of(" -\r") != std::string_view::npos) last = line;
  }
  return std::string(last);
}

namespace {

/// "thread_per_row.cu:28 in multiply": the first line of the file among the calls that led to the fault, which
/// are those before an empty line. Empty: there is none.
std::string own_line(std::string_view output, std::string_view file) {
  const std::size_t at = output.find("ERROR: AddressSanitizer: ");
  if (at == std::string_view::npos) return {};
  for (const std::string_view line : lines_of(output.substr(at))) {
    if (line.empty()) break;
    const std::size_t path = line.rfind(' '), function = line.find(" in ");
    if (!holds(line, "#") || function == std::string_view::npos || path < function + 4) continue;
    const std::string_view place = line.substr(std::max(path, line.rfind('/')) + 1);
    if (!place.starts_with(file) || !place.substr(file.size()).starts_with(':')) continue;
    return fmt::format("{} in {}", place, line.substr(function + 4, path - function - 4));
  }
  return {};
}

}  // namespace

std::string sanitizer_text(std::string_view output, std::string_view file) {
  constexpr std::string_view kHead = "SUMMARY: AddressSanitizer: ";
  const std::size_t at = output.find(kHead);
  if (at == std::string_view::npos) return {};
  std::istringstream words(one_line(lines_of(output.substr(at + kHead.size())).front(), 2000));
  std::string kind, where;
  words >> kind;
  for (std::string word; words >> word;)
    where += (where.empty() ? "" : " ") + word.substr(word.rfind('/') + 1);
  if (where.empty()) return {};
  if (const std::string own = own_line(output, file); !own.empty()) where = own;
  where = one_line(where);
  if (kind == "SEGV") return fmt::format("reads or writes where there is no memory: {}", where);
  if (holds(kind, "overflow") || holds(kind, "poison") || holds(kind, "use-after"))
    return fmt::format("reads or writes out of bounds: {}, {}", kind, where);
  return fmt::format("{}: {}", kind, where);
}

}  // namespace stages::judge
