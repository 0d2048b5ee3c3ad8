#pragma once
// Texts that others have written: a compiler, a sanitizer, a student's program.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace stages::judge {

/// The beginning of a file, at most a megabyte; of what is no file nothing.
std::string read_text(const std::filesystem::path& path);

/// The lines of a text. Searched as they are: a line of a compiler may be long, and std::regex recurses over
/// it.
std::vector<std::string_view> lines_of(std::string_view text);

bool holds(std::string_view line, std::string_view what);

/// The text as a line that a terminal can show, cut where it is long.
std::string one_line(std::string_view text, std::size_t most = 300);

/// A line whose absolute paths are names of files: "reads at /tmp/x/a.cu:7" becomes "reads at a.cu:7".
std::string without_directories(std::string text);

/// What an exception in a student's program says, in a line: files without their directories, and of a kernel's
/// fault on the executor what the kernel did.
std::string thrown_text(std::string_view said);

/// What a program said last, where it is no line of dashes; or first what a rank of our own says of its end,
/// behind which mpirun says a lot. Empty: nothing.
std::string last_words(std::string_view output);

/// What a sanitizer said, in a line: "heap-buffer-overflow, thread_per_row.cu:28 in multiply". The line is that
/// of `file` (a name without directories) which led there, if there is one. Empty: nothing.
std::string sanitizer_text(std::string_view output, std::string_view file);

}  // namespace stages::judge
