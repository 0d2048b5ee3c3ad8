#pragma once
// What one OS thread of the executor notes while it runs blocks: each CUDA thread's accesses, put together to
// requests whenever the lanes of a warp meet.
//
// A thread that does not meet anybody for long would fill all memory with its accesses: after kMostEvents it
// lets the others of its warp come as far, and what they have in common is put together then.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "common/lens/recording/counts.hpp"
#include "common/lens/recording/reconverge.hpp"
#include "common/simt/launch.hpp"

namespace stages::simt {

/// All, and those of the busiest warp and block.
struct Requests {
  std::uint64_t all = 0, of_warp = 0, of_block = 0;
};

/// What was counted of a kernel; `sites` and `barriers` of the counts are made of these at the end.
struct CountedKernel {
  KernelCounts counts;
  /// By code, space, access and array.
  std::map<std::tuple<std::uint64_t, Space, Access, std::uint64_t>, SiteCounts> sites;
  std::map<std::pair<const char*, std::uint64_t>, BarrierCounts> barriers;
};

/// What the tracers of one launch need, and what they add up.
struct LaunchCounts {
  Loops loops;
  std::vector<Span> arrays;  ///< what is global memory, by address
  CountedKernel* kernel = nullptr;
  std::vector<std::vector<std::uint64_t>> read;  ///< for each array a bit for each sector that was read
  Requests requests;
};

class Tracer final : RequestSink {
 public:
  /// Blocks of a launch follow, with so many threads each.
  void begin_launch(const LaunchCounts& launch, unsigned threads);
  /// `own` are the thread's variables that are no shared memory; `dynamic` and `fixed` are the shared
  /// memories.
  void begin_block(Span own, Span dynamic, Span fixed);
  void end_launch(LaunchCounts& launch);

  /// From here on it is `thread` that runs, on this stack.
  void enter(unsigned thread, Span stack);

  /// An access of the running thread, by the instruction before `code`. False: there is no room for it; see
  /// put_together().
  bool note(std::uint64_t address, const void* code, unsigned bytes, Access access) {
    if (stack_.holds(address) || own_.holds(address)) return true;
    std::uint32_t& count = count_[current_];
    if (count == kMostEvents) return false;
    if (events_of_current_ == nullptr) events_of_current_ = &event(current_, 0);
    events_of_current_[count++] = {
        address, static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(code) - program_begin_),
        static_cast<std::uint8_t>(bytes), access};
    return true;
  }
  bool full(unsigned thread) const { return count_[thread] == kMostEvents; }
  /// Whether other lanes of the warp than these have events that were not put together.
  bool others_left(unsigned warp, unsigned lanes) const;

  /// These lanes of a warp met, and others did not.
  void meet(unsigned warp, unsigned lanes, std::uint64_t code);
  /// All that the thread did was put together, and its next instruction is this.
  void goes_on(unsigned thread, std::uint64_t code) { code_[thread] = code; }
  void barrier(Where where);

  /// Puts together what the lanes of a warp have done; `open` are those that will do more before they meet
  /// others.
  void put_together(unsigned warp, unsigned open);

 private:
  static constexpr std::uint32_t kMostEvents = 1024;
  /// From a thread's first event to the next thread's: more than a power of two, so that a warp's events are
  /// not all in the same few sets of a cache.
  static constexpr std::size_t kStride = kMostEvents + 36;

  Event& event(unsigned thread, std::uint32_t i) {
    Event*& of_warp = room_[thread / kLanes];
    if (of_warp == nullptr) [[unlikely]] {
      of_warp = free_.back();
      free_.pop_back();
    }
    return of_warp[thread % kLanes * kStride + i];
  }
  void take(const Request& request) override;
  /// `array` is that of global memory which the first lane touches, and 0 in shared memory.
  void count(const Request& request, Space space, std::size_t array);
  /// The same of one instruction; `again`: lanes do once more what they could not do at once.
  void count_one(const Request& request, Space space, std::size_t array, bool again = false);
  SiteCounts& site_of(const Request& request, Space space, std::size_t array);
  void note_reads(const Sectors& sectors);
  /// Adds what the warps of the block asked for to what is known of the launch.
  void end_block();
  /// The array that holds the address: its number, or that of none.
  std::size_t array_of(std::uint64_t address) {
    if (last_array_ < launch_->arrays.size() && launch_->arrays[last_array_].holds(address))
      return last_array_;
    return find_array(address);
  }
  std::size_t find_array(std::uint64_t address);

  const LaunchCounts* launch_ = nullptr;
  Span stack_, own_, dynamic_, fixed_;
  std::uint64_t program_begin_ = 0;
  unsigned current_ = 0;
  Event* events_of_current_ =
      nullptr;                       ///< null: not looked for since it runs, or since they were put together
  std::unique_ptr<Event[]> events_;  ///< room for those of each warp of the block
  std::size_t warps_ = 0;
  std::vector<Event*> room_;  ///< by warp, where it has any; they mostly take turns at one that is in a cache
  std::vector<Event*> free_;
  std::vector<std::uint32_t> count_;
  std::vector<std::uint64_t> code_;  ///< of the last event that was put together
  std::uint32_t meetings_ = 0;       ///< in this block
  std::size_t last_array_ = 0;

  /// By space; the key is the code, above it the access, and above that the number of the array.
  std::array<std::unordered_map<std::uint64_t, SiteCounts>, 2> sites_;
  struct Found {
    std::uint64_t key = 0;
    SiteCounts* site = nullptr;
  };
  std::array<std::array<Found, 64>, 2> found_{};  ///< the last one found there, by the code's lowest bits
  std::map<std::pair<const char*, std::uint64_t>, BarrierCounts> barriers_;
  std::vector<std::vector<std::uint64_t>> read_;
  unsigned warp_ = 0;                    ///< whose events are put together
  std::vector<std::uint64_t> of_block_;  ///< requests, by warp
  Requests requests_;
};

}  // namespace stages::simt
