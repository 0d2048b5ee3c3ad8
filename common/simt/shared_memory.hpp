#pragma once
// The two kinds of shared memory of a block, refilled with junk before every block, because hardware hands on
// whatever the last block left there and calls it uninitialised.
//
// Dynamic shared memory has exactly the size of the launch, so that AddressSanitizer sees an access beyond
// it; without ASan a canary behind it shows at least the writes.
//
// `__shared__` arrays are static thread_local variables and lie among the OS thread's thread-locals, nobody
// knows where. But they have no initialisers, so they lie in .tbss, and everything else of ours has one (see
// ThreadLocal). For the first few blocks of a kernel on an OS thread, and the first of each later launch, all
// of .tbss is filled; the bytes that are no longer junk afterwards are the kernel's, and for the other blocks
// only their hull is refilled.

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "common/simt/sanitizer.hpp"
#include "common/simt/thread.hpp"

namespace stages::simt {

/// Fills `bytes` bytes with kJunk, the last word cut off where it does not fit.
void fill_junk(void* memory, std::size_t bytes);

/// Behind dynamic shared memory and device arrays; none where ASan sees the access itself.
inline constexpr std::size_t kCanaryBytes = STAGES_SIMT_ASAN ? 0 : 64;

/// Puts kCanaryBytes to `place`, the end of such memory. They are NaN, as junk is, but another NaN in each
/// word: what a kernel has read there or made of junk, and writes, is not what stood there.
void lay_canary(std::byte* place);
/// Whether something else stands there now.
bool canary_broken(const std::byte* place);

class DynamicShared {
 public:
  void refill(std::size_t bytes);
  bool canary_broken() const;
  void* data() const { return memory_.get(); }
  Span span() const { return {reinterpret_cast<std::uintptr_t>(data()), bytes_}; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t bytes_ = 0;
};

class StaticShared {
 public:
  /// Blocks of a launch of this kernel follow.
  void begin_launch(const void* kernel);
  void before_block();
  void after_block();
  /// After after_block(): at least so many bytes the block used. Counted where the block showed which, and
  /// only if there are more than `enough` of them at all, since counting takes time; otherwise 0.
  std::size_t used_bytes(std::size_t enough) const;

  /// Where the arrays of all kernels lie; nothing before begin_launch().
  Span span() const { return tbss_.span(); }
  /// The other variables of an OS thread, which lie before them.
  Span others() const { return tdata_.span(); }

 private:
  struct Range {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    Span span() const {
      return {reinterpret_cast<std::uintptr_t>(begin), static_cast<std::uint64_t>(end - begin)};
    }
  };
  struct Known {
    Range hull;
    int blocks = 0;  ///< seen so far, up to kBlocksToLearn
  };
  static constexpr int kBlocksToLearn = 4;
  void look();

  Range tdata_, tbss_;
  bool looked_ = false;
  bool learning_ = false;  ///< the block at hand shows which bytes the kernel uses
  bool first_of_launch_ = false;
  Known* kernel_ = nullptr;
  std::unordered_map<const void*, Known> kernels_;
};

}  // namespace stages::simt
