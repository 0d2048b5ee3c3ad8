// What is read of a GPU's state, and of what it does, of libraries that stand in for NVML and CUPTI.

#include "common/gpu/nvml.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <thread>

#include "common/gpu/trace.hpp"

namespace stages {
namespace {

std::array<std::int64_t, 2> uuid() {
  std::array<unsigned char, 16> bytes;
  std::iota(bytes.begin(), bytes.end(), 0);
  return std::bit_cast<std::array<std::int64_t, 2>>(bytes);
}

/// A fake library's variables.
class Fake {
 public:
  explicit Fake(const char* library = STAGES_FAKE_NVML) : library_(dlopen(library, RTLD_NOW)) {}
  ~Fake() { dlclose(library_); }
  template <class T>
  T& value(const char* name) {
    void* const symbol = dlsym(library_, name);
    if (symbol == nullptr) throw std::runtime_error(name);
    return *static_cast<T*>(symbol);
  }

 private:
  void* library_;
};

TEST(Nvml, TellsTheClockAndWhatHoldsItBack) {
  Fake fake;
  Nvml nvml(uuid(), STAGES_FAKE_NVML);
  EXPECT_EQ(fake.value<int>("fake_open"), 1);
  EXPECT_EQ(nvml.most_clock_mhz(), 1985);
  EXPECT_EQ(nvml.driver(), "580.95.05");
  EXPECT_EQ(nvml.limit_watts(), std::nullopt) << "this library does not tell";
  const DeviceState state = nvml.state(true);
  EXPECT_EQ(state.unknown, "");
  EXPECT_EQ(state.clock_mhz, 1980);
  EXPECT_EQ(state.held_back, "") << "a GPU at rest is not held back";

  const std::pair<unsigned long long, const char*> reasons[] = {{0x02, ""},  // clocks that somebody has set
                                                                {0x04, "its power limit"},
                                                                {0x08, "the hardware (heat or power)"},
                                                                {0x20, "heat"},
                                                                {0x40, "heat (by the hardware)"},
                                                                {0x80, "the power supply"},
                                                                {0x48, "heat (by the hardware)"},
                                                                {0x88, "the power supply"},
                                                                {0x24, "its power limit, heat"}};
  for (const auto& [bits, words] : reasons) {
    fake.value<unsigned long long>("fake_reasons") = bits;
    EXPECT_EQ(nvml.state(true).held_back, words) << bits;
  }
  fake.value<unsigned long long>("fake_reasons") = 1;
}

TEST(Nvml, IsAskedAnewOnlyAfterAWhile) {
  Fake fake;
  Nvml nvml(uuid(), STAGES_FAKE_NVML);
  nvml.state(true);
  const int asked = fake.value<int>("fake_asked");
  for (int i = 0; i < 5; ++i) nvml.state();
  EXPECT_LE(fake.value<int>("fake_asked"), asked + 1);
  std::this_thread::sleep_for(2 * Nvml::kRefresh);
  fake.value<unsigned>("fake_clock") = 1410;
  EXPECT_EQ(nvml.state().clock_mhz, 1410);
  fake.value<unsigned>("fake_clock") = 1980;
  EXPECT_EQ(nvml.state(true).clock_mhz, 1980) << "asked for as it is now";
}

TEST(Nvml, WhatOlderDriversDoNotTellIsNotKnown) {
  Nvml nvml(uuid(), STAGES_FAKE_OLDER_NVML);
  const DeviceState state = nvml.state();
  EXPECT_EQ(state.unknown, "");
  EXPECT_EQ(state.clock_mhz, 1980);
  EXPECT_EQ(state.held_back, std::nullopt);
  EXPECT_EQ(nvml.driver(), "");
}

TEST(Nvml, IsClosedAgainAndNotWhereItDidNotStart) {
  Fake fake;
  const int open = fake.value<int>("fake_open");
  for (const int code : {0, 9}) {
    fake.value<int>("fake_init") = code;
    {
      Nvml nvml(uuid(), STAGES_FAKE_NVML);
      EXPECT_EQ(fake.value<int>("fake_open"), open + (code == 0 ? 1 : 0));
      EXPECT_EQ(nvml.state().unknown, code == 0 ? "" : "NVML does not start: Driver Not Loaded");
      EXPECT_EQ(nvml.state().clock_mhz.has_value(), code == 0);
    }
    EXPECT_EQ(fake.value<int>("fake_open"), open);
  }
  fake.value<int>("fake_init") = 0;
}

TEST(Nvml, SaysWhyNothingIsKnown) {
  Nvml missing(uuid(), "libno-such-nvml.so");
  EXPECT_EQ(missing.state().unknown, "the driver's libno-such-nvml.so is not found");
  EXPECT_EQ(missing.state().clock_mhz, std::nullopt);
  EXPECT_EQ(missing.most_clock_mhz(), std::nullopt);
  Nvml another({1, 2}, STAGES_FAKE_NVML);
  EXPECT_EQ(another.state().unknown,
            "NVML does not know GPU-01000000-0000-0000-0200-000000000000: Not Found");
  EXPECT_EQ(another.state().clock_mhz, std::nullopt);
  Nvml none(uuid(), "libm.so.6");
  EXPECT_EQ(none.state().unknown, "libm.so.6 lacks what NVML has");
}

TEST(Trace, TellsForHowLongTheDeviceDidAtLeastOneThing) {
  struct Activity {
    std::uint32_t kind, other[3];
    std::uint64_t begin, end;
  };
  Fake fake(STAGES_FAKE_CUPTI);
  auto& records = fake.value<std::array<Activity, 8>>("fake_records");
  auto& count = fake.value<int>("fake_count");
  {
    DeviceTrace trace(STAGES_FAKE_CUPTI);
    EXPECT_EQ(trace.problem(), "");
    EXPECT_EQ(fake.value<int>("fake_open"), 1);
    count = 1;  // of what was before
    const double busy = trace.busy_seconds([&] {
      records = {{{10, {}, 2000, 2100},  // a kernel; one that began before it is handed over later
                  {10, {}, 1000, 1400},  //
                  {1, {}, 1200, 1500},   // a copy beside it
                  {2, {}, 1450, 1480},   // a set within that
                  {22, {}, 1500, 1510},  // a copy to another device, at once behind
                  {42, {}, 0, 9000}}};   // nothing that a device does
      count = 6;
    });
    EXPECT_NEAR(busy, 610e-9, 1e-15);
    EXPECT_EQ(trace.busy_seconds([] {}), 0);
  }
  EXPECT_EQ(fake.value<int>("fake_open"), 0) << "launches take as long as before";
  fake.value<int>("fake_refuses") = 35;
  EXPECT_EQ(DeviceTrace(STAGES_FAKE_CUPTI).problem(),
            "cuptiActivityEnable says CUPTI_ERROR_INSUFFICIENT_PRIVILEGES");
  fake.value<int>("fake_refuses") = 0;
  EXPECT_EQ(DeviceTrace(STAGES_FAKE_NVML).problem(),
            "the CUPTI that is found has no cuptiActivityGetNextRecord");
  EXPECT_EQ(DeviceTrace("libno_cupti.so").problem(), "the CUDA toolkit's libno_cupti.so is not found");
}

}  // namespace
}  // namespace stages
