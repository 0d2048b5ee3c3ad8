#include "common/student/counts.hpp"

namespace stages::student {
namespace {

template <class Io, class Site>
void site(Io& io, Site& s) {
  io.choice(s.space, CountedSpace::shared);
  io.choice(s.access, CountedAccess::atomic);
  io.number(s.bytes);
  io.number(s.requests);
  io.number(s.lanes);
  io.number(s.cost);
  io.number(s.least);
  io.array(s.array);
}

template <class Io, class Line>
void line(Io& io, Line& l) {
  io.array(l.file);
  io.number(l.line);
}

template <class Io, class Of>
void head(Io& io, Of& counts) {
  io.number(counts.launches);
  io.number(counts.threads);
  io.number(counts.barriers);
  io.number(counts.read_bytes);
}

template <class Io, class Of>
void races(Io& io, Of& found) {
  io.number(found.races);
  io.array(found.first);
  io.array(found.shortage);
}

}  // namespace

void put(Writer& out, const Counts& counts) {
  head(out, counts);
  out.number(static_cast<std::uint64_t>(counts.sites.size()));
  for (const CountedSite& s : counts.sites) {
    site(out, s);
    out.number(static_cast<std::uint64_t>(s.lines.size()));
    for (const CountedLine& l : s.lines) line(out, l);
  }
}

void put(Writer& out, const RaceCounts& found) {
  races(out, found);
  out.number(static_cast<std::uint8_t>(found.awaited));
}

Counts take_counts(Reader& in) {
  Counts counts;
  head(in, counts);
  std::uint64_t sites = 0;
  in.number(sites);
  // Each takes some bytes, so that a number that cannot be ends with the message.
  for (std::uint64_t k = 0; k < sites; ++k) {
    CountedSite& s = counts.sites.emplace_back();
    site(in, s);
    std::uint64_t lines = 0;
    in.number(lines);
    for (std::uint64_t i = 0; i < lines; ++i) line(in, s.lines.emplace_back());
  }
  in.end();
  return counts;
}

RaceCounts take_races(Reader& in) {
  RaceCounts found;
  races(in, found);
  std::uint8_t awaited = 0;
  in.number(awaited);
  found.awaited = awaited != 0;
  in.end();
  return found;
}

}  // namespace stages::student
