// Task: fill in how a warp takes places in a list: by one atomic addition of one lane.
// Step: 08_spgemm_multigpu
// Reference: 05_cuda_csr/thread_per_row
// At most: 1 lanes a request in atomics
//
// The rows that have non-zeros are written to a list, in any order. Each needs a place of its own. An atomic
// addition for each row is right, but all of them wait for one counter. So the lanes that have a row to write
// find out how many they are, one of them takes that many places, and tells the others where these begin.
// __ballot_sync(kAllLanes, wants) gives all lanes one word: bit l is set where lane l wants a place.
// __popc(word) is how many bits are set.
//
//   lane        0  1  2  3  4  5  6  7
//   has a row   .  x  x  .  .  x  .  x       ballot 0b10100110: 4 places, one call take(counter, 4) -> 10
//   place          10 11       12    13      where they begin, and how many set bits lie below one's own
//
// All lanes come to the ballot and to the shuffle, also those without a row.
//
// Hint: What does a lane need to know to find its place, and who knows it first?
// Hint: The leader may be lane 0, whether it has a row or not. It calls take() with the number of ones, if
//   there are any; a shuffle from lane 0 brings the answer to all; a lane adds its rank, as in exercise 20.
// Hint: const unsigned with = __ballot_sync(kAllLanes, wants); int begin = 0; if (lane == 0 && with != 0)
//   begin = take(counter, __popc(with)); begin = __shfl_sync(kAllLanes, begin, 0); return begin + __popc(with
//   & below);

#include "micro/spmv.hpp"

namespace stages {
namespace {

using micro::DeviceRows, micro::kAllLanes, micro::kWarp;
constexpr unsigned kBlock = 64;

/// counter[0] is how many places of the list are taken, counter[1] how often somebody asked.
__device__ int take(int* counter, int places) {
  atomicAdd(&counter[1], 1);
  return atomicAdd(&counter[0], places);
}

/// The place of this lane, if it wants one. All lanes come.
__device__ int place_of(int* counter, bool wants, unsigned lane) {
  // SOLUTION
  const unsigned with = __ballot_sync(kAllLanes, wants);
  int begin = 0;
  if (lane == 0 && with != 0) begin = take(counter, __popc(with));
  begin = __shfl_sync(kAllLanes, begin, 0);
  return begin + __popc(with & ((1u << lane) - 1u));
  // STUDENT
  // Your code. Until then each lane asks for itself.
  static_cast<void>(lane);
  return wants ? take(counter, 1) : 0;
  // END
}

__global__ void list_rows(const std::int32_t* row_ptr, Index rows, int* counter, Index* list) {
  const auto i = static_cast<Index>(blockIdx.x * kBlock + threadIdx.x);
  const bool wants = i < rows && row_ptr[i] < row_ptr[i + 1];
  const int place = place_of(counter, wants, threadIdx.x % kWarp);
  if (wants && place >= 0 && place < rows) list[place] = i;
}

template <class T>
__global__ void multiply(DeviceRows<T> a, const Index* list, Index listed, const T* x, T* y) {
  const auto place = static_cast<Index>(blockIdx.x * kBlock + threadIdx.x);
  if (place >= listed) return;
  const Index i = list[place];
  T sum = 0;
  for (std::int32_t p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
  y[i] = sum;
}

/// The rows with non-zeros. Throws Error where there are not as many places, or each row has asked for itself.
template <class T>
Index listed_rows(const std::vector<int>& counter, const Csr<T>& a) {
  Index expected = 0;
  for (Index i = 0; i < a.rows; ++i) expected += a.row_nnz(i) > 0;
  if (counter[0] != expected) fail("{} places are taken, and {} rows have entries", counter[0], expected);
  const unsigned warps = blocks_for(a.rows, kBlock) * (kBlock / kWarp);
  if (static_cast<unsigned>(counter[1]) > warps)
    fail("take() is called {} times by {} warps; once a warp is enough", counter[1], warps);
  return expected;
}

}  // namespace

void add_task(Registry& registry) {
  micro::add_spmv<micro::CsrSpmv>(
      registry, {.name = "micro/warp_leader", .idea = "one atomic addition a warp"},
      []<class T>(const DeviceRows<T>& a, const T* x, T* y, cudaStream_t stream, const Csr<T>& host) {
        DeviceArray<int> counter(2);
        DeviceArray<Index> list(static_cast<std::size_t>(a.rows));
        counter.zero(stream);
        list.zero(stream);
        launch(list_rows, {.grid = blocks_for(a.rows, kBlock), .block = kBlock, .stream = stream}, a.row_ptr,
               a.rows, counter.data(), list.data());
        const Index listed = listed_rows(counter.to_host(), host);
        if (a.rows > 0)
          STAGES_CUDA(cudaMemsetAsync(y, 0, static_cast<std::size_t>(a.rows) * sizeof(T), stream));
        launch(multiply<T>, {.grid = blocks_for(listed, kBlock), .block = kBlock, .stream = stream}, a,
               list.data(), listed, x, y);
      });
}

}  // namespace stages
