#pragma once
// What an exercise demands of a kernel's efficiency, in counts of the lens (docs/lens.md). In its head:
//
//   // At most: 4.5 sectors a request in loads of x
//   // At most: 12,000 requests in loads          // all of one product
//   // At least: 20 lanes a request in loads
//   // At most: 600 wavefronts in shared accesses
//   // At most: 1 launches                        // threads, barriers
//   // No bank conflict
//   // No race
//   // Counted on: gen:uniform:n=600,per_row=10; 8 vectors
//
//   At most | At least: NUMBER WHAT [a request] [in [global | shared] ACCESSES [of ARRAY]]
//   WHAT       sectors (global memory), wavefronts (shared memory), requests, lanes, launches, threads,
//              barriers
//   ACCESSES   loads, stores, atomics, accesses: global ones, unless it says shared or counts wavefronts
//   ARRAY      what it holds after the product: x, y, b, c, values, columns or rows (the row pointers) of A

#include <optional>
#include <string>
#include <string_view>

#include "common/judge/student/counts.hpp"

namespace stages::judge {

struct Demand {
  enum class What { cost, requests, lanes, launches, threads, barriers, no_conflict, no_race };
  std::string text;  ///< as it stands in the head
  What what = What::no_race;
  bool at_least = false;
  double limit = 0;
  bool each = false;  ///< a request
  CountedSpace space = CountedSpace::global;
  std::optional<CountedAccess> access = {};  ///< none: all
  std::string array = {};                    ///< empty: all
};

/// On what a product is counted.
struct CountedOn {
  std::string matrix = "gen:uniform:n=600,per_row=10";
  int vectors = 1;   ///< SpMV: independent ones
  int columns = 32;  ///< SpMM: of B
};

/// The demand that a line of an exercise's head states; none: it states something else. Throws Error where it
/// is not understood.
std::optional<Demand> demand_of(std::string_view line);
/// What follows "// Counted on: ".
CountedOn counted_on(std::string_view text);

/// Why the demand is not met, with the line that breaks it; empty: it is. `file` is the name of the student's.
std::string broken_by(const Demand& demand, const Counts& counts, const RaceCounts& races,
                      const std::string& file);

/// What any way to compute the product must read and write in device memory, at least.
struct LeastBytes {
  double read = 0, written = 0;
};

/// Why these counts cannot be of such a product: numbers that contradict each other, or are below the least
/// that it must read and write. Empty: they can.
std::string implausible(const Counts& counts, const LeastBytes& least);

}  // namespace stages::judge
