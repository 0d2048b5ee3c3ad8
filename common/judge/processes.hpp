#pragma once
// What the system tells of the processes of this machine.

#include <sys/resource.h>
#include <sys/types.h>

#include <vector>

namespace stages::judge {

struct Process {
  pid_t id = 0;
  pid_t parent = 0;
  char state = ' ';
  double resident = 0;  ///< bytes
};

/// What this process has started, and what that has started.
std::vector<Process> descendants();

/// Bytes that a process has had written to a disk; 0: nobody tells.
double written_by(pid_t process);

/// Processes and threads of a user, as the kernel counts them for RLIMIT_NPROC.
rlim_t tasks_of(uid_t user);

}  // namespace stages::judge
