// What the lens counts of shared memory, against what ncu counted on a GPU.
#include "tests/lens/support.hpp"

namespace stages {
namespace {

using namespace lens_tests;

enum class Touch { load, add, swap };

/// Each of `lanes` loads from its place in shared memory, or changes what is there.
template <class T, Touch kHow>
__global__ void touch(T* out, unsigned lanes, const unsigned* places) {
  T* const words = dynamic_shared<T>();
  for (unsigned k = threadIdx.x; k < 128; k += 32) words[k] = T{};
  __syncwarp();
  if ((lanes >> threadIdx.x & 1) == 0) return;
  T* const word = words + places[threadIdx.x];
  if constexpr (kHow == Touch::load) out[threadIdx.x] = *word;
  if constexpr (kHow == Touch::add) out[threadIdx.x] = atomicAdd(word, T{1});
  if constexpr (kHow == Touch::swap) out[threadIdx.x] = atomicCAS(word, T{0}, T{threadIdx.x + 1});
}

/// The place of each lane.
struct Place {
  static unsigned own(unsigned l) { return l; }
  static unsigned one(unsigned) { return 5; }
  template <unsigned k>
  static unsigned a_group(unsigned l) {
    return l / k;
  }
  template <unsigned k>
  static unsigned with_lane_xor(unsigned l) {
    return l / (2 * k) * k + l % k;
  }
  static unsigned of_quarter(unsigned l) { return l % 8; }
  static unsigned pairs_on_four(unsigned l) { return l / 2 * 8 % 32; }
  static unsigned pairs_below_16(unsigned l) { return l < 16 ? l / 2 : l; }
  static unsigned every_second(unsigned l) { return l * 2; }
};

/// What ncu counted on an H100 (CUDA 13.0, 2026-11-26): wavefronts, and of a loop its rounds.
TEST(Lens, SharedMemoryCountsAsOnAGpu) {
  using Counted = std::vector<std::uint64_t>;
  struct Case {
    const char* what;
    unsigned lanes;
    unsigned (*place)(unsigned lane);
    // Loads of 4, 8 and 16 bytes; an addition of an unsigned; swaps of 4 and 8 bytes; and of an addition of a
    // float, and of a double, the atomics, the loads and the rounds.
    Counted counted;
  };
  constexpr unsigned kAll = ~0u;
  const Case cases[] = {
      {"all apart", kAll, Place::own, {1, 2, 4, 1, 2, 4, 2, 1, 1, 4, 2, 1}},
      {"one place for all", kAll, Place::one, {1, 1, 2, 32, 64, 64, 64, 32, 32, 96, 32, 32}},
      {"one for each half", kAll, Place::a_group<16>, {1, 1, 2, 16, 32, 64, 32, 16, 16, 64, 16, 16}},
      {"one for each quarter", kAll, Place::a_group<8>, {1, 1, 2, 8, 16, 32, 16, 8, 8, 32, 8, 8}},
      {"a lane and lane ^ 1", kAll, Place::with_lane_xor<1>, {1, 1, 2, 2, 4, 8, 4, 2, 2, 8, 2, 2}},
      {"a lane and lane ^ 2", kAll, Place::with_lane_xor<2>, {1, 1, 2, 2, 4, 8, 4, 2, 2, 8, 2, 2}},
      {"a lane and lane ^ 4", kAll, Place::with_lane_xor<4>, {1, 2, 4, 2, 4, 8, 4, 2, 2, 8, 4, 2}},
      {"a lane and lane ^ 8", kAll, Place::with_lane_xor<8>, {1, 2, 4, 2, 4, 8, 4, 2, 2, 8, 4, 2}},
      {"a lane and lane ^ 16", kAll, Place::with_lane_xor<16>, {1, 2, 4, 2, 4, 4, 4, 2, 2, 6, 3, 2}},
      {"each quarter the same", kAll, Place::of_quarter, {1, 2, 4, 4, 8, 8, 8, 4, 4, 12, 6, 4}},
      {"lane ^ 1 on four places", kAll, Place::pairs_on_four, {1, 2, 8, 8, 16, 32, 16, 8, 8, 36, 18, 10}},
      {"lane ^ 1, one without", kAll - 1, Place::a_group<2>, {1, 1, 2, 2, 4, 8, 4, 2, 2, 8, 2, 2}},
      {"half of the lanes", 0xffff, Place::own, {1, 1, 2, 1, 2, 2, 2, 1, 1, 2, 1, 1}},
      {"every second", 0x55555555, Place::own, {1, 2, 4, 1, 2, 4, 2, 1, 1, 4, 2, 1}},
      {"lane ^ 1 in one half", kAll, Place::pairs_below_16, {1, 2, 4, 2, 4, 6, 4, 2, 2, 6, 3, 2}},
      {"two a bank", kAll, Place::every_second, {2, 4, 8, 2, 4, 8, 4, 3, 2, 8, 6, 2}},
      {"four lanes a place", kAll, Place::a_group<4>, {1, 1, 2, 4, 8, 16, 8, 4, 4, 16, 4, 4}},
      {"one lane", 1, Place::own, {1, 1, 1, 1, 2, 2, 2, 1, 1, 2, 1, 1}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const auto places =
        on_device<unsigned>(32, [&](int lane) { return c.place(static_cast<unsigned>(lane)); });
    const auto seen = [&]<class T>(void (*kernel)(T*, unsigned, const unsigned*)) {
      DeviceArray<T> out(32);
      const LaunchConfig config{.grid = 1, .block = 32, .shared_bytes = 128 * sizeof(T)};
      return look_at("test", [&] { launch(kernel, config, out.data(), c.lanes, places.data()); });
    };
    // Four stores by all lanes, of 8 bytes each: two halves.
    EXPECT_EQ(of(seen(touch<double, Touch::load>), Space::shared, Access::store).cost, 8u);
    EXPECT_EQ(of(seen(touch<float, Touch::load>), Space::shared, Access::load).least, 1u);
    Counted counted;
    for (const LensView& view : {seen(touch<float, Touch::load>), seen(touch<double, Touch::load>),
                                 seen(touch<float4, Touch::load>)})
      counted.push_back(of(view, Space::shared, Access::load).cost);
    for (const LensView& view : {seen(touch<unsigned, Touch::add>), seen(touch<unsigned, Touch::swap>),
                                 seen(touch<unsigned long long, Touch::swap>)})
      counted.push_back(of(view, Space::shared, Access::atomic).cost);
    const auto count_loop = [&](const LensView& view) {
      const SiteCounts atomics = of(view, Space::shared, Access::atomic),
                       loads = of(view, Space::shared, Access::load);
      EXPECT_EQ(atomics.requests, loads.requests);
      counted.insert(counted.end(), {atomics.cost, loads.cost, loads.requests});
    };
    count_loop(seen(touch<float, Touch::add>));
    count_loop(seen(touch<double, Touch::add>));
    EXPECT_EQ(counted, c.counted);
    counted.resize(counted.size() - 3);
    count_loop(seen(touch<unsigned long long, Touch::add>));
    EXPECT_EQ(counted, c.counted) << "8 bytes of integers are as a double";
  }
}

/// All lanes change shared[lane % different].
template <class T>
__global__ void change(unsigned different, bool add) {
  __shared__ T shared[32];
  T* const p = &shared[threadIdx.x % different];
  if (add) {
    atomicAdd(p, T{1});
  } else {
    atomicExch(p, T{1});
  }
}

// What lanes do again is no part of the least, and they meet once. An exchange is no loop, whatever is
// exchanged.
TEST(Lens, TheLeastOfALoopIsItsFirstRound) {
  for (const unsigned different : {32u, 4u, 1u}) {
    const LensView added = look(change<float>, 1, 32, different, true);
    const SiteCounts atomics = of(added, Space::shared, Access::atomic);
    EXPECT_EQ(atomics.requests, 32 / different);
    EXPECT_EQ(atomics.least, 2u);
    EXPECT_EQ(atomics.meeting_lanes, 32u - different);
    EXPECT_EQ(of(added, Space::shared, Access::load).least, 1u);
    const LensView exchanged[] = {look(change<float>, 1, 32, different, false),
                                  look(change<unsigned long long>, 1, 32, different, false)};
    for (const LensView& view : exchanged) {
      EXPECT_EQ(of(view, Space::shared, Access::atomic).requests, 1u);
      EXPECT_EQ(of(view, Space::shared, Access::load).requests, 0u);
    }
    EXPECT_EQ(of(exchanged[0], Space::shared, Access::atomic).cost, 32 / different);
  }
}

}  // namespace
}  // namespace stages
