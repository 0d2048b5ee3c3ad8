#pragma once
// Other programs: where they are, the words that start them, and how one ended.

#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// Pointers to the words, and a null behind them, for exec.
std::vector<char*> pointers_to(const std::vector<std::string>& words);

/// Where the shell would find a program; empty: nowhere.
std::string found_on_path(const std::string& name);

/// The words of a text, between blanks.
std::vector<std::string> words_in(std::string_view text);

/// The words of STAGES_MPIRUN, which start ranks, without their number; `otherwise` where it is not set.
std::vector<std::string> words_that_start_ranks(std::vector<std::string> otherwise);

/// "SIGKILL (Killed)".
std::string signal_text(int number);

}  // namespace stages
