#pragma once
// The lens: what a kernel does to memory, instruction by instruction, counted where it runs on the executor;
// and the races of its threads.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "common/lens/bound.hpp"
#include "common/lens/recording/code.hpp"
#include "common/lens/recording/counts.hpp"
#include "common/lens/recording/races.hpp"

namespace stages {

/// An instruction that touches memory, and its line.
struct LensSite {
  simt::SiteCounts counts;
  /// The line that it is of, then that of the call where that was inlined, and so on. Not empty, and without
  /// what stands for the device language on the executor. Files are named from the project's root.
  std::vector<simt::CodeLine> lines;
};

struct LensKernel {
  std::string name;  ///< with its template arguments
  simt::KernelCounts counts;
  std::vector<LensSite> sites;
  /// Lines in which threads wait for others, and how often blocks or warps did.
  std::vector<std::pair<simt::CodeLine, std::uint64_t>> waits;
};

/// Of the kernels together, each kind that there is: global loads, stores and atomics, then shared ones.
std::vector<simt::SiteCounts> sums_of(std::span<const LensKernel> kernels);

/// Why nothing can be counted in this program; empty: it can.
std::string lens_problem();

/// One product of an entry.
struct LensView {
  std::string entry;
  std::vector<LensKernel> kernels;
  Bound bound;                  ///< on the GPU of recorded_rates()
  std::vector<Metric> counted;  ///< counted_metrics()
  std::string problem;          ///< why it did not come to its end, so that this is a part; empty: it did
};

/// Counts the kernels that `run`, a product of that problem, launches; of those only the ones whose name has
/// `kernel` in it are told of. Throws Error where there is none, or the program's code cannot be read.
LensView look_at(const std::string& entry, const std::function<void()>& run, const ProblemFacts& problem = {},
                 const std::string& kernel = {});

// ---- for people and for programs --------------------------------------------------------------------------

/// What each kernel did, and the source of its lines that touch memory, or (all_lines) also of those between.
std::string lens_text(const LensView& view, bool all_lines);

/// "at least 2.37 us on an NVIDIA H200: launch".
std::string bound_text(const Bound& bound);

/// A table of what several entries did, a column each.
std::string lens_comparison(std::span<const LensView> views);

/// A page: the source as a map of where most is asked for, and for each line a drawing of its worst request.
/// One file without links to others.
std::string lens_html(const std::string& title, std::span<const LensView> views);

/// With the names that Nsight Compute has for the same counters.
nlohmann::json lens_json(const LensView& view);

// ---- races ------------------------------------------------------------------------------------------------

/// The races that one product of an entry has.
struct RaceView {
  std::string entry;
  std::vector<simt::Race> races;
  std::string problem;  ///< why not all of it was looked at; empty: it was
};

/// Looks for races in the kernels that `run` launches.
RaceView look_for_races(const std::string& entry, const std::function<void()>& run);

/// A line for each race, or one that says that there is none; none of either where there is a problem.
std::string races_text(const RaceView& view);

nlohmann::json races_json(const RaceView& view);

}  // namespace stages
