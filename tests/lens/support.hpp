#pragma once
// What the tests of the lens share: looking at a kernel, and arrays for it.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/gpu/cuda.hpp"
#include "common/lens/lens.hpp"

namespace stages::lens_tests {

using simt::Access;
using simt::SiteCounts;
using simt::Space;

/// What a run of `kernel` came to in one kind of access; nothing where there was none.
inline SiteCounts of(const LensView& view, Space space, Access access) {
  EXPECT_EQ(view.problem, "");
  for (const SiteCounts& sum : sums_of(view.kernels))
    if (sum.space == space && sum.access == access) return sum;
  return {.access = access, .space = space};
}

template <class... P, class... Args>
LensView look(void (*kernel)(P...), unsigned blocks, unsigned threads, Args... args) {
  return look_at("test", [&] { launch(kernel, {.grid = blocks, .block = threads}, args...); });
}

/// Element i is of(i).
template <class T, class Of>
DeviceArray<T> on_device(int size, Of of) {
  std::vector<T> host;
  for (int i = 0; i < size; ++i) host.push_back(of(i));
  return DeviceArray<T>{std::span<const T>(host)};
}
template <class T>
DeviceArray<T> zeros(int size) {
  return on_device<T>(size, [](int) { return T{}; });
}

}  // namespace stages::lens_tests
