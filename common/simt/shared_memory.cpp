#include "common/simt/shared_memory.hpp"

#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace stages::simt {
namespace {

bool is_junk(const std::byte* word) {
  std::uint32_t value;
  std::memcpy(&value, word, sizeof value);
  return value == kJunk;
}

/// The words of the canary that begins there, from the start of the word in which it begins.
std::array<std::uint32_t, kCanaryBytes / sizeof(std::uint32_t) + 1> canary_words(const std::byte* place) {
  std::array<std::uint32_t, kCanaryBytes / sizeof(std::uint32_t) + 1> words;
  auto number = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(place) / sizeof(std::uint32_t));
  for (std::uint32_t& word : words) word = 0x7FF80000u | (number++ * 0x9E3779B1u) >> 14;
  return words;
}
std::size_t place_in_word(const std::byte* place) {
  return reinterpret_cast<std::uintptr_t>(place) % sizeof(std::uint32_t);
}

/// Most of it is junk, and is compared in larger steps.
constexpr std::ptrdiff_t kStep = 256;
const std::array<std::uint32_t, kStep / sizeof kJunk> kJunkStep = [] {
  std::array<std::uint32_t, kStep / sizeof kJunk> words;
  words.fill(kJunk);
  return words;
}();

bool is_junk_step(const std::byte* p) { return std::memcmp(p, kJunkStep.data(), kStep) == 0; }

}  // namespace

#if STAGES_SIMT_ASAN
[[gnu::no_sanitize("address")]]  // word by word it would look at each
#endif
void fill_junk(void* memory, std::size_t bytes) {
  auto* p = static_cast<std::byte*>(memory);
  const std::size_t words = bytes / sizeof kJunk;
  for (std::size_t i = 0; i < words; ++i) std::memcpy(p + i * sizeof kJunk, &kJunk, sizeof kJunk);
  const std::size_t rest = bytes % sizeof kJunk;
  if (rest > 0) std::memcpy(p + words * sizeof kJunk, &kJunk, rest);
}

void lay_canary(std::byte* place) {
  const auto words = canary_words(place);
  std::memcpy(place, reinterpret_cast<const std::byte*>(words.data()) + place_in_word(place), kCanaryBytes);
}

bool canary_broken(const std::byte* place) {
  const auto words = canary_words(place);
  const auto* const expected = reinterpret_cast<const std::byte*>(words.data()) + place_in_word(place);
  return std::memcmp(place, expected, kCanaryBytes) != 0;
}

void DynamicShared::refill(std::size_t bytes) {
  if (!memory_ || bytes != bytes_) {
    void* p = nullptr;
    if (posix_memalign(&p, 128, std::max<std::size_t>(1, bytes + kCanaryBytes)) != 0) throw std::bad_alloc();
    memory_.reset(p);
    bytes_ = bytes;
  }
  fill_junk(memory_.get(), bytes_);
  lay_canary(static_cast<std::byte*>(memory_.get()) + bytes_);
}

bool DynamicShared::canary_broken() const {
  return simt::canary_broken(static_cast<const std::byte*>(memory_.get()) + bytes_);
}

void StaticShared::look() {
#if defined(__clang__) && STAGES_SIMT_ASAN
  // clang links ASan's own thread-locals into the program: hands off
#else
  dl_iterate_phdr(
      [](dl_phdr_info* program, std::size_t, void* result) {
        for (int i = 0; i < program->dlpi_phnum; ++i) {
          const auto& header = program->dlpi_phdr[i];
          if (header.p_type != PT_TLS || !program->dlpi_tls_data) continue;
          auto* base = static_cast<std::byte*>(program->dlpi_tls_data);
          auto& self = *static_cast<StaticShared*>(result);
          self.tbss_ = {base + (header.p_filesz + 3) / 4 * 4, base + header.p_memsz / 4 * 4};
          self.tbss_.begin = std::min(self.tbss_.begin, self.tbss_.end);
          self.tdata_ = {base, self.tbss_.begin};
        }
        return 1;  // the program itself comes first, and only it holds kernels
      },
      this);
#endif
}

void StaticShared::begin_launch(const void* kernel) {
  if (!looked_) {
    look();
    looked_ = true;
  }
  kernel_ = &kernels_[kernel];
  first_of_launch_ = true;
}

void StaticShared::before_block() {
  learning_ = first_of_launch_ || kernel_->blocks < kBlocksToLearn;
  first_of_launch_ = false;
  const Range fill = learning_ ? tbss_ : kernel_->hull;
  fill_junk(fill.begin, static_cast<std::size_t>(fill.end - fill.begin));
}

void StaticShared::after_block() {
  if (!learning_) return;
  Known& known = *kernel_;
  if (known.blocks < kBlocksToLearn) ++known.blocks;
  Range used = tbss_;
  while (used.end - used.begin >= kStep && is_junk_step(used.begin)) used.begin += kStep;
  while (used.begin < used.end && is_junk(used.begin)) used.begin += 4;
  while (used.end - used.begin >= kStep && is_junk_step(used.end - kStep)) used.end -= kStep;
  while (used.begin < used.end && is_junk(used.end - 4)) used.end -= 4;
  if (used.begin == used.end) return;
  known.hull.begin = known.hull.begin ? std::min(known.hull.begin, used.begin) : used.begin;
  known.hull.end = std::max(known.hull.end, used.end);
}

std::size_t StaticShared::used_bytes(std::size_t enough) const {
  if (!learning_ || static_cast<std::size_t>(tbss_.end - tbss_.begin) <= enough) return 0;
  std::size_t bytes = 0;
  for (const std::byte* word = tbss_.begin; word < tbss_.end;) {
    if (tbss_.end - word >= kStep && is_junk_step(word)) {
      word += kStep;
    } else {
      bytes += is_junk(word) ? 0 : 4;
      word += 4;
    }
  }
  return bytes;
}

}  // namespace stages::simt
