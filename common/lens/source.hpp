#pragma once
// What text and page have in common: a kernel's source with what was counted, line by line, and words for it.

#include <string>
#include <vector>

#include "common/harness/results.hpp"
#include "common/lens/lens.hpp"

namespace stages {

struct SourceLine {
  unsigned number = 0;
  std::string text;
  std::vector<const LensSite*> sites;  ///< in the order of the code
  std::uint64_t waits = 0;             ///< of blocks or warps
};

struct SourceFile {
  std::string name;  ///< from the project's root
  std::vector<SourceLine> lines;
};

/// The lines in which something was counted, and (all_lines) those between them. The kernel must outlive it.
std::vector<SourceFile> source_of(const LensKernel& kernel, bool all_lines);

/// The calls by which a site came into its kernel: " < tables.hpp:66 < :211".
std::string callers(const LensSite& site);

const char* name_of(simt::Space space);
const char* name_of(simt::Access access);
inline std::string counted(std::uint64_t n) { return grouped(static_cast<std::int64_t>(n)); }
}  // namespace stages
