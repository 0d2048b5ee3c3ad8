// The search for races against small kernels that each come in two forms: with a race, and with what mends
// it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/gpu/cuda.hpp"
#include "common/simt/lens/races.hpp"

namespace stages {
namespace {

using cuda::atomic_ref;
using cuda::memory_order_acquire;
using cuda::memory_order_relaxed;
using cuda::memory_order_release;
using cuda::thread_scope_block;
using cuda::thread_scope_device;

struct Pair {
  const char* group;
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
struct Added {
  explicit Added(Pair pair) { pairs().push_back(pair); }
};

// A pair: `good` is true in the form without a race. `a` and `f` are zero at first. Blocks of a pair with
// AT_ONCE may wait for each other.
#define PAIR_OF(GROUP, NAME, BLOCKS, THREADS, AT_ONCE)                                         \
  template <bool good>                                                                         \
  __global__ void NAME(int* a, unsigned* f);                                                   \
  const Added added_##NAME({GROUP, #NAME, NAME<true>, NAME<false>, BLOCKS, THREADS, AT_ONCE}); \
  template <bool good>                                                                         \
  __global__ void NAME([[maybe_unused]] int* a, [[maybe_unused]] unsigned* f)
#define PAIR(GROUP, NAME, BLOCKS, THREADS) PAIR_OF(GROUP, NAME, BLOCKS, THREADS, false)
#define PAIR_AT_ONCE(GROUP, NAME, BLOCKS) PAIR_OF(GROUP, NAME, BLOCKS, 32, true)

__device__ int me() {
  return static_cast<int>(threadIdx.x);
}
__device__ int everywhere() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

// ---- a barrier ----
PAIR("barrier", neighbour_in_shared, 1, 64) {
  __shared__ int s[64];
  s[me()] = me();
  if (good) __syncthreads();
  a[me()] = s[63 - me()];
}
PAIR("barrier", neighbour_in_global, 1, 64) {
  a[me()] = me();
  if (good) __syncthreads();
  a[64 + me()] = a[63 - me()];
}
PAIR("barrier", tile_overwritten, 1, 64) {
  __shared__ int s[64];
  for (int round = 0; round < 2; ++round) {
    s[me()] = me() + round;
    __syncthreads();
    a[me()] += s[63 - me()];
    if (good) __syncthreads();
  }
}
PAIR("barrier", reduction, 1, 128) {
  __shared__ int s[128];
  s[me()] = me();
  __syncthreads();
  for (int d = 64; d > 0; d /= 2) {
    if (me() < d) s[me()] += s[me() + d];
    if (good || d < 32) __syncthreads();
  }
  if (me() == 0) a[0] = s[0];
}
PAIR("barrier", scan_in_place, 1, 64) {
  __shared__ int s[64];
  s[me()] = 1;
  __syncthreads();
  for (int d = 1; d < 64; d *= 2) {
    const int before = me() >= d ? s[me() - d] : 0;
    if (good) __syncthreads();
    s[me()] += before;
    __syncthreads();
  }
  a[me()] = s[me()];
}
PAIR("barrier", flag_of_block, 1, 64) {
  __shared__ int found;
  if (me() == 0) found = 7;
  if (good) __syncthreads();
  a[me()] = found;
}
PAIR("barrier", dynamic_tile, 1, 64) {
  int* const s = dynamic_shared<int>();
  s[me()] = me();
  if (good) __syncthreads();
  a[me()] = s[(me() + 32) % 64];
}
PAIR("barrier", zeroed_counter, 1, 64) {
  __shared__ int count;
  if (me() == 0) count = 0;
  if (good) __syncthreads();
  atomicAdd(&count, 1);
  __syncthreads();
  if (me() == 0) a[0] = count;
}
PAIR("barrier", counter_read, 1, 64) {
  __shared__ int count;
  if (me() == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);
  if (good) __syncthreads();
  if (me() == 63) a[0] = count;
}

// ---- __syncwarp ----
PAIR("syncwarp", warp_neighbour, 1, 32) {
  __shared__ int s[32];
  s[me()] = me();
  if (good) __syncwarp();
  a[me()] = s[31 - me()];
}
PAIR("syncwarp", warp_reduction, 1, 32) {
  __shared__ int s[32];
  s[me()] = me();
  __syncwarp();
  for (int d = 16; d > 0; d /= 2) {
    if (me() < d) s[me()] += s[me() + d];
    if (good) __syncwarp();
  }
  if (me() == 0) a[0] = s[0];
}
PAIR("syncwarp", half_mask, 1, 32) {
  __shared__ int s[32];
  s[me()] = me();
  const unsigned half = me() < 16 ? 0xffffu : 0xffff0000u;
  __syncwarp(good ? 0xffffffffu : half);
  a[me()] = s[31 - me()];
}
PAIR("syncwarp", halves_apart, 1, 32) {
  __shared__ int s[32];
  s[me()] = me();
  __syncwarp(me() < 16 ? 0xffffu : 0xffff0000u);
  a[me()] = s[good ? me() ^ 15 : me() ^ 16];
}
PAIR("syncwarp", warp_for_block, 1, 64) {
  __shared__ int s[64];
  s[me()] = me();
  __syncwarp();
  a[me()] = s[good ? me() ^ 1 : me() ^ 32];
}
PAIR("syncwarp", lane_0_tells, 1, 32) {
  __shared__ int s;
  for (int i = 0; i < 2; ++i) {
    if (me() == 0) s = i;
    __syncwarp();
    a[me()] += s;
    if (good) __syncwarp();
  }
}
PAIR("syncwarp", ballot_between, 1, 32) {
  __shared__ int s[32];
  s[me()] = me();
  if (good) a[64 + me()] = static_cast<int>(__ballot_sync(0xffffffffu, me() > 3));
  a[me()] = s[31 - me()];
}
PAIR("syncwarp", global_neighbour, 1, 32) {
  a[me()] = me();
  if (good) __syncwarp();
  a[32 + me()] = a[31 - me()];
}

// ---- an atomic ----
PAIR("atomic", sum, 2, 32) {
  if (good) {
    atomicAdd(a, me());
  } else {
    a[0] += me() + 1;
  }
}
PAIR("atomic", histogram, 1, 64) {
  __shared__ int bins[4];
  if (me() < 4) bins[me()] = 0;
  __syncthreads();
  if (good) {
    atomicAdd(&bins[me() % 4], 1);
  } else {
    ++bins[me() % 4];
  }
  __syncthreads();
  if (me() < 4) a[me()] = bins[me()];
}
PAIR("atomic", largest, 2, 32) {
  if (good) {
    atomicMax(a, everywhere());
  } else if (a[0] < everywhere()) {
    a[0] = everywhere();
  }
}
PAIR("atomic", plain_read_beside, 2, 32) {
  atomicAdd(a, 1);
  a[1 + everywhere()] = good ? atomicAdd(a, 0) : a[0];
}
PAIR("atomic", plain_store_beside, 2, 32) {
  if (everywhere() != 0) {
    atomicAdd(a, 1);
  } else if (good) {
    atomicExch(a, 5);
  } else {
    a[0] = 5;
  }
}
PAIR("atomic", counter_put_back, 4, 32) {
  // The last to come knows of all others by what it read.
  if (me() != 0) return;
  const unsigned before = atomicAdd(f, 1u);
  __threadfence();
  if (before == (good ? gridDim.x - 1 : 0)) f[0] = 0;
}
PAIR("atomic", counter_put_back_by_another_lane, 4, 32) {
  unsigned before = 0;
  if (me() == 0) before = atomicAdd(f, 1u);
  before = __shfl_sync(0xffffffffu, before, 0);
  __threadfence();
  if (me() == 5 && before == (good ? gridDim.x - 1 : 0)) f[0] = 0;
}
PAIR("atomic", table, 1, 64) {
  __shared__ int keys[64];
  keys[me()] = -1;
  __syncthreads();
  const int key = me() % 8;
  if (good) {
    atomicCAS(&keys[key], -1, me());
  } else if (keys[key] == -1) {
    keys[key] = me();
  }
}
PAIR("atomic", volatile_read, 1, 64) {
  __shared__ int keys[8];
  if (me() < 8) keys[me()] = -1;
  __syncthreads();
  int found = 0;
  if (good) {
    found = *const_cast<volatile int*>(&keys[me() % 8]);
  } else {
    found = keys[me() % 8];
  }
  if (found == -1) atomicCAS(&keys[me() % 8], -1, me() % 8);
}

// ---- scope ----
PAIR("scope", add_in_block, 2, 32) {
  if (good) {
    atomicAdd(a, 1);
  } else {
    atomicAdd_block(a, 1);
  }
}
PAIR("scope", add_of_a_block, 2, 32) {
  atomicAdd_block(good ? &a[blockIdx.x] : a, 1);
}
PAIR("scope", ref_of_block, 2, 32) {
  if (good) {
    atomic_ref<int, thread_scope_device>(a[0]).fetch_add(1, memory_order_relaxed);
  } else {
    atomic_ref<int, thread_scope_block>(a[0]).fetch_add(1, memory_order_relaxed);
  }
}
PAIR_AT_ONCE("scope", fence_of_block, 2) {
  if (me() != 0) return;
  if (blockIdx.x == 0) {
    a[0] = 7;
    if (good) {
      __threadfence();
    } else {
      __threadfence_block();
    }
    atomicExch(f, 1u);
  } else {
    spin_until([&] { return __ldcg(f) == 1; });
    __threadfence();
    a[1] = a[0];
  }
}
PAIR_AT_ONCE("scope", release_of_block, 2) {
  if (me() != 0) return;
  if (blockIdx.x == 0) {
    a[0] = 7;
    if (good) {
      atomic_ref<unsigned, thread_scope_device>(f[0]).store(1, memory_order_release);
    } else {
      atomic_ref<unsigned, thread_scope_block>(f[0]).store(1, memory_order_release);
    }
  } else {
    spin_until(
        [&] { return atomic_ref<unsigned, thread_scope_device>(f[0]).load(memory_order_acquire) == 1; });
    a[1] = a[0];
  }
}

// ---- a fence ----
PAIR("fence", last_block_adds_up, 4, 32) {
  if (me() != 0) return;
  a[1 + blockIdx.x] = 1;
  if (good) __threadfence();
  if (atomicAdd(f, 1u) != gridDim.x - 1) return;
  __threadfence();
  for (unsigned b = 0; b < gridDim.x; ++b) a[0] += a[1 + b];
}
PAIR("fence", reader_without_fence, 4, 32) {
  if (me() != 0) return;
  a[1 + blockIdx.x] = 1;
  __threadfence();
  if (atomicAdd(f, 1u) != gridDim.x - 1) return;
  if (good) __threadfence();
  for (unsigned b = 0; b < gridDim.x; ++b) a[0] += a[1 + b];
}
PAIR("fence", block_writes_one_counts, 4, 64) {
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
PAIR_AT_ONCE("fence", relaxed_flag, 2) {
  if (me() != 0) return;
  const atomic_ref<unsigned, thread_scope_device> flag(f[0]);
  if (blockIdx.x == 0) {
    a[0] = 7;
    flag.store(1, good ? memory_order_release : memory_order_relaxed);
  } else {
    spin_until([&] { return flag.load(memory_order_acquire) == 1; });
    a[1] = a[0];
  }
}
PAIR_AT_ONCE("fence", relaxed_read_of_flag, 2) {
  if (me() != 0) return;
  const atomic_ref<unsigned, thread_scope_device> flag(f[0]);
  if (blockIdx.x == 0) {
    a[0] = 7;
    flag.store(1, memory_order_release);
  } else {
    spin_until([&] { return flag.load(good ? memory_order_acquire : memory_order_relaxed) == 1; });
    a[1] = a[0];
  }
}
PAIR_AT_ONCE("fence", volatile_flag, 2) {
  if (me() != 0) return;
  volatile unsigned* const flag = f;
  if (blockIdx.x == 0) {
    a[0] = 7;
    if (good) __threadfence();
    *flag = 1;
  } else {
    spin_until([&] { return *flag == 1; });
    __threadfence();
    a[1] = a[0];
  }
}
PAIR_AT_ONCE("fence", flag_before_data, 2) {
  if (me() != 0) return;
  if (blockIdx.x == 0) {
    if (good) a[0] = 7;
    __threadfence();
    atomicExch(f, 1u);
    if (!good) a[0] = 7;
  } else {
    spin_until([&] { return __ldcg(f) == 1; });
    __threadfence();
    a[1] = a[0];
  }
}
PAIR_AT_ONCE("fence", grid_barrier, 4) {
  a[everywhere()] = me();
  if (good) grid_sync();
  a[256 + everywhere()] = a[127 - everywhere()];
}

// ---- indices ----
PAIR("index", one_too_far, 1, 64) {
  a[me()] = me();
  if (good ? me() < 0 : me() == 5) a[me() + 1] = 3;
}
PAIR("index", blocks_overlap, 2, 32) {
  a[blockIdx.x * (good ? 32 : 31) + threadIdx.x] = everywhere();
}
PAIR("index", bytes_overlap, 1, 32) {
  auto* const bytes = reinterpret_cast<unsigned char*>(a);
  bytes[good ? me() : me() / 2] = static_cast<unsigned char>(me());
}
PAIR("index", same_value, 1, 32) {
  a[0] = good ? 7 : me();
}
PAIR("index", wide_and_narrow, 1, 64) {
  if (me() < 32) {
    reinterpret_cast<long long*>(a)[me()] = -1;
  } else {
    a[good ? 64 + me() : me()] = me();
  }
}

__global__ void write_all(int* a, int value) {
  a[me()] = value + me();
}
__global__ void read_all(const int* a, int* b) {
  b[me()] = a[me()];
}

/// What orders two kernels on two streams.
struct StreamCase {
  const char* name;
  bool good;
  std::function<void(cudaStream_t, cudaStream_t)> between;
  bool one_stream = false;
};

std::vector<StreamCase> stream_cases() {
  return {
      {"nothing", false, [](cudaStream_t, cudaStream_t) {}},
      {"one_stream", true, [](cudaStream_t, cudaStream_t) {}, true},
      {"event", true,
       [](cudaStream_t s, cudaStream_t t) {
         const Event event;
         event.record(s);
         STAGES_CUDA(cudaStreamWaitEvent(t, event, 0));
       }},
      {"event_of_the_wrong_stream", false,
       [](cudaStream_t, cudaStream_t t) {
         const Event event;
         event.record(t);
         STAGES_CUDA(cudaStreamWaitEvent(t, event, 0));
       }},
      {"wait_on_the_host", true, [](cudaStream_t s, cudaStream_t) { STAGES_CUDA(cudaStreamSynchronize(s)); }},
      {"wait_for_the_wrong_stream", false,
       [](cudaStream_t, cudaStream_t t) { STAGES_CUDA(cudaStreamSynchronize(t)); }},
      {"wait_for_the_device", true, [](cudaStream_t, cudaStream_t) { STAGES_CUDA(cudaDeviceSynchronize()); }},
  };
}

struct Outcome {
  std::vector<simt::Race> races;
  std::string text;
};

Outcome look(const std::function<void()>& run) {
  simt::begin_races(true);
  run();
  simt::RaceFindings found = simt::end_races();
  EXPECT_EQ(found.shortage, "");
  Outcome outcome{std::move(found.races), {}};
  for (const simt::Race& race : outcome.races) outcome.text += text_of(race) + "\n";
  return outcome;
}

Outcome look_at_pair(const Pair& pair, bool good) {
  DeviceArray<int> a(4096);
  DeviceArray<unsigned> f(64);
  a.fill_bytes(0, nullptr);
  f.fill_bytes(0, nullptr);
  return look([&] {
    launch(good ? pair.good : pair.bad,
           {.grid = pair.blocks, .block = pair.threads, .shared_bytes = 256, .cooperative = pair.cooperative},
           a.data(), f.data());
  });
}

/// Of one kind of race: how many kernels have one and how many have none, and of how many that is told.
struct Told {
  int with = 0, told = 0, without = 0, silent = 0;
};
std::map<std::string, Told>& told_of_kind() {
  static std::map<std::string, Told> all;
  return all;
}

TEST(Races, PairsAreToldApartInEveryOrderOfThreads) {
  std::map<std::string, Told> told;
  for (const Pair& pair : pairs()) {
    bool found = true, silent = true;
    for (const char* schedule : {"forward", "reverse", "random:3"}) {
      simt::set_schedule(schedule);
      const Outcome with = look_at_pair(pair, false), without = look_at_pair(pair, true);
      EXPECT_FALSE(with.races.empty()) << schedule << ": " << pair.name << ": the race is not found";
      EXPECT_TRUE(without.races.empty()) << schedule << ": " << pair.name << ": " << without.text;
      found = found && !with.races.empty();
      silent = silent && without.races.empty();
    }
    Told& kind = told[pair.group];
    ++kind.with;
    ++kind.without;
    kind.told += found;
    kind.silent += silent;
  }
  simt::set_schedule("");
  told_of_kind().insert(told.begin(), told.end());
}

TEST(Races, StreamsNeedAnOrder) {
  Told kind;
  for (const StreamCase& c : stream_cases()) {
    DeviceArray<int> a(32), b(32);
    const Stream first, second;
    const Outcome found = look([&] {
      launch(write_all, {.grid = 1, .block = 32, .stream = first}, a.data(), 1);
      c.between(first, second);
      launch(read_all, {.grid = 1, .block = 32, .stream = c.one_stream ? first : second}, a.data(), b.data());
    });
    EXPECT_EQ(found.races.empty(), c.good) << c.name << ": " << found.text;
    (c.good ? kind.without : kind.with) += 1;
    (c.good ? kind.silent : kind.told) += found.races.empty() == c.good;
  }
  told_of_kind()["streams"] = kind;
}

// The table of docs/lens.md is made of this file (tools/tables.py).
TEST(Races, TheRecordSaysWhatWasTold) {
  if (told_of_kind().size() < 2) GTEST_SKIP() << "needs the tests above";
  nlohmann::json kinds = nlohmann::json::array();
  for (const auto& [name, kind] : told_of_kind()) {
    kinds.push_back({{"kind", name},
                     {"with_a_race", kind.with},
                     {"told", kind.told},
                     {"without", kind.without},
                     {"silent", kind.silent}});
  }
  const std::string text = nlohmann::json{{"schema_version", 1}, {"kinds", kinds}}.dump(1) + "\n";
  std::ifstream in(STAGES_RACES_FILE);
  const std::string recorded(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(recorded, text) << "the second text belongs into tests/lens/races.json";
}

template <bool good>
__global__ void told(int* a, unsigned*) {
  __shared__ int s[64];
  s[me()] = me();  // the line of the store
  if (good) __syncthreads();
  a[me()] = s[63 - me()];  // the line of the load
}
constexpr unsigned kLineOfLoad = __LINE__ - 2;

TEST(Races, AReportNamesBothSides) {
  DeviceArray<int> a(64);
  const Outcome found =
      look([&] { launch(told<false>, {.grid = 1, .block = 64}, a.data(), static_cast<unsigned*>(nullptr)); });
  ASSERT_FALSE(found.races.empty());
  for (const std::string& part : {std::string("shared memory"), fmt::format("races_tests.cu:{}", kLineOfLoad),
                                  fmt::format("races_tests.cu:{}", kLineOfLoad - 2),
                                  std::string("block (0,0,0) thread ("), std::string("missing: a __sync")})
    EXPECT_NE(found.text.find(part), std::string::npos) << part << " in " << found.text;
}

// A sum of many threads without an atomic lacks one, and no barrier; where each has its own place, a barrier.
TEST(Races, ASumOfManyThreadsLacksAnAtomic) {
  std::set<std::string> told;
  for (const Pair& pair : pairs()) {
    const std::string name = pair.name;
    if (name != "sum" && name != "histogram" && name != "largest" && name != "warp_reduction" &&
        name != "neighbour_in_shared")
      continue;
    const bool lacks_atomic = std::string(pair.group) == "atomic";
    const Outcome found = look_at_pair(pair, false);
    EXPECT_EQ(found.text.find("missing: an atomic operation") != std::string::npos, lacks_atomic)
        << name << ": " << found.text;
    EXPECT_EQ(found.text.find("missing: a __sync") == std::string::npos, lacks_atomic)
        << name << ": " << found.text;
    told.insert(name);
  }
  EXPECT_EQ(told.size(), 5u);
}

TEST(Races, AreAFaultOfALaunchWhereTheyAreNotCollected) {
  DeviceArray<int> a(64);
  simt::begin_races(false);
  std::string error;
  try {
    launch(told<false>, {.grid = 1, .block = 64}, a.data(), static_cast<unsigned*>(nullptr));
  } catch (const std::exception& e) {
    error = e.what();
  }
  simt::end_races();
  EXPECT_NE(error.find("a race: "), std::string::npos) << error;
}

}  // namespace
}  // namespace stages
