#pragma once
// The executor: runs the grids of the runtime on CPU cores.

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "common/simt/launch.hpp"

namespace stages::simt {

/// Runs all blocks and returns when they are done. On a fault the other threads are abandoned where they
/// stand and `report` says what happened. Limits are the caller's business (runtime.cpp).
Fault run_grid(const Grid& grid, std::string& report);

/// The kernels that ran since the last call, each once.
std::set<const void*> take_kernels_that_ran();

/// forward, reverse or random:SEED; empty takes STAGES_SCHEDULE from the environment again. Throws Error for
/// another word.
void set_schedule(const std::string& schedule);

/// Seconds without any progress after which a running kernel is stopped; 0 takes STAGES_WATCHDOG (default
/// 60).
void set_watchdog(double seconds);

/// From that moment on kernels that run are stopped, and none begins: Fault::late. Nothing: no such moment.
using Moment = std::chrono::steady_clock::time_point;
void set_deadline(std::optional<Moment> moment);
/// Whether a kernel was stopped, or did not begin, because of the last deadline set.
bool missed_deadline();

}  // namespace stages::simt
