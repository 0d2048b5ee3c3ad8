// A kernel to ask the runtime about, so that the program learns which of the architectures that it was
// compiled for runs on this device (facts.cpp).

#include "common/gpu/backend.hpp"

namespace stages {

__global__ void probe() {}

cudaError_t probe_attributes(cudaFuncAttributes& attributes) {
  return cudaFuncGetAttributes(&attributes, probe);
}

}  // namespace stages
