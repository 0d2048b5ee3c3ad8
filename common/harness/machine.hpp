#pragma once
// What this machine is: the facts that results carry as context and that limits are set from.

#include <string>

namespace stages {

/// The processor's name as the system tells it; "unknown CPU" where it doesn't.
std::string cpu_name();

/// Bytes of the largest cache of CPU 0; 0 where the system doesn't tell.
double last_level_cache_bytes();

/// Bytes that the caches do not hold: `times` the largest one, and at least `least`, divided among processes
/// that share it; but no more than 512 MiB, nor a sixteenth of the memory that is free. Virtual machines tell
/// of caches of half a gigabyte that no core has, and containers have little memory.
double beyond_caches(double times, double least, int sharing = 1);

/// What STAGES_COPY_BYTES says those are instead, for tests, which need no true bandwidth and shall not take
/// seconds for it; 0: it says nothing. Results tell of it.
double most_copied_bytes();

/// Bytes of memory of the whole machine.
double total_memory_bytes();

/// "Linux 6.1.0 x86_64".
std::string system_name();

}  // namespace stages
