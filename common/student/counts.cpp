#include "common/student/counts.hpp"

namespace stages::student {
namespace {

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

template <class Io, class Of>
void pass_counts(Io& io, Of& counts) {
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
void pass_races(Io& io, Of& found) {
  io.number(found.races);
  io.array(found.first);
  io.array(found.shortage);
  io.number(found.awaited);
}

}  // namespace

void put(Writer& out, const Counts& counts) { pass_counts(out, counts); }

void put(Writer& out, const RaceCounts& found) { pass_races(out, found); }

Counts take_counts(Reader& in) {
  Counts counts;
  pass_counts(in, counts);
  in.end();
  return counts;
}

RaceCounts take_races(Reader& in) {
  RaceCounts found;
  pass_races(in, found);
  in.end();
  return found;
}

}  // namespace stages::student
