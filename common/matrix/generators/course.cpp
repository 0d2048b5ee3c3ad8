// The pair of matrices that a published course project on sparse times sparse measured (docs/generators.md,
// "The course pair"). The structured form has the shape, both counts (as distinct entries), the values, both
// nnz(C) of its report (all rows and columns, and without the last 15), and with them that C has 511 full
// columns.
//
// Inferred: that B's rows hold pieces of those 511 columns and that any 90 neighbouring rows of A's columns
// hold all pieces, which is the plainest structure with these counts: a window of 95 or 96 columns in each
// row of A, and in row k of B piece k mod 90 (5 or 6 columns).

#include <algorithm>

#include "common/matrix/generators/generators.hpp"
#include "common/matrix/random.hpp"

namespace stages::recipes {
namespace {

using random::Word;

/// `extra` of `n` rows, spread evenly, get one entry more: whether row i is one of them.
bool has_extra(Index i, Index n, Offset extra) { return (i + 1) * extra / n > i * extra / n; }

/// The counts of the pair, divided by `shrink`. Shrunk pairs keep the structure, and their counts are
/// rounded so that it still closes.
struct CourseShape {
  Index n;           // rows and columns of A, B and C
  Index full;        // full columns of C
  Index pieces;      // pieces into which B's rows divide them
  Offset a_entries;  // of A; at least `pieces` per row
  Offset b_entries;  // of B

  explicit CourseShape(Index shrink) : n(8191 / shrink), full(511 / shrink), b_entries(46'796 / shrink) {
    // The fewest pieces with which `b_entries` reach all rows.
    pieces = static_cast<Index>((Offset{full} * n + b_entries - 1) / b_entries);
    a_entries = std::max<Offset>(784'379 / (shrink * shrink), Offset{pieces} * n);
  }
};

/// Row i: a window of neighbouring columns around i, of the mean length, rounded up in some rows.
Recipe structured_a(const CourseShape& s) {
  const auto shorter = static_cast<Index>(s.a_entries / s.n);
  const Offset longer_rows = s.a_entries % s.n;
  return row_recipe(s.n, s.n, s.a_entries, false, [=](Index i, auto&& emit) {
    const Index length = shorter + (has_extra(i, s.n, longer_rows) ? 1 : 0);
    const Index begin = std::clamp(i - length / 2, 0, s.n - length);
    for (Index j = begin; j < begin + length; ++j) emit(j);
  });
}

/// Row k: piece k mod pieces of the full columns, which lie n / full apart. The entries that remain go to
/// rows spread evenly, one each, next to the row's piece.
Recipe structured_b(const CourseShape& s) {
  const auto piece_begin = [=](Index piece) { return static_cast<Index>(Offset{piece} * s.full / s.pieces); };
  Offset placed = 0;
  for (Index k = 0; k < s.n; ++k) placed += piece_begin(k % s.pieces + 1) - piece_begin(k % s.pieces);
  const Offset extra = std::max<Offset>(0, s.b_entries - placed);
  const Index step = s.n / s.full;
  return row_recipe(s.n, s.n, placed + extra, false, [=](Index k, auto&& emit) {
    Index begin = piece_begin(k % s.pieces), end = piece_begin(k % s.pieces + 1);
    if (has_extra(k, s.n, extra)) {
      if (end < s.full) {
        ++end;
      } else {
        --begin;
      }
    }
    for (Index c = begin; c < end; ++c) emit(c * step);
  });
}

Recipe plan_course_pair(const Parameters& p) {
  const bool is_a = p.choice("which", {"a", "b"}) == "a";
  const CourseShape s(static_cast<Index>(p.count("shrink", 1, 16)));
  if (p.choice("form", {"structured", "uniform"}) == "structured")
    return is_a ? structured_a(s) : structured_b(s);
  const Word key = random::key(p.seed(), random::Purpose::cells);
  return drawn_cells(s.n, s.n, is_a ? s.a_entries : s.b_entries, is_a ? key : random::mix(key));
}

}  // namespace

std::vector<Generator> course_generators() {
  return {{{"d1",
            "the 8191 x 8191 pair of a course project on sparse times sparse: C has 511 full columns",
            "gen:d1:which=a,form=structured",
            {{"which", "a", "a or b, the factors of C = A * B"},
             {"form", "structured",
              "structured: C has 511 full columns; uniform: the same counts at random places"},
             {"shrink", "1", "1 to 16: divides rows, columns and the length of A's rows and C's"},
             {"values", "ones", "as for the other generators, but ones unless said otherwise"}}},
           plan_course_pair}};
}

}  // namespace stages::recipes
