// The search for races against small kernels that each come in two forms: with a race, and with what mends
// it.
#include <algorithm>
#include <functional>
#include <map>

#include "common/gpu/cuda.hpp"
#include "common/lens/recording/races.hpp"
#include "common/simt/executor.hpp"
#include "tests/expect.hpp"

namespace stages {
namespace {

using cuda::atomic_ref;
using cuda::memory_order_acquire;
using cuda::memory_order_relaxed;
using cuda::memory_order_release;
using cuda::thread_scope_block;
using cuda::thread_scope_device;

struct Pair {
  const char* name;
  void (*good)(int*, unsigned*);
  void (*bad)(int*, unsigned*);
  unsigned blocks, threads;
  bool cooperative;
};

std::vector<Pair>& pairs() {
  static std::vector<Pair> all;
  return all;
}

// A pair: `good` is true in the form without a race. `a` and `f` are zero at first. Blocks of a pair with
// AT_ONCE may wait for each other.
#define PAIR_OF(NAME, BLOCKS, THREADS, AT_ONCE)                                              \
  template <bool good>                                                                       \
  __global__ void NAME(int* a, unsigned* f);                                                 \
  const bool added_##NAME =                                                                  \
      (pairs().push_back({#NAME, NAME<true>, NAME<false>, BLOCKS, THREADS, AT_ONCE}), true); \
  template <bool good>                                                                       \
  __global__ void NAME([[maybe_unused]] int* a, [[maybe_unused]] unsigned* f)
#define PAIR(NAME, BLOCKS, THREADS) PAIR_OF(NAME, BLOCKS, THREADS, false)
#define PAIR_AT_ONCE(NAME, BLOCKS) PAIR_OF(NAME, BLOCKS, 32, true)

__device__ int me() { return static_cast<int>(threadIdx.x); }
__device__ int everywhere() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

/// Block 0 writes a[0] and says so in f by PUBLISH; block 1 waits by AWAIT until it did, and reads it.
#define PASS_ON(NAME, PUBLISH, AWAIT)                   \
  PAIR_AT_ONCE(NAME, 2) {                               \
    [[maybe_unused]] volatile unsigned* const flag = f; \
    if (me() != 0) return;                              \
    if (blockIdx.x == 0) {                              \
      a[0] = 7;                                         \
      PUBLISH;                                          \
    } else {                                            \
      AWAIT;                                            \
      a[1] = a[0];                                      \
    }                                                   \
  }
__device__ void await_by_loads(const unsigned* f) {
  spin_until([&] { return __ldcg(f) == 1; });
  __threadfence();
}
template <cuda::thread_scope scope = thread_scope_device>
__device__ void publish_by_ref(unsigned* f, cuda::memory_order order) {
  atomic_ref<unsigned, scope>(*f).store(1, order);
}
__device__ void await_by_ref(unsigned* f, cuda::memory_order order) {
  spin_until([&] { return atomic_ref<unsigned, thread_scope_device>(*f).load(order) == 1; });
}

// ---- an atomic ----
PAIR(sum, 2, 32) {
  if (good) atomicAdd(a, me());
  if (!good) a[0] += me() + 1;
}
PAIR(plain_read_beside, 2, 1) {
  atomicAdd(a, 1);
  a[1 + everywhere()] = good ? atomicAdd(a, 0) : a[0];
}
PAIR(plain_store_beside, 2, 32) {
  if (everywhere() != 0) atomicAdd(a, 1);
  if (everywhere() == 0 && good) atomicExch(a, 5);
  if (everywhere() == 0 && !good) a[0] = 5;
}
PAIR(counter_put_back, 4, 32) {
  // The last to come knows of all others by what it read.
  if (me() != 0) return;
  const unsigned before = atomicAdd(f, 1u);
  __threadfence();
  if (before == (good ? gridDim.x - 1 : 0)) f[0] = 0;
}
PAIR(counter_put_back_by_another_lane, 4, 32) {
  unsigned before = 0;
  if (me() == 0) before = atomicAdd(f, 1u);
  before = __shfl_sync(0xffffffffu, before, 0);
  __threadfence();
  if (me() == 5 && before == (good ? gridDim.x - 1 : 0)) f[0] = 0;
}

// ---- scope ----
PAIR(add_of_a_block, 2, 32) { atomicAdd_block(good ? &a[blockIdx.x] : a, 1); }
PAIR(ref_of_block, 2, 32) {
  constexpr auto kScope = good ? thread_scope_device : thread_scope_block;
  atomic_ref<int, kScope>(a[0]).fetch_add(1, memory_order_relaxed);
}
PASS_ON(fence_of_block, good ? __threadfence() : __threadfence_block(); atomicExch(f, 1u), await_by_loads(f))
PASS_ON(release_of_block,
        publish_by_ref<good ? thread_scope_device : thread_scope_block>(f, memory_order_release),
        await_by_ref(f, memory_order_acquire))

// ---- a fence ----
/// The last block to come adds up what all have.
#define ADD_UP(NAME, BEFORE, BEHIND)                           \
  PAIR(NAME, 4, 32) {                                          \
    if (me() != 0) return;                                     \
    a[1 + blockIdx.x] = 1;                                     \
    if (BEFORE) __threadfence();                               \
    if (atomicAdd(f, 1u) != gridDim.x - 1) return;             \
    if (BEHIND) __threadfence();                               \
    for (unsigned b = 0; b < gridDim.x; ++b) a[0] += a[1 + b]; \
  }
ADD_UP(last_block_adds_up, good, true)
ADD_UP(reader_without_fence, true, good)
PASS_ON(relaxed_flag, publish_by_ref(f, good ? memory_order_release : memory_order_relaxed),
        await_by_ref(f, memory_order_acquire))
PASS_ON(relaxed_read_of_flag, publish_by_ref(f, memory_order_release),
        await_by_ref(f, good ? memory_order_acquire : memory_order_relaxed))
PASS_ON(volatile_flag, if (good) __threadfence(); *flag = 1, spin_until([&] { return *flag == 1; });
        __threadfence())
PASS_ON(flag_before_data, __threadfence(); atomicExch(f, 1u); if (!good) a[0] = 8, await_by_loads(f))
PAIR(block_writes_one_counts, 4, 64) {
  __shared__ bool last;
  a[64 + everywhere()] = me();
  if (good) __threadfence();
  __syncthreads();
  if (me() == 0) last = atomicAdd(f, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  a[me()] = a[64 + me()] + a[128 + me()];
}
PAIR_AT_ONCE(grid_barrier, 4) {
  a[everywhere()] = me();
  if (good) grid_sync();
  a[256 + everywhere()] = a[127 - everywhere()];
}

// ---- shared memory ----
#include "tests/lens/shared_pairs.inc"
BETWEEN(std_copy, __syncthreads(), std::copy_n(a + mine, one, s + mine), a[64 + mine] = s[63 - mine])
PAIR(std_fill_beside, 1, 64) {
  auto* const bytes = reinterpret_cast<unsigned char*>(room().data);
  if (me() < 8) std::fill_n(bytes + me() * 8, good ? 8 : 9 + f[0], static_cast<unsigned char>(me()));
}

// ---- indices ----
PAIR(blocks_overlap, 2, 32) { a[blockIdx.x * (good ? 32 : 31) + threadIdx.x] = everywhere(); }
PAIR(same_value, 1, 32) { a[0] = good ? 7 : me(); }
PAIR(wide_and_narrow, 1, 64) {
  if (me() < 32) reinterpret_cast<long long*>(a)[me()] = -1;
  if (me() >= 32) a[good ? 64 + me() : me()] = me();
}

__global__ void write_all(int* a, int value) { a[me()] = value + me(); }
__global__ void read_all(const int* a, int* b) { b[me()] = a[me()]; }

/// What orders work on two streams.
struct StreamCase {
  const char* name;
  bool good;
  std::function<void(std::unique_ptr<Stream>&, std::unique_ptr<Stream>&)> between;
};

std::vector<StreamCase> stream_cases() {
  using Own = std::unique_ptr<Stream>&;
  const auto event = [](const Stream& of, const Stream& waiting) {
    const Event done;
    done.record(of);
    STAGES_CUDA(cudaStreamWaitEvent(waiting, done, 0));
  };
  return {
      {"nothing", false, [](Own, Own) {}},
      {"one_stream", true, [](Own s, Own t) { std::swap(s, t); }},
      {"event", true, [=](Own s, Own t) { event(*s, *t); }},
      {"event_of_the_wrong_stream", false, [=](Own, Own t) { event(*t, *t); }},
      {"event_that_may_have_an_old_handle", false,
       [=](Own s, Own t) {
         event(*s, *s);
         for (int i = 0; i < 4; ++i) STAGES_CUDA(cudaStreamWaitEvent(*t, Event(), 0));
       }},
      {"wait_on_the_host", true, [](Own s, Own) { STAGES_CUDA(cudaStreamSynchronize(*s)); }},
      {"wait_for_the_wrong_stream", false, [](Own, Own t) { STAGES_CUDA(cudaStreamSynchronize(*t)); }},
      {"end_of_the_stream", false, [](Own s, Own) { s.reset(); }},
      {"stream_that_may_have_an_old_handle", false,
       [](Own s, Own t) {
         const cudaStream_t old = *s;
         s.reset();
         for (int i = 0; i < 100 && *t != old; ++i) t = std::make_unique<Stream>();
       }},
      {"wait_for_the_device", true, [](Own, Own) { STAGES_CUDA(cudaDeviceSynchronize()); }},
  };
}

/// A line for each race of a run.
std::string look(const std::function<void()>& run) {
  simt::begin_races(true);
  run();
  const simt::RaceFindings found = simt::end_races();
  EXPECT_EQ(found.shortage, "");
  std::string text;
  for (const simt::Race& race : found.races) text += text_of(race) + "\n";
  return text;
}

std::string look_at_pair(const Pair& pair, bool good) {
  DeviceArray<int> a(4096);
  DeviceArray<unsigned> f(64);
  a.fill_bytes(0, nullptr);
  f.fill_bytes(0, nullptr);
  return look([&] {
    launch(good ? pair.good : pair.bad,
           {.grid = pair.blocks,
            .block = pair.threads,
            .shared_bytes = sizeof(Room),
            .cooperative = pair.cooperative},
           a.data(), f.data());
  });
}

TEST(Races, PairsAreToldApartInEveryOrderOfThreads) {
  for (const char* schedule : {"forward", "reverse", "random:3"}) {
    simt::set_schedule(schedule);
    for (const Pair& pair : pairs()) {
      EXPECT_NE(look_at_pair(pair, false), "") << schedule << ": " << pair.name << ": the race is not found";
      EXPECT_EQ(look_at_pair(pair, true), "") << schedule << ": " << pair.name;
    }
  }
  simt::set_schedule("");
}

TEST(Races, StreamsNeedAnOrder) {
  DeviceArray<int> a(32), b(32);
  const std::function<void(const Stream&)> works[] = {
      [&](const Stream& s) { launch(write_all, {.grid = 1, .block = 32, .stream = s}, a.data(), 1); },
      [&](const Stream& s) { launch(read_all, {.grid = 1, .block = 32, .stream = s}, a.data(), b.data()); },
      [&](const Stream& s) { a.fill_bytes(1, s); },
      [&](const Stream& s) {
        STAGES_CUDA(cudaMemcpyAsync(b.data(), a.data(), a.bytes(), cudaMemcpyDeviceToDevice, s));
      }};
  for (const StreamCase& c : stream_cases()) {
    for (const auto& [one, two] :
         {std::pair{0, 1}, {0, 2}, {2, 0}, {0, 3}, {3, 0}, {2, 1}, {2, 3}, {1, 3}, {2, 2}}) {
      const std::string found = look([&] {
        auto first = std::make_unique<Stream>(), second = std::make_unique<Stream>();
        works[one](*first);
        c.between(first, second);
        works[two](*second);
      });
      EXPECT_EQ(found.empty(), c.good) << c.name << ", " << one << " and " << two << ": " << found;
    }
  }
}

__global__ void told(int* a) {
  __shared__ int s[64];
  s[me()] = me();          // the line of the store
  a[me()] = s[63 - me()];  // the line of the load
}
constexpr unsigned kLineOfLoad = __LINE__ - 2;

TEST(Races, AReportNamesBothSides) {
  DeviceArray<int> a(64);
  const std::string found = look([&] { launch(told, {.grid = 1, .block = 64}, a.data()); });
  EXPECT_TRUE(has_all(found, {"shared memory", fmt::format("races_tests.cu:{}", kLineOfLoad),
                              fmt::format("races_tests.cu:{}", kLineOfLoad - 1), "block (0,0,0) thread (",
                              "missing: a __sync"}));
}

// A sum of many threads without an atomic lacks one, and no barrier; where each has its own place, a barrier.
TEST(Races, AReportSaysWhatIsMissing) {
  const std::map<std::string, std::string> missing = {
      {"sum", "an atomic operation"},
      {"histogram", "an atomic operation"},
      {"neighbour_in_shared", "a __syncthreads()"},
      {"tile_used_again", "a __syncthreads()"},
      {"warp_neighbour", "a __syncwarp() of both lanes"},
      {"warp_reduction", "a __syncwarp() of both lanes"},
      {"volatile_warp_reduction", "a __syncwarp() of both lanes"},
      {"volatile_of_a_block", "a __syncthreads()"},
      {"one_writes_all_read", "a __syncthreads()"},
      {"early_return", "a __syncthreads()"},
      {"halves_of_a_word", "atomics of one size"},
      {"ldg_of_own_launch", "a plain load: __ldg"},
      {"plain_read_beside", "an atomic access on both sides, or a fence and a flag"}};
  for (const auto& [name, cure] : missing) {
    const auto pair = std::ranges::find(pairs(), name, &Pair::name);
    ASSERT_NE(pair, pairs().end()) << name;
    const std::string text = look_at_pair(*pair, false);
    EXPECT_NE(text.find("missing: " + cure), std::string::npos) << name << ": " << text;
    // All pairs of two lines have one cure.
    for (const std::string other : {"a __sync", "a __syncwarp", "an atomic operation"})
      EXPECT_EQ(text.find("missing: " + other) != std::string::npos, cure.starts_with(other)) << text;
  }
}

TEST(Races, AreAFaultOfALaunchWhereTheyAreNotCollected) {
  DeviceArray<int> a(64);
  simt::begin_races(false);
  const std::string error = error_of([&] { launch(told, {.grid = 1, .block = 64}, a.data()); });
  simt::end_races();
  EXPECT_TRUE(has(error, "a race: "));
}

}  // namespace
}  // namespace stages
