#pragma once
// How much memory this process may still take.

#include <string>

#include "common/matrix/types.hpp"

namespace stages {

/// Bytes that can be allocated now without swapping, and without being ended for it: what the kernel calls
/// available, and no more than what its cgroup and those around it (versions 1 and 2) and the limits of the
/// process (`ulimit -v`, `ulimit -d`) leave. At least 0. `root`: where /proc and /sys stand, for tests.
Offset available_memory(const std::string& root = "");

/// Bytes that may be taken for rows and columns where most are empty, unless somebody asks for more: a file
/// of a few bytes may name thousands of millions of them.
inline constexpr double kMostForEmptyLines = 1e9;

/// Throws OutOfMemory, which names `what` and both numbers, unless `bytes` more can be allocated. To be asked
/// before a large allocation: Linux promises memory that it does not have, and ends the program when it is
/// used.
void require_memory(double bytes, const std::string& what);

}  // namespace stages
