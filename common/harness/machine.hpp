#pragma once
// What this machine is: the facts that results carry as context and that limits are set from.

#include <string>

namespace stages {

/// The processor's name as the system tells it; "unknown CPU" where it doesn't.
std::string cpu_name();

/// Logical processors that this process may use.
int available_cpus();

/// Bytes of the largest cache of CPU 0; 0 where the system doesn't tell.
double last_level_cache_bytes();

/// Bytes of memory of the whole machine.
double total_memory_bytes();

/// "Linux 6.1.0 x86_64".
std::string system_name();

}  // namespace stages
