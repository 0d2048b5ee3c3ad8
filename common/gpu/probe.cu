// Kernels of the program itself: one to ask the runtime about, so that it learns which of the architectures
// that it was compiled for runs on this device (facts.cpp), and one that only takes time (exec.cpp).

#include "common/gpu/backend.hpp"

namespace stages {

__global__ void probe() {}

cudaError_t probe_attributes(cudaFuncAttributes& attributes) {
  return cudaFuncGetAttributes(&attributes, probe);
}

__global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

void spin_on(cudaStream_t stream, long long cycles) { spin<<<1, 1, 0, stream>>>(cycles); }

}  // namespace stages
