#pragma once
// mpirun binds each rank to a core, which is right for what is timed. What is not timed may use the others.

#include <sched.h>

namespace stages {

/// While it lives, this thread and those that it starts may run on every processor that the system lets this
/// process have, whatever it was bound to. A system that does not allow the change leaves all as it was.
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
