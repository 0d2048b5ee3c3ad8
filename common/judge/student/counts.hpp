#pragma once
// What the kernels of one product did to memory, as a student's process tells the judge. It arises where the
// student's code runs, so whoever reads it believes nothing of it.

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "common/judge/student/messages.hpp"

namespace stages::judge {

enum class CountedSpace : std::uint8_t { global, shared };
enum class CountedAccess : std::uint8_t { load, store, atomic };

/// A line of source, of a file without its directories.
struct CountedLine {
  std::string file;
  std::uint32_t line = 0;
};

/// What one instruction did to one array.
struct CountedSite {
  CountedSpace space = CountedSpace::global;
  CountedAccess access = CountedAccess::load;
  std::uint32_t bytes = 0;     ///< of a lane
  std::uint64_t requests = 0;  ///< of warps
  std::uint64_t lanes = 0;     ///< that took part, over all requests
  std::uint64_t cost = 0;      ///< sectors of 32 bytes of global memory, wavefronts of shared memory
  std::uint64_t least = 0;     ///< that the same bytes would take side by side
  /// What the array holds after the product: x, y, b, c, values, columns, rows (pointers); empty: other things.
  std::string array;
  std::vector<CountedLine> lines;  ///< the line that it is of, then that of the call, and so on
};

struct Counts {
  std::uint64_t launches = 0, threads = 0;
  std::uint64_t barriers = 0;  ///< that blocks or warps came to
  std::uint64_t read_bytes =
      0;  ///< of distinct sectors that loads of global memory touched, launch by launch
  std::vector<CountedSite> sites;
};

/// What was found when races were looked for.
struct RaceCounts {
  std::uint64_t races = 0;
  std::string first;     ///< of them, in words
  std::string shortage;  ///< why some may have been missed; empty: none was
  bool awaited = true;   ///< all kernels had ended when run() had been waited for
};

/// What Ask::count is asked for, in its head's `times`.
constexpr std::uint32_t kCount = 0, kRaces = 1;

/// The elements of a list. Each takes some bytes, so that a number that cannot be ends with the message.
template <class Each, class Element>
void list(Writer& out, const std::vector<Element>& elements, Each&& each) {
  out.number(static_cast<std::uint64_t>(elements.size()));
  for (const Element& element : elements) each(element);
}
template <class Each, class Element>
void list(Reader& in, std::vector<Element>& elements, Each&& each) {
  std::uint64_t count = 0;
  in.number(count);
  for (std::uint64_t k = 0; k < count; ++k) each(elements.emplace_back());
}

/// What a message holds, in its order (messages.hpp).
template <class Io, class Of>
requires std::same_as<std::remove_const_t<Of>, Counts>
void pass(Io& io, Of& counts) {
  io.number(counts.launches);
  io.number(counts.threads);
  io.number(counts.barriers);
  io.number(counts.read_bytes);
  list(io, counts.sites, [&](auto& site) {
    io.choice(site.space, CountedSpace::shared);
    io.choice(site.access, CountedAccess::atomic);
    io.number(site.bytes);
    io.number(site.requests);
    io.number(site.lanes);
    io.number(site.cost);
    io.number(site.least);
    io.array(site.array);
    list(io, site.lines, [&](auto& line) {
      io.array(line.file);
      io.number(line.line);
    });
  });
}
template <class Io, class Of>
requires std::same_as<std::remove_const_t<Of>, RaceCounts>
void pass(Io& io, Of& found) {
  io.number(found.races);
  io.array(found.first);
  io.array(found.shortage);
  io.number(found.awaited);
}

}  // namespace stages::judge
