// First contact: y = A x on a GPU, in plain CUDA, in one file.   nvcc -O3 first.cu -o first && ./first
//
// A has n x n elements, and each row gets a thread. The program makes A and x, copies them to the GPU,
// launches the kernel, checks y against a sum in double on the host, and times 100 launches. The other files
// of this step hold the same kernel in a frame that does all this for every kernel: the frame measures more
// carefully (docs/timing.md), checks more strictly (docs/checking.md), and runs without a GPU
// (docs/executor.md).

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

/// Ends the program with a message if a CUDA call has failed. CUDA never ends it by itself.
void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "first: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// One thread computes one element of y. Element (i, j) of A is a[i * n + j].
__global__ void first(const float* a, const float* x, float* y, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;  // which of all threads am I?
  if (row >= n) return;                                   // the last block may reach beyond the matrix
  float sum = 0;
  for (int j = 0; j < n; ++j) sum += a[row * n + j] * x[j];
  y[row] = sum;
}

int main() {
  const int n = 1000, block = 128, grid = (n + block - 1) / block;  // rounded up: 8 blocks, 1024 threads
  std::vector<float> a(n * n), x(n), y(n);
  for (int i = 0; i < n * n; ++i) a[i] = static_cast<float>(i % 7 - 3);
  for (int j = 0; j < n; ++j) x[j] = static_cast<float>(j % 5) / 4;

  float *device_a, *device_x, *device_y;  // the GPU has its own memory; the host cannot read these addresses
  check(cudaMalloc(&device_a, n * n * sizeof(float)), "cudaMalloc of A");
  check(cudaMalloc(&device_x, n * sizeof(float)), "cudaMalloc of x");
  check(cudaMalloc(&device_y, n * sizeof(float)), "cudaMalloc of y");
  check(cudaMemcpy(device_a, a.data(), n * n * sizeof(float), cudaMemcpyHostToDevice), "copy of A");
  check(cudaMemcpy(device_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice), "copy of x");
  check(cudaMemset(device_y, 0xFF, n * sizeof(float)), "poison");  // NaN: what nobody computes is seen

  first<<<grid, block>>>(device_a, device_x, device_y, n);
  check(cudaGetLastError(), "launch");
  check(cudaMemcpy(y.data(), device_y, n * sizeof(float), cudaMemcpyDeviceToHost), "copy of y");

  for (int i = 0; i < n; ++i) {
    double sum = 0, size = 0;  // size: what rounding errors are measured against
    for (int j = 0; j < n; ++j) {
      const double product = double{a[i * n + j]} * x[j];
      sum += product;
      size += std::fabs(product);
    }
    if (!(std::fabs(y[i] - sum) <= 6e-8 * n * size)) {  // not >, which a NaN would pass
      std::printf("wrong: y[%d] is %g and should be %g\n", i, y[i], sum);
      return 1;
    }
  }

  cudaEvent_t start, stop;  // the GPU's clock: a launch returns before the kernel has run
  check(cudaEventCreate(&start), "event");
  check(cudaEventCreate(&stop), "event");
  check(cudaEventRecord(start), "event");
  for (int i = 0; i < 100; ++i) first<<<grid, block>>>(device_a, device_x, device_y, n);
  check(cudaEventRecord(stop), "event");
  check(cudaEventSynchronize(stop), "kernel");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, start, stop), "time");
  std::printf("right: %d rows", n);
  if (ms > 0) std::printf(", %.2f us a product, %.0f GB/s of the matrix", ms * 10, n * n * 4e-4 / ms);
  std::printf("\n");
  cudaFree(device_a);
  cudaFree(device_x);
  cudaFree(device_y);
}
