// Every function of the device language does what the CUDA C++ Programming Guide says, in every thread order.

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "common/gpu/cluster.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/tensor.hpp"
#include "tests/simt/support.hpp"

namespace stages::simt_tests {
namespace {

constexpr unsigned kAll = 0xffffffffu;

// Runs `kernel` over one block of `threads` under every schedule and checks each thread's answer.
template <class T, class Expected>
void expect_per_thread(void (*kernel)(T*), unsigned threads, Expected expected) {
  in_every_order([&] {
    DeviceArray<T> out(threads);
    launch(kernel, {1, threads}, out.data());
    const auto host = out.to_host();
    for (unsigned i = 0; i < threads; ++i) EXPECT_EQ(host[i], expected(i)) << "thread " << i;
  });
}

using Language = KernelTest;

// A test: PER_THREAD(NAME, type, threads, what thread t answers) { the kernel, which answers in
// out[threadIdx.x] }
#define PER_THREAD(NAME, T, THREADS, ...)                                      \
  __global__ void NAME(T* out);                                                \
  TEST_F(Language, NAME) { expect_per_thread<T>(NAME, THREADS, __VA_ARGS__); } \
  __global__ void NAME(T* out)

__global__ void coordinates(uint3* thread, uint3* block, dim3 expected_block, dim3 expected_grid) {
  const bool shapes_agree = blockDim.x == expected_block.x && blockDim.y == expected_block.y &&
                            blockDim.z == expected_block.z && gridDim.x == expected_grid.x &&
                            gridDim.y == expected_grid.y && gridDim.z == expected_grid.z && warpSize == 32;
  const unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned at = b * blockDim.x * blockDim.y * blockDim.z + t;
  if (!shapes_agree) return;
  thread[at] = threadIdx;
  block[at] = blockIdx;
}

TEST_F(Language, EveryThreadOfEveryBlockRunsOnce) {
  const dim3 grid(3, 4, 2), block(5, 3, 2);
  in_every_order([&] {
    DeviceArray<uint3> thread(24 * 30), block_of(24 * 30);
    launch(coordinates, {grid, block}, thread.data(), block_of.data(), block, grid);
    const auto t = thread.to_host(), b = block_of.to_host();
    for (unsigned i = 0; i < 24 * 30; ++i) {
      EXPECT_EQ(t[i].x + 5 * (t[i].y + 3 * t[i].z), i % 30);
      EXPECT_EQ(b[i].x + 3 * (b[i].y + 4 * b[i].z), i / 30);
    }
  });
}

PER_THREAD(BlockVotes, int, 75, [](unsigned) { return 37 * 1000 + 100 + 10; }) {
  const int odd = threadIdx.x % 2;
  const int count = __syncthreads_count(odd), any = __syncthreads_or(threadIdx.x == 7);
  const int all = __syncthreads_and(threadIdx.x < 1000), none = __syncthreads_and(odd);
  out[threadIdx.x] = count * 1000 + any * 100 + all * 10 + none;
}

// Nobody passes before the others have come or gone.
PER_THREAD(AThreadThatReturnsLeavesTheBarrier, int, 96, [](unsigned t) { return t % 3 == 0 ? -1 : 64; }) {
  out[threadIdx.x] = -1;
  if (threadIdx.x % 3 == 0) return;
  out[threadIdx.x] = __syncthreads_count(1);
  __syncwarp();
  __syncthreads();
}

PER_THREAD(Shuffles, std::int64_t, 64, [](unsigned t) {
  const unsigned indexed = 100 + t / 8 * 8 + 3, up = 100 + (t % 16 < 2 ? t : t - 2);
  const unsigned down = 100 + (t % 32 == 31 ? t : t + 1), crossed = 100 + (t ^ 5);
  return static_cast<std::int64_t>(indexed) + (static_cast<std::int64_t>(up) << 16) +
         (static_cast<std::int64_t>(down) << 32) + (static_cast<std::int64_t>(crossed) << 48);
}) {
  const int t = static_cast<int>(threadIdx.x), v = 100 + t;
  const double wide = v;
  const auto indexed = static_cast<std::int64_t>(__shfl_sync(kAll, wide, 3, 8));
  const std::int64_t up = __shfl_up_sync(kAll, v, 2u, 16), down = __shfl_down_sync(kAll, v, 1u);
  const auto crossed = static_cast<std::int64_t>(__shfl_xor_sync(kAll, wide, 5));
  out[t] = indexed + (up << 16) + (down << 32) + (crossed << 48);
}

// Beyond its segment of `width` lanes xor reads earlier segments but not later ones.
PER_THREAD(ShuffleXorBeyondItsWidth, int, 32,
           [](unsigned t) { return static_cast<int>((t ^ 8) > (t | 7) ? t : t ^ 8); }) {
  out[threadIdx.x] = __shfl_xor_sync(kAll, static_cast<int>(threadIdx.x), 8, 8);
}

PER_THREAD(HalvesOfAWarpGoTheirOwnWays, unsigned, 64,
           [](unsigned t) { return t % 32 < 16 ? 3 * (15 - t % 32) : 0xaaaa0000u; }) {
  const unsigned lane = threadIdx.x % 32;
  unsigned result = 0;
  if (lane < 16) {
    for (int i = 0; i < 3; ++i) result += __shfl_sync(0x0000ffffu, lane, 15 - static_cast<int>(lane));
  } else {
    result = __ballot_sync(0xffff0000u, lane % 2);
  }
  out[threadIdx.x] = result;
}

PER_THREAD(WarpVotes, unsigned, 64, [](unsigned t) { return 0x22222222u ^ (t < 32 ? 0u : 3u); }) {
  const unsigned ballot = __ballot_sync(kAll, threadIdx.x % 4 == 1);
  const int any = __any_sync(kAll, threadIdx.x == 40), all = __all_sync(kAll, threadIdx.x >= 32);
  out[threadIdx.x] = ballot ^ static_cast<unsigned>(2 * any + all);
}

PER_THREAD(Matches, unsigned, 32, [](unsigned t) {
  unsigned mask = 0;
  for (unsigned other = t % 3; other < 32; other += 3) mask |= 1u << other;
  return mask;
}) {
  out[threadIdx.x] = __match_any_sync(kAll, threadIdx.x % 3);
}

// Devices before compute capability 8.0 have no instruction for these.
__global__ void reductions(int* out) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  const int v = static_cast<int>(threadIdx.x) - 10;
  const unsigned u = threadIdx.x;
  const bool good = __reduce_add_sync(kAll, v) == 496 - 320 && __reduce_min_sync(kAll, v) == -10 &&
                    __reduce_max_sync(kAll, v) == 21 && __reduce_add_sync(kAll, u) == 496u &&
                    __reduce_min_sync(kAll, u + 1) == 1u && __reduce_max_sync(kAll, u) == 31u &&
                    __reduce_and_sync(kAll, u | 64u) == 64u && __reduce_or_sync(kAll, u) == 31u &&
                    __reduce_xor_sync(kAll, u) == 0u;
  out[threadIdx.x] = good;
#else
  out[threadIdx.x] = -1;
#endif
}
TEST_F(Language, WarpReductions) {
  if (code_capability() < 80) GTEST_SKIP() << "no warp reductions in code for " << code_capability();
  expect_per_thread<int>(reductions, 32, [](unsigned) { return 1; });
}

// What our kernels use of them has a form for all devices. The largest value is in another lane of each warp.
PER_THREAD(TheLargestValueOfAWarp, int, 32 * 8, [](unsigned t) { return -5 - static_cast<int>(t / 32); }) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  out[threadIdx.x] = warp_max(lane == (7 * warp + 3) % 32 ? -5 - warp : -100 - lane);
}

struct TilesInMemory {
  float a[16][8], b[8][8], d[16][8];
};
__global__ void product_of_tiles(TilesInMemory* m) {
  const unsigned g = threadIdx.x / 4, k = threadIdx.x % 4;
  const float a[4] = {m->a[g][k], m->a[g + 8][k], m->a[g][k + 4], m->a[g + 8][k + 4]};
  const float b[2] = {m->b[k][g], m->b[k + 4][g]};
  float d[4] = {m->d[g][2 * k], m->d[g][2 * k + 1], m->d[g + 8][2 * k], m->d[g + 8][2 * k + 1]};
  multiply_tiles(d, a, b);
  m->d[g][2 * k] = d[0], m->d[g][2 * k + 1] = d[1];
  m->d[g + 8][2 * k] = d[2], m->d[g + 8][2 * k + 1] = d[3];
}
TilesInMemory after_product(const TilesInMemory& tiles) {
  DeviceArray<TilesInMemory> memory{std::span(&tiles, 1)};
  launch(product_of_tiles, {1, 32}, memory.data());
  return memory.to_host().front();
}

TEST_F(Language, AProductOfTilesIsThatOfTheirElements) {
  if (!has_tf32()) GTEST_SKIP() << "no TF32 in code for " << code_capability();
  TilesInMemory tiles = {};
  for (unsigned i = 0; i < 16 * 8; ++i) {
    tiles.a[i / 8][i % 8] = static_cast<float>(i * 37 % 101) - 50;
    tiles.d[i / 8][i % 8] = static_cast<float>(i * 53 % 89);
    if (i < 64) tiles.b[i / 8][i % 8] = static_cast<float>(i * 29 % 97) - 40;
  }
  in_every_order([&] {
    const TilesInMemory got = after_product(tiles);
    for (unsigned i = 0; i < 16 * 8; ++i) {
      float sum = tiles.d[i / 8][i % 8];
      for (unsigned k = 0; k < 8; ++k) sum += tiles.a[i / 8][k] * tiles.b[k][i % 8];
      EXPECT_EQ(got.d[i / 8][i % 8], sum) << "element " << i;
    }
  });
}

TEST_F(Language, ATileHasElevenBitsOfAFloatAndTwentyFourOfASum) {
  if (!has_tf32()) GTEST_SKIP() << "no TF32 in code for " << code_capability();
  const float bit_11 = 1.0f / 1024, bit_12 = bit_11 / 2;
  TilesInMemory tiles = {};
  tiles.a[0][0] = 1 + bit_11 + bit_12, tiles.a[1][0] = 1, tiles.a[2][0] = 1 + bit_11;
  tiles.b[0][0] = 1, tiles.b[0][1] = 1 + bit_12, tiles.b[0][2] = 1 + bit_11;
  const float after_one = std::nextafter(1.0f, 2.0f);
  tiles.d[3][3] = tiles.d[4][4] = 1, tiles.a[3][3] = 1, tiles.a[4][4] = 2;
  tiles.b[3][3] = tiles.b[4][4] = 0.875f * (after_one - 1);
  const TilesInMemory got = after_product(tiles);
  EXPECT_EQ(got.d[0][0], 1 + bit_11) << "the lower bits of a are ignored";
  EXPECT_EQ(got.d[1][1], 1.0f) << "the lower bits of b are ignored";
  EXPECT_EQ(got.d[2][2], 1 + 2 * bit_11 + bit_11 * bit_11) << "a product is exact";
  if (!device_facts().simulated) return;
  EXPECT_EQ(got.d[3][3], 1.0f) << "a sum is rounded towards zero, and after one was nearer";
  EXPECT_EQ(got.d[4][4], after_one);
}

__global__ void nearest(const float* from, float* to) { to[threadIdx.x] = to_tf32(from[threadIdx.x]); }
TEST_F(Language, TheNearestTf32Number) {
  if (!has_tf32()) GTEST_SKIP() << "no TF32 in code for " << code_capability();
  const float bit_11 = 1.0f / 1024, half = bit_11 / 2, little = half / 4;
  const std::vector<float> from = {0.0f, -3.0f, 1 + half - little, 1 + half, -1 - half, 1 + half + little};
  const std::vector<float> to = {0.0f, -3.0f, 1.0f, 1 + bit_11, -1 - bit_11, 1 + bit_11};
  DeviceArray<float> in{std::span<const float>(from)}, out(from.size());
  launch(nearest, {1, static_cast<unsigned>(from.size())}, in.data(), out.data());
  const auto got = out.to_host();
  for (std::size_t i = 0; i < from.size(); ++i) EXPECT_EQ(got[i], to[i]) << from[i];
}

// The guide promises the caller's own bit and nothing more.
PER_THREAD(ActiveMaskHoldsTheCaller, unsigned, 40, [](unsigned) { return 1u; }) {
  out[threadIdx.x] = __activemask() >> (threadIdx.x % 32) & 1;
}

struct Sums {
  int i = 0, low = 0, high = 0;
  unsigned u = 0, bits_or = 0, bits_and = 0, bits_xor = 0, wrapped = 0;
  unsigned long long ll = 0;
  float f = 0;
  double d = 0;
  unsigned swapped = 0, exchanged = 0, winners = 0;
};
__global__ void atomics(Sums* s) {
  const int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(&s->i, 2);
  atomicSub(&s->i, 1);
  atomicMin(&s->low, -t);
  atomicMax(&s->high, t);
  atomicAdd(&s->u, 3);
  atomicOr(&s->bits_or, 1u << (t % 32));
  atomicAnd(&s->bits_and, ~(1u << (t % 32)));
  atomicXor(&s->bits_xor, 1u << (t % 32));
  atomicInc(&s->wrapped, 6);
  atomicAdd(&s->ll, 1ull << 33);
  atomicAdd(&s->f, 0.5f);
  atomicAdd(&s->d, 0.25);
  if (atomicCAS(&s->swapped, 0u, 7u) == 0u) atomicAdd(&s->winners, atomicExch(&s->exchanged, 9u) + 1);
}
TEST_F(Language, AtomicsLoseNothing) {
  auto s = zeros<Sums>(1);
  launch(atomics, {64, 256}, s.data());
  const Sums r = s.to_host()[0];
  const int n = 64 * 256;
  EXPECT_EQ(r.i, n);
  EXPECT_EQ(r.low, 1 - n);
  EXPECT_EQ(r.high, n - 1);
  EXPECT_EQ(r.u, 3u * n);
  EXPECT_EQ(r.bits_or, kAll);
  EXPECT_EQ(r.bits_and, 0u);
  EXPECT_EQ(r.bits_xor, 0u);
  EXPECT_EQ(r.wrapped, n % 7u);
  EXPECT_EQ(r.ll, static_cast<unsigned long long>(n) << 33);
  EXPECT_EQ(r.f, 0.5f * n);
  EXPECT_EQ(r.d, 0.25 * n);
  EXPECT_EQ(r.swapped, 7u);
  EXPECT_EQ(r.exchanged, 9u);
  EXPECT_EQ(r.winners, 1u) << "who exchanges once, a zero";
}

// A lock in a plain loop, without any helper: the loop's atomics let the holder run.
__global__ void locked_increment(unsigned* lock, int* counter) {
  while (atomicCAS(lock, 0u, 1u) != 0u) {
  }
  const int before = __ldcg(counter);
  __nanosleep(1);
  __stcg(counter, before + 1);
  __threadfence();
  atomicExch(lock, 0u);
}
TEST_F(Language, ASpinLockMakesProgress) {
  in_every_order([&] {
    auto lock = zeros<unsigned>(1);
    auto counter = zeros<int>(1);
    launch(locked_increment, {4, 16}, lock.data(), counter.data());
    EXPECT_EQ(counter.to_host()[0], 64);
  });
}

// Data and flag by release and acquire, round after round, each block waiting for its neighbour.
__global__ void ring(int* data, unsigned* flags, int rounds, int* sums) {
  const unsigned left = (blockIdx.x + gridDim.x - 1) % gridDim.x;
  for (int round = 1; round <= rounds; ++round) {
    if (threadIdx.x == 0) {
      data[blockIdx.x] = round * static_cast<int>(blockIdx.x + 1);
      cuda::atomic_ref<unsigned, cuda::thread_scope_device>(flags[blockIdx.x])
          .store(static_cast<unsigned>(round), cuda::memory_order_release);
    }
    const cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(flags[left]);
    spin_until([&] { return flag.load(cuda::memory_order_acquire) >= static_cast<unsigned>(round); });
    atomicAdd(&sums[round - 1], data[left]);
    grid_sync();
  }
}
TEST_F(Language, CooperativeBlocksWaitForEachOther) {
  constexpr int kBlocks = 16, kThreads = 40, kRounds = 20;
  in_every_order([&] {
    DeviceArray<int> data(kBlocks), sums(kRounds);
    auto flags = zeros<unsigned>(kBlocks);
    sums.zero(nullptr);
    launch(ring, {kBlocks, kThreads, 0, nullptr, true}, data.data(), flags.data(), kRounds, sums.data());
    const auto host = sums.to_host();
    for (int r = 0; r < kRounds; ++r) EXPECT_EQ(host[static_cast<std::size_t>(r)], (r + 1) * kThreads * 136);
  });
}

// Each block of a cluster reads its right neighbour's shared memory.
__global__ void cluster_neighbours(unsigned* out) {
  unsigned* mine = dynamic_shared<unsigned>();
  if (threadIdx.x == 0) mine[0] = 100 + cluster_rank();
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = *cluster_shared(mine, (cluster_rank() + 1) % gridDim.x);
  cluster_sync();
}
TEST_F(Language, AClusterReadsItsNeighboursSharedMemory) {
  if (!has_clusters(4)) GTEST_SKIP() << "no clusters on this device";
  in_every_order([&] {
    DeviceArray<unsigned> out(4);
    LaunchConfig config{4, 64, sizeof(unsigned)};
    config.cluster = 4;
    launch(cluster_neighbours, config, out.data());
    EXPECT_EQ(out.to_host(), (std::vector<unsigned>{101, 102, 103, 100}));
  });
}

// A hot load in a plain loop, without the helper, still lets the others run.
__global__ void wait_without_helper(unsigned* flag) {
  if (threadIdx.x == 0) {
    while (__ldcg(flag) == 0) {
    }
  } else {
    __stcg(flag, 1u);
  }
}
TEST_F(Language, APlainLoopOfCachedLoadsEnds) {
  auto flag = zeros<unsigned>(1);
  launch(wait_without_helper, {1, 2}, flag.data());
  EXPECT_EQ(flag.to_host()[0], 1u);
}

__global__ void intrinsics(int* failures) {
  const auto expect = [&](bool good, int number) {
    if (!good) atomicOr(failures, 1 << number);
  };
  expect(__popc(0xf0f0u) == 8 && __popcll(~0ull) == 64, 0);
  expect(__clz(1) == 31 && __clz(0) == 32 && __clzll(1ll << 40) == 23, 1);
  expect(__ffs(0) == 0 && __ffs(8) == 4 && __ffsll(1ll << 40) == 41, 2);
  expect(__umulhi(0x80000000u, 6u) == 3u && __float_as_int(1.0f) == 0x3f800000, 3);
  expect(__int_as_float(0x40000000) == 2.0f && __uint_as_float(__float_as_uint(3.f)) == 3.f, 4);
  expect(__double_as_longlong(__longlong_as_double(42)) == 42, 5);
  expect(min(3, 4) == 3 && max(3.5, 2.) == 3.5 && min(3u, 4u) == 3u, 6);
}
TEST_F(Language, Intrinsics) {
  auto failures = zeros<int>(1);
  launch(intrinsics, {1, 1}, failures.data());
  EXPECT_EQ(failures.to_host()[0], 0);
}

__global__ void cached(const float4* in, float4* out) {
  const float4 v = __ldg(&in[threadIdx.x]);
  __stcs(&out[threadIdx.x], make_float4(__ldcs(&in[0]).x, __ldcg(&in[0].y), __ldca(&in[0].z), v.w));
}
TEST_F(Language, CachedLoadsAndVectorTypes) {
  const std::vector<float4> host = {{1, 2, 3, 4}};
  DeviceArray<float4> in{std::span<const float4>(host)}, out(1);
  launch(cached, {1, 1}, in.data(), out.data());
  EXPECT_EQ(out.to_host()[0].w, 4.f);
  static_assert(sizeof(float3) == 12 && alignof(float4) == 16 && alignof(double2) == 16 &&
                alignof(uchar4) == 4);
}

}  // namespace
}  // namespace stages::simt_tests
