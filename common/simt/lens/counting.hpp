#pragma once
// What the executor calls around a launch while kernels are counted.

#include "common/simt/executor.hpp"
#include "common/simt/lens/tracer.hpp"

namespace stages::simt {

bool is_counting();

/// What the launch's tracers need, and add up. Throws Error where the kernel's code cannot be read.
LaunchCounts begin_launch_counts(const Grid& grid);
void end_launch_counts(const Grid& grid, const LaunchCounts& launch);

/// The arrays of the simulated device, and the host's that it may use, by address (runtime.cpp).
std::vector<Span> global_memory();

}  // namespace stages::simt
