#pragma once
// What one OS thread of the executor notes while it runs blocks: each CUDA thread's accesses, put together to
// requests whenever the lanes of a warp meet.
//
// A thread that does not meet anybody for long would fill all memory with its accesses: after kMostEvents it
// lets the others of its warp come as far, and what they have in common is put together then.

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/lens/recording/code.hpp"
#include "common/lens/recording/counts.hpp"
#include "common/simt/launch.hpp"

namespace stages::simt {

/// What a lane did: an access, or that it met others of its warp.
struct Event {
  std::uint64_t address = 0;
  std::uint32_t code = 0;  ///< the instruction, from the program's beginning
  std::uint8_t bytes = 0;
  Access access = Access::load;

  /// Meetings have numbers in the order in which they took place.
  static Event meeting(std::uint32_t number, unsigned lanes, std::uint32_t code) {
    return {std::uint64_t{number} << kLanes | lanes, code, 0, Access::meeting};
  }
  std::uint32_t number() const { return static_cast<std::uint32_t>(address >> kLanes); }
  unsigned met() const { return static_cast<unsigned>(address); }
};

/// The events of a lane that are not in a request yet.
struct LaneEvents {
  const Event* next = nullptr;
  const Event* end = nullptr;
  std::uint64_t code = 0;  ///< of the last one before `next`
  bool open = false;       ///< more may follow
};

/// All, and those of the busiest warp and block.
struct Requests {
  std::uint64_t all = 0, of_warp = 0, of_block = 0;
};

/// What the tracers of one launch need, and what they add up.
struct LaunchCounts {
  Loops loops;
  std::vector<Span> arrays;  ///< what is global memory, by address
  KernelCounts* kernel = nullptr;
  std::vector<std::vector<std::uint64_t>> read;  ///< for each array a bit for each sector that was read
  Requests requests;
};

class Tracer {
 public:
  /// Blocks of a launch follow, with so many threads each.
  void begin_launch(LaunchCounts& launch, unsigned threads);
  /// `dynamic` and `fixed` are the shared memories.
  void begin_block(Span dynamic, Span fixed);
  void end_launch();

  /// From here on it is `thread` that runs.
  void enter(unsigned thread);

  /// An access of the running thread, by the instruction before `code`. False: there is no room for it; see
  /// put_together().
  bool note(std::uint64_t address, const void* code, unsigned bytes, Access access) {
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
  /// Takes requests of a warp's lanes until one of them that is open has no event left, or all.
  void reconverge(std::array<LaneEvents, kLanes>& lanes);
  void take(const Request& request);
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

  LaunchCounts* launch_ = nullptr;
  Span dynamic_, fixed_;
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
  std::vector<BarrierCounts> barriers_;           ///< by place
  std::vector<std::vector<std::uint64_t>> read_;
  unsigned warp_ = 0;                    ///< whose events are put together
  std::vector<std::uint64_t> of_block_;  ///< requests, by warp
  Requests requests_;
};

}  // namespace stages::simt
