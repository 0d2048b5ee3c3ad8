#pragma once
// The one place that knows which CUDA this is: NVIDIA's (the gpu preset) or the executor in common/simt (the
// cpu preset). The gpu preset defines STAGES_BACKEND_GPU for host sources, which g++ compiles; nvcc is known
// by __CUDACC__. STAGES_SIMULATED is 1 or 0 accordingly, for the few headers in common/gpu that need a twin.

#if defined(__CUDACC__) || defined(STAGES_BACKEND_GPU)
#include <cuda_runtime.h>
#define STAGES_SIMULATED 0
#else
#include "common/simt/runtime.hpp"
#define STAGES_SIMULATED 1
#endif

#ifdef __CUDACC__
#include <cooperative_groups.h>

#include <cuda/atomic>
#endif

/// For functions that both the host and kernels call.
#ifdef __CUDACC__
#define STAGES_HD __host__ __device__
#else
#define STAGES_HD
#endif
