#pragma once
// The program's own code, as binutils read it: which loops a kernel has, and which line of which file an
// instruction is of. objdump and addr2line come with every g++.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stages::simt {

/// Where this program begins in memory; code addresses count from there.
std::uint64_t program_begin();
inline std::uint64_t code_address(const void* code) {
  return reinterpret_cast<std::uintptr_t>(code) - program_begin();
}

/// The loops of a kernel's code: [head, latch] of each, where the latch is the jump back to the head.
class Loops {
 public:
  struct Loop {
    std::uint64_t head = 0, latch = 0;
  };
  Loops() = default;
  explicit Loops(std::vector<Loop> loops);

  /// The latch that a lane passes on its way from `from` back to `to`: that of the smallest loop with both.
  /// Nothing where it comes from elsewhere, such as another function.
  std::optional<std::uint64_t> latch(std::uint64_t from, std::uint64_t to) const;

 private:
  std::vector<Loop> loops_;  ///< the smallest first
};

/// The loops of a function of this program. Throws Error where objdump is not there or cannot read the
/// program.
Loops loops_of(const void* function);

/// A line of source.
struct CodeLine {
  std::string function;  ///< demangled
  std::string file;
  unsigned line = 0;
};

/// The file as it is named from the project's root; as it is where it lies elsewhere.
std::string from_root(const std::string& file);

/// Whether the file is part of what stands for CUDA here, or of the standard library.
bool is_device_language(const std::string& file);

/// For each code address the line that it is of; where that is in a function that was inlined, then the line
/// of the call, and so on. Throws Error where addr2line is not there or cannot read the program.
std::vector<std::vector<CodeLine>> lines_of(const std::vector<std::uint64_t>& codes);

/// The line of a kernel's own source that an instruction is of, with its file named from the root; nothing
/// where there is none, or it cannot be found out.
std::optional<CodeLine> own_line(std::uint64_t code);
/// The same as "file:line"; the address where there is none.
std::vector<std::string> lines_of_own(const std::vector<std::uint64_t>& codes);
inline std::string line_of(std::uint64_t code) { return lines_of_own({code}).front(); }

}  // namespace stages::simt
