#pragma once
// The processors that this process may use.

#include <sched.h>

#include <algorithm>
#include <thread>

namespace stages {

/// Logical processors that this process may run on (its affinity); at least 1.
inline int available_processors() {
  cpu_set_t set;
  // It does not hold the processors of a very large machine: then what the system tells.
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// While it lives, this thread and those that it starts may run on every processor that the system lets this
/// process have, whatever it was bound to: mpirun binds each rank to a core, which is right for what is timed,
/// and what is not timed may use the others. A system that does not allow the change leaves all as it was.
class AllProcessors {
 public:
  AllProcessors() {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &all);
    changed_ = sched_setaffinity(0, sizeof all, &all) == 0;
  }
  ~AllProcessors() {
    if (changed_) sched_setaffinity(0, sizeof before_, &before_);
  }
  AllProcessors(const AllProcessors&) = delete;
  AllProcessors& operator=(const AllProcessors&) = delete;

 private:
  cpu_set_t before_ = {};
  bool changed_ = false;
};

}  // namespace stages
