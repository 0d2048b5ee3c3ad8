#pragma once
// Which kernels a test's cases come to, for tests/reached, which fails where there is a kernel that none came
// to.

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#ifdef STAGES_NOTES_KERNELS
#include "common/simt/executor.hpp"

extern "C" const char __executable_start;  // set by the linker
#endif

namespace stages {

/// Appends a line for each kernel that the executor ran since the last call to the file that STAGES_REACHED
/// names, if it names one: `who`, `what`, and where in the program the kernel lies, separated by tabs. On a
/// GPU it does nothing.
inline void note_reached([[maybe_unused]] const std::string& who, [[maybe_unused]] const std::string& what) {
#ifdef STAGES_NOTES_KERNELS
  const char* const file = std::getenv("STAGES_REACHED");
  if (file == nullptr) return;
  static std::ofstream out(file);
  for (const void* kernel : simt::take_kernels_that_ran()) {
    const auto place =
        reinterpret_cast<std::uintptr_t>(kernel) - reinterpret_cast<std::uintptr_t>(&__executable_start);
    out << who << '\t' << what << '\t' << place << '\n';
  }
#endif
}

}  // namespace stages
