#include "common/matrix/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace stages {

int available_processors() {
  cpu_set_t set;
  // It does not hold the processors of a very large machine: then what the system tells.
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace stages
