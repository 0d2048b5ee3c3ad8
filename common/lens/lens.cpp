#include "common/lens/lens.hpp"

#include <algorithm>

#include "common/matrix/error.hpp"

namespace stages {
namespace {

/// "multiply<float, int>" of a demangled function.
std::string short_name(const std::string& function) {
  // The parameters: from the parenthesis that closes last to its mate.
  std::string name = function;
  if (!name.empty() && name.back() == ')') {
    int depth = 0;
    for (std::size_t i = name.size(); i-- > 0;) {
      depth += name[i] == ')' ? 1 : name[i] == '(' ? -1 : 0;
      if (depth == 0) {
        name.resize(i);
        break;
      }
    }
  }
  for (const char* tag : {"[abi:kernel]", "(anonymous namespace)::", "stages::"})
    for (std::size_t at = name.find(tag); at != std::string::npos; at = name.find(tag))
      name.erase(at, std::string(tag).size());
  // The type that a template returns stands in front of its name.
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (depth == 0 && name[i] == ' ') begin = i + 1;
  }
  return name.substr(begin);
}

/// The sites, those of one instruction, access and space added up, in their order.
std::vector<simt::SiteCounts> without_arrays(const std::vector<simt::SiteCounts>& sites) {
  std::vector<simt::SiteCounts> out;
  for (const simt::SiteCounts& site : sites) {
    const auto found = std::find_if(out.begin(), out.end(), [&](const simt::SiteCounts& s) {
      return s.code == site.code && s.space == site.space && s.access == site.access;
    });
    (found != out.end() ? *found : out.emplace_back()).add(site);
  }
  return out;
}

/// Without what stands for the device language, unless there is nothing else.
std::vector<simt::CodeLine> own_lines(std::vector<simt::CodeLine> lines) {
  const auto own = std::find_if(lines.begin(), std::prev(lines.end()),
                                [](const simt::CodeLine& l) { return !simt::is_device_language(l.file); });
  lines.erase(lines.begin(), own);
  for (simt::CodeLine& line : lines) line.file = simt::from_root(line.file);
  return lines;
}

}  // namespace

std::vector<simt::SiteCounts> sums_of(std::span<const LensKernel> kernels) {
  std::vector<simt::SiteCounts> sums;
  for (const simt::Space space : {simt::Space::global, simt::Space::shared}) {
    for (const simt::Access access : {simt::Access::load, simt::Access::store, simt::Access::atomic}) {
      simt::SiteCounts sum{.access = access, .space = space};
      for (const LensKernel& kernel : kernels) {
        for (const LensSite& site : kernel.sites)
          if (site.counts.space == space && site.counts.access == access) sum.add(site.counts);
      }
      if (sum.requests > 0) sums.push_back(sum);
    }
  }
  return sums;
}

std::string lens_problem() {
  return simt::has_hooks() ? "" : "this build has no lens: it needs g++, and no sanitizers";
}

LensView look_at(const std::string& entry, const std::function<void()>& run, const ProblemFacts& problem,
                 const std::string& kernel_name) {
  LensView view{.entry = entry};
  simt::begin_counting();
  try {
    run();
  } catch (const std::exception& error) {
    view.problem = error.what();
  }
  std::vector<simt::KernelCounts> counted = simt::end_counting();

  std::vector<std::uint64_t> codes;
  for (simt::KernelCounts& kernel : counted) {
    codes.push_back(simt::code_address(kernel.kernel) + 1);
    kernel.sites = without_arrays(kernel.sites);
    for (const simt::SiteCounts& site : kernel.sites) codes.push_back(site.code);
  }
  std::vector<std::vector<simt::CodeLine>> lines = simt::lines_of(codes);
  auto next = lines.begin();
  for (simt::KernelCounts& counts : counted) {
    LensKernel kernel{.name = short_name(next++->back().function), .counts = std::move(counts)};
    for (const simt::SiteCounts& site : kernel.counts.sites)
      kernel.sites.push_back({site, own_lines(std::move(*next++))});
    for (const simt::BarrierCounts& barrier : kernel.counts.barriers) {
      kernel.waits.push_back(
          {{"", simt::from_root(barrier.where.file_name()), barrier.where.line()}, barrier.times});
    }
    view.kernels.push_back(std::move(kernel));
  }
  std::string names;
  for (const LensKernel& kernel : view.kernels) names += (names.empty() ? "" : ", ") + kernel.name;
  std::erase_if(view.kernels,
                [&](const LensKernel& k) { return k.name.find(kernel_name) == std::string::npos; });
  if (view.kernels.empty() && !names.empty())
    fail("--kernel {}: {} has none of that name; it has {}", kernel_name, entry, names);
  counted.clear();
  for (const LensKernel& kernel : view.kernels) counted.push_back(kernel.counts);
  view.bound = bound_of(counted, recorded_rates());
  view.counted = counted_metrics(view.bound, problem);
  return view;
}

}  // namespace stages
