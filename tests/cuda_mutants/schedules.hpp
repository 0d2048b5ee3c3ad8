#pragma once
// The orders of threads in which a result must come out with the same bits.

#include "common/gpu/cuda.hpp"
#if STAGES_SIMULATED
#include "common/simt/executor.hpp"
#endif

namespace stages::cuda_mutants {

/// Calls run() three times in each order of threads that the executor has; a GPU has its own.
template <class Run>
void in_every_schedule(Run run) {
  for (const char* schedule : {"forward", "reverse", "random:1"}) {
#if STAGES_SIMULATED
    simt::set_schedule(schedule);
#else
    static_cast<void>(schedule);
#endif
    for (int k = 0; k < 3; ++k) run();
  }
#if STAGES_SIMULATED
  simt::set_schedule("");
#endif
}

}  // namespace stages::cuda_mutants
