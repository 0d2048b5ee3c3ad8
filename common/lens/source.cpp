#include "common/lens/source.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>

namespace stages {
namespace {

/// The lines of a file that is named from the project's root; none where it is not there.
std::vector<std::string> lines_of_file(const std::string& file) {
  std::vector<std::string> lines;
  std::ifstream in(file.starts_with("/") ? file : STAGES_ROOT "/" + file);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

std::vector<SourceFile> source_of(const LensKernel& kernel, bool all_lines) {
  std::map<std::string, std::map<unsigned, SourceLine>> files;
  for (const LensSite& site : kernel.sites)
    files[site.lines[0].file][site.lines[0].line].sites.push_back(&site);
  for (const auto& [at, times] : kernel.waits) files[at.file][at.line].waits += times;
  std::vector<SourceFile> found;
  for (auto& [name, lines] : files) {
    if (all_lines)
      for (unsigned n = lines.begin()->first; n < lines.rbegin()->first; ++n) lines[n];
    const std::vector<std::string> source = lines_of_file(name);
    SourceFile& file = found.emplace_back(SourceFile{.name = name, .lines = {}});
    for (auto& [number, line] : lines) {
      line.number = number;
      if (0 < number && number <= source.size()) line.text = source[number - 1];
      file.lines.push_back(std::move(line));
    }
  }
  return found;
}

std::string callers(const LensSite& site) {
  std::string text;
  for (std::size_t i = 1; i < site.lines.size(); ++i) {
    const std::string& file = site.lines[i].file;
    text += fmt::format(" < {}:{}", file == site.lines[0].file ? "" : file.substr(file.rfind('/') + 1),
                        site.lines[i].line);
  }
  return text;
}

const char* name_of(simt::Space space) { return space == simt::Space::global ? "global" : "shared"; }

const char* name_of(simt::Access access) {
  return access == simt::Access::load ? "load" : access == simt::Access::store ? "store" : "atomic";
}

}  // namespace stages
