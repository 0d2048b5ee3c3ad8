#pragma once
// What the lens found, for people and for programs.

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "common/lens/lens.hpp"

namespace stages {

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

}  // namespace stages
