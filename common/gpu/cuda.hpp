#pragma once
// The one header of a .cu file: CUDA itself (NVIDIA's, or the executor's under the cpu preset), checked
// calls, launch(), owning arrays, streams, events and graphs, and the device-side helpers.

#include "common/gpu/check.hpp"
#include "common/gpu/device.hpp"
#include "common/gpu/launch.hpp"
#include "common/gpu/memory.hpp"
#include "common/gpu/stream.hpp"
