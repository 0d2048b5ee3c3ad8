#include "common/gpu/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "common/gpu/library.hpp"

namespace stages {
namespace {

// As CUPTI's reference has them: the header is not on every machine that has the library.
constexpr unsigned kTraced[] = {10, 1, 22, 2};  ///< kernels, copies, those between devices, sets
struct Activity {                               ///< how the records of all of them begin
  std::uint32_t kind;
  std::uint32_t other[3];
  std::uint64_t begin, end;  ///< nanoseconds
};
constexpr unsigned kAll = 1;  ///< flushes buffers that are not full, too
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

using Next = int(std::uint8_t*, std::size_t, Activity**);
// CUPTI's callbacks know nothing of who asked for them.
Next* next_record = nullptr;
std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;

void give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::malloc(kBufferBytes));
  *bytes = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0;
}

void take_buffer(void* /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer, std::size_t /*bytes*/,
                 std::size_t valid) {
  Activity* record = nullptr;
  while (next_record(buffer, valid, &record) == 0)
    if (std::ranges::count(kTraced, record->kind) > 0) spans.emplace_back(record->begin, record->end);
  std::free(buffer);
}

}  // namespace

template <class... Arguments>
void DeviceTrace::call(const char* name, Arguments... arguments) {
  if (!problem_.empty()) return;
  auto* const function = function_of<int(Arguments...)>(library_, name);
  if (function == nullptr) {
    problem_ = fmt::format("the CUPTI that is found has no {}", name);
  } else if (const int code = function(arguments...); code != 0) {
    const char* words = nullptr;
    auto* const text = function_of<int(int, const char**)>(library_, "cuptiGetResultString");
    if (text != nullptr) text(code, &words);
    problem_ = fmt::format("{} says {}", name, words != nullptr ? words : fmt::format("{}", code));
  }
}

DeviceTrace::DeviceTrace(const std::string& library) {
  std::vector<std::string> names = {STAGES_CUPTI, "libcupti.so.13", "libcupti.so.12", "libcupti.so"};
  if (!library.empty()) names = {library};
  for (std::size_t k = 0; library_ == nullptr && k < names.size(); ++k)
    library_ = dlopen(names[k].c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    problem_ = fmt::format("the CUDA toolkit's {} is not found", names.back());
    return;
  }
  next_record = function_of<Next>(library_, "cuptiActivityGetNextRecord");
  if (next_record == nullptr) problem_ = "the CUPTI that is found has no cuptiActivityGetNextRecord";
  call("cuptiActivityRegisterCallbacks", &give_buffer, &take_buffer);
  for (const unsigned kind : kTraced) call("cuptiActivityEnable", kind);
}

/// The library stays open: it has hooks in the driver.
DeviceTrace::~DeviceTrace() {
  if (library_ == nullptr) return;
  problem_.clear();
  call("cuptiFinalize");
}

double DeviceTrace::busy_seconds(const std::function<void()>& work) {
  call("cuptiActivityFlushAll", kAll);
  spans.clear();
  work();
  call("cuptiActivityFlushAll", kAll);
  std::ranges::sort(spans);
  std::uint64_t busy = 0, until = 0;
  for (const auto& [begin, end] : spans) {
    if (end > until) busy += end - std::max(begin, until);
    until = std::max(until, end);
  }
  return static_cast<double>(busy) * 1e-9;
}

}  // namespace stages
