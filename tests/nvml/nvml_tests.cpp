// What is read of a GPU's state, of a library that stands in for the driver's.

#include "common/gpu/nvml.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <thread>

namespace stages {
namespace {

std::array<std::int64_t, 2> uuid() {
  std::array<unsigned char, 16> bytes;
  std::iota(bytes.begin(), bytes.end(), 0);
  return std::bit_cast<std::array<std::int64_t, 2>>(bytes);
}

/// The fake library's variables.
class Fake {
 public:
  ~Fake() { dlclose(library_); }
  template <class T>
  T& value(const char* name) {
    void* const symbol = dlsym(library_, name);
    if (symbol == nullptr) throw std::runtime_error(name);
    return *static_cast<T*>(symbol);
  }

 private:
  void* library_ = dlopen(STAGES_FAKE_NVML, RTLD_NOW);
};

TEST(Nvml, TellsClockPowerAndWhatHoldsBack) {
  Fake fake;
  Nvml nvml(uuid(), STAGES_FAKE_NVML);
  EXPECT_EQ(fake.value<int>("fake_open"), 1);
  EXPECT_EQ(nvml.most_clock_mhz(), 1985);
  EXPECT_EQ(nvml.limit_watts(), std::nullopt) << "this library does not tell";
  EXPECT_EQ(nvml.state().joules, std::nullopt) << "read where they are asked for";
  DeviceState state = nvml.state(true);
  EXPECT_EQ(state.unknown, "");
  EXPECT_EQ(state.clock_mhz, 1980);
  EXPECT_DOUBLE_EQ(state.watts.value(), 123.456);
  EXPECT_DOUBLE_EQ(state.joules.value(), 5);
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
  EXPECT_EQ(another.state().joules, std::nullopt);
  Nvml none(uuid(), "libm.so.6");
  EXPECT_EQ(none.state().unknown, "libm.so.6 lacks what NVML has");
}

}  // namespace
}  // namespace stages
