#pragma once
// Data races: two accesses of different threads to the same bytes, one of them a store, and nothing that
// orders them. What orders them is told by clocks, so a race is found in whatever order the threads ran.
//
// Every thread has a clock, which moves on whenever others may learn what it did. An access is known by its
// thread and the clock at that time (its epoch). A thread knows of others
//   - of its block: all below the block's floor, which a __syncthreads raises above all clocks;
//   - of its warp: all below the warp's floor, likewise; after meetings of a part of the warp, lane by lane;
//   - of others: what it learned by fences and atomic operations (Knowledge).
// What came before a grid barrier, or before the launch in the order of streams, has a lower phase.
//
// For each word of memory the last store, the last atomic operations and some of the loads since are kept.
// While races are looked for, one OS thread runs at a time, so nothing here takes a lock.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/lens/recording/request.hpp"
#include "common/simt/launch.hpp"

namespace stages::simt {

/// A thread, and up to which of its clock what it did is known.
class Knowledge {
 public:
  std::uint32_t of(std::uint64_t whom) const;
  void raise(std::uint64_t whom, std::uint32_t clock);
  void join(const Knowledge& other);
  bool holds(const Knowledge& other) const;

 private:
  std::vector<std::pair<std::uint64_t, std::uint32_t>> known_;  ///< by whom
};
using Known = std::shared_ptr<const Knowledge>;

/// One of the two accesses of a race.
struct RaceAccess {
  std::uint64_t code = 0;  ///< where the instruction returns to, in the program; 0: a copy on a stream
  Access access = Access::load;
  uint3 block{}, thread{};
};

struct Race {
  RaceAccess first, second;  ///< in the order in which they ran
  bool shared = false;
  std::uint64_t offset = 0, bytes = 0;  ///< in the array, and of the array; bytes 0: unknown
  std::string missing;                  ///< what would order them
  unsigned apart = 0;                   ///< 0: in one warp, 1: in one block, 2: in different ones
  std::uint64_t times = 0;              ///< at these two instructions
};

/// Race::missing, where the two are of different launches or copies.
inline constexpr const char* kBetweenStreams =
    "an event or a synchronisation between the two streams, or one stream for both";

/// "write-after-write", ..., as compute-sanitizer has it.
std::string kind_of(const Race& race);
/// "reads".
const char* verb_of(Access access);

/// What is known before a piece of work on a stream begins: the phases of each stream that came before.
using StreamClock = std::map<const void*, std::uint32_t>;

class RaceDetector {
 public:
  /// A launch on a stream, after what `before` knows. Returns the phase to be put into the stream's clock.
  void begin_launch(const Grid& grid, const void* stream, const StreamClock& before);
  std::uint32_t phase() const { return phase_; }
  /// The next barrier of the grid: what comes then comes after all that was.
  void next_phase();
  /// A copy on a stream, likewise, loads from this memory or stores to it.
  void copy(Span memory, Access access, const void* stream, const StreamClock& before);

  /// Memory begins anew: what was done to it before is forgotten.
  void forget(Span memory);
  /// The same, and the room for it is needed no more.
  void give_back(Span memory);

  /// Of all blocks of the launch that run at the time.
  struct Block {
    std::uint64_t number = 0;
    unsigned threads = 0;
    std::uint32_t floor = 1;
    std::vector<std::uint32_t> clock;
    std::vector<std::uint32_t> fenced_at;  ///< the thread's clock at its last fence; 0: none
    /// Whether what a thread does next says something to others, or asks them (docs/lens.md: volatile).
    struct Near {
      bool looks = false;         ///< it waits (spin_until)
      bool fenced = false;        ///< what it stores comes behind a fence of its own, ...
      bool published = false;     ///< ... and not as the first
      std::uint32_t left_at = 0;  ///< its clock when it ended; 0: it has not
    };
    std::vector<Near> near;
    std::vector<std::uint32_t> warp_floor;
    std::vector<std::uint8_t> in_parts;                      ///< of each warp: lanes know different things
    std::vector<std::array<std::uint32_t, kLanes>> of_lane;  ///< for each thread, where its warp is in parts
    /// By fences: what a thread knows of threads elsewhere; what of that and of its own it has fenced, by
    /// scope; what it read of an atomic and will know after its next fence.
    struct Far {
      Known known;
      std::array<Known, 2> fenced, heard;
      std::uint64_t heard_from = ~std::uint64_t{0};  ///< the block whose flag it read last
    };
    std::vector<Far> far;
    bool any_far = false;
    std::array<Span, 2> shared{};
  };
  void begin_block(Block& block, std::uint64_t number, unsigned threads);

  void access(Block& block, unsigned thread, std::uint64_t address, unsigned bytes, Access access,
              const AtomicHow* how, std::uint64_t code);
  void fence(Block& block, unsigned thread, Scope scope);
  void meet(Block& block, unsigned warp, unsigned lanes, bool all);
  void barrier(Block& block);
  /// To be called before memory changes otherwise than by access(), and at the end.
  void settle();

  std::vector<Race> take();
  /// Not empty: the room for what was done to memory was used up, and races may have been missed.
  const std::string& shortage() const { return shortage_; }

 private:
  struct Epoch {
    std::uint32_t phase = 0;  ///< 0: none
    std::uint32_t block = 0, clock = 0, code = 0;
    std::uint16_t thread : 15 = 0;
    std::uint16_t changes : 1 = 0;  ///< a store, after a load of the same thread from there
    Access access = Access::load;
    std::uint8_t atomic : 4 = 0;  ///< 0: plain; else 1 + its scope
    std::uint8_t bare : 1 = 0;    ///< volatile in shared memory, and no flag
    std::uint8_t size : 3 = 0;    ///< of an atomic: the logarithm of its bytes, or kAnySize; or kReadOnly
  };
  static constexpr std::uint8_t kReadOnly = 6, kAnySize = 7;
  /// Whether two atomic operations see each other as such.
  static bool reach(std::uint8_t a, std::uint8_t b, bool same_block) {
    const auto least = static_cast<Scope>(std::min(a, b) - 1);
    return least == Scope::device || (same_block && least == Scope::block);
  }
  /// Two atomic operations that touch a word in part only are none to each other.
  static bool same_size(const Epoch& a, const Epoch& b) {
    return a.size == b.size || a.size == kAnySize || b.size == kAnySize;
  }
  struct Cell {
    Epoch store;
    std::array<Epoch, 2> atomic;
    std::array<Epoch, 3> load;
  };
  static constexpr std::uint64_t kPageBytes = 1024;
  struct Page {
    unsigned unit = 4;  ///< bytes of a cell
    bool used = false;  ///< some cell may hold something
    std::vector<Cell> cells{kPageBytes / 4};
  };
  /// An atomic variable that carries what its writers had fenced.
  struct Carried {
    std::array<Known, 2> by;   ///< for the block of `block`, for the device
    std::uint64_t block = 0;   ///< of by[0]
    std::uint64_t writer = 0;  ///< the block that wrote it last
  };
  using Copied = std::pair<Span, Epoch>;
  struct PendingStore {
    Race race;
    std::array<std::uint8_t, 16> before{};
    std::uint64_t address = 0;
    unsigned bytes = 0;
    std::pair<const Block*, unsigned> by;
  };

  /// Of the memory at the address; null where there is no room to note what the instruction `code` does.
  Page* page_of(std::uint64_t address, std::uint64_t code);
  /// Calls visit(page's number, page) for each page of this memory that there is.
  template <class Visit>
  void each_page(Span memory, Visit visit);
  static std::size_t most_cells();
  bool ordered(const Epoch& before, const Block& block, unsigned thread) const;
  static bool knows(const Knowledge& known, const Epoch& before);
  /// What threads know who meet: `far` is one's.
  static void join(Block::Far& into, const Block::Far& far);
  bool before_launch(std::uint32_t phase) const;
  bool check(const Epoch& before, const Block& block, unsigned thread, const Epoch& now,
             std::uint64_t address, unsigned bytes);
  void visit(Cell& cell, const Block& block, unsigned thread, const Epoch& now, std::uint64_t address,
             unsigned bytes);
  void note_atomic(Block& block, unsigned thread, std::uint64_t address, Access access, AtomicHow how);
  std::shared_ptr<Knowledge> own(const Block& block, unsigned thread) const;
  std::string missing(const Epoch& before, const Block& block, unsigned thread, const Epoch& now,
                      unsigned apart) const;
  void report(Race race);
  void begin(const void* stream, const StreamClock& before);

  const Grid* grid_ = nullptr;
  const void* stream_ = nullptr;
  StreamClock before_;
  std::uint32_t phase_ = 0, first_phase_ = 0;
  std::vector<Copied> copied_, open_;   ///< on streams; those of them that do not come before this launch
  std::vector<const void*> stream_of_;  ///< by phase

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  struct RecentPage {
    std::uint64_t number = ~std::uint64_t{0};
    Page* page = nullptr;
  };
  std::array<RecentPage, 64> recent_{};  ///< by number
  std::size_t cells_ = 0;
  std::string shortage_;

  std::unordered_map<std::uint64_t, Carried> carried_;
  std::vector<PendingStore> pending_;  ///< of one instruction of one thread
  std::map<std::tuple<std::uint64_t, std::uint64_t, bool>, Race> races_;
  /// Store and load of a plain x = f(x) that several threads do to one place, with nothing that orders them.
  std::set<std::pair<std::uint64_t, std::uint64_t>> changes_;
};

// ---- for those who want to know ---------------------------------------------------------------------------

/// From here on races are looked for. `collected`: they are kept for end_races(); otherwise a launch with
/// one is a fault.
void begin_races(bool collected);
struct RaceFindings {
  std::vector<Race> races;
  std::string shortage;
  bool awaited = true;  ///< the host has waited for all kernels, in whatever stream
};
RaceFindings end_races();

/// "a race: a write-after-read hazard in shared memory at byte 128 ...", with lines.
std::string text_of(const Race& race);

}  // namespace stages::simt
