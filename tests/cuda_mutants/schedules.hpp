#pragma once
// The orders of threads in which a result must come out with the same bits.

#include "common/gpu/cuda.hpp"
#if STAGES_SIMULATED
#include "common/simt/executor.hpp"
#endif

namespace stages::cuda_mutants {

/// Calls run() once in each order of threads that the executor has; on a GPU, which has its own, nine times.
template <class Run>
void in_every_schedule(Run run) {
#if STAGES_SIMULATED
  for (const char* schedule : {"forward", "reverse", "random:1"}) {
    simt::set_schedule(schedule);
    run();
  }
  simt::set_schedule("");
#else
  for (int k = 0; k < 9; ++k) run();
#endif
}

}  // namespace stages::cuda_mutants
