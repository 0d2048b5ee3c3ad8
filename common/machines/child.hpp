#pragma once
// Child processes: what one does between fork and the program that it becomes, and how one ended.

#include <sys/types.h>

#include <string>
#include <vector>

namespace stages {

/// In the child: leaves `parent`'s process group, to hear of Ctrl-C from that alone, and ends with `parent`.
void end_with(pid_t parent);

/// In the child: becomes the program `words`, found as a shell finds it; returns, with errno, where it cannot.
void become_program(const std::vector<std::string>& words);

/// Where the shell would find a program; empty: nowhere.
std::string found_on_path(const std::string& name);

/// The words of STAGES_MPIRUN, which start ranks, without their number; `otherwise` where it is not set.
std::vector<std::string> words_that_start_ranks(std::vector<std::string> otherwise);

/// "SIGKILL (Killed)".
std::string signal_text(int number);

}  // namespace stages
