#pragma once
// What a student's kernels did to memory, line by line of his file, as `stages lens` shows it of an entry.

#include <string>
#include <string_view>

#include "common/judge/student/counts.hpp"

namespace stages::judge {

/// The file's own line that led there, or else the innermost; without a name where there is none.
CountedLine line_of(const CountedSite& site, const std::string& file);

/// Below each other the accesses of one product, in the order of their lines. `source` is the text of the file
/// that is called `file`; what is of another file is named by file and line.
std::string counted_text(const Counts& counts, const std::string& file, std::string_view source);

}  // namespace stages::judge
