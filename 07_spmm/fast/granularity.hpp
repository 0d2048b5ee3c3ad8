#pragma once
// Defaults of `balanced`, rules for all matrices, for what a Granularity leaves open:
//
//   strip  8, 16 or 32 columns if there are no more; else 256 bytes (64 floats): narrower strips read A and
//          find ends of rows more often, wider ones leave fewer groups to hide what a gather takes
//   lanes  a vector of 16 bytes each, but 4 at least; where B is not aligned as many as columns, or 32, which
//          take one to three columns each
//   loads  4 on 4 lanes. Else 8 if a strip is less than a line of B; if a row has 16 non-zeros or more on
//          average, since a batch in which rows end is added up one by one; and on 8 lanes if A has many
//          non-zeros. Else 4. (Lanes that have single columns take 8 whatever is asked for, or 4 of 96 columns)
//   share  half of what a group would get if the device took all non-zeros at once, so that there are two
//          waves of groups. At least 32 non-zeros, because beginning a share takes three trips to memory (16 if
//          that half, times the strips, is less than 6), and at most 256, so that what ends last ends soon: on
//          8 lanes 128, on 4 32
//   slack  an eighth of a share, or 16 non-zeros if that is more, but less than a share. Where rows are even,
//          so far that none is cut, if a share holds the mean one and there is one band
//   bands  1: shares in the order of rows
//   block  128 threads
//   packing  only if strip, lanes and loads are left open, too: B is copied strip by strip in each product
//          (packed_b.hpp) if all gathers together then ask for fewer lines of 128 bytes, by seven times those
//          that B has or more. Copying a line moves 256 bytes, at 4.1 TB/s, in the time in which four or five
//          lines come out of L2, at 9.2; but copying is a launch more, and measured it loses for 7 non-zeros a
//          row (by 5 to 20 %) and wins for 19 (up to 15 %). A packed B is aligned. Where rows of B begin with
//          lines, and strips end with them, there is nothing to be saved
//
// Exceptions where the strip, lanes and loads are all left open, the first that holds. "Aligned" means that
// rows of B begin at multiples of 16 bytes, or that B is packed:
//
//   condition                             strip   lanes    loads  share        bands
//   up to 16 bytes of a row of B          those   1        4      rule         1   a lane a non-zero
//   a mean row of 128, and of two shares  rule,   a vector rule   long rows    20
//   of long rows; aligned                 a line
//                                         at least
//   aligned floats that are not packed,   128     16       8      rule         1   for 100 columns a tenth
//   97 to 127 columns; or more, if there                                           faster than strips of 64;
//   are no more non-zeros than rows                                                such rows a fifth
//   aligned, a strip of less than a line, rule    columns  8      rule         1
//   many, not local, and 8 non-zeros a
//   row or a strip of less than half one
//
// Beside them, but neither for long rows nor for a lane a non-zero, where share and slack are left open, B is
// aligned and A is local and has many non-zeros, a share has 64 of them (16 if a strip is less than a line of
// B; 128 if A is banded and the mean row has 16 or more), or 256 if the mean row is longer; and no row is cut
// that is no longer: so many are the slack, too.
//
// A share of long rows has non-zeros / (80 x SMs), in whole eights, from 64 (16 if a strip is a line) to 128.
//
// Many are 24,000 non-zeros for each SM. Rows are even if none has more than four times as many non-zeros as
// the mean one. A matrix is local if of 4,096 non-zeros in turn half or fewer ask for a row of B that none
// before them has asked for: short shares keep what runs on an SM at a time near each other, and its L1 then
// has what they need. It is banded if 7.5 % or fewer do. That is counted on a sample of 32 such windows.
//
// A lane a non-zero is also used for up to 16 bytes that are left over: the last piece of a packed B, or what
// lies beside whole warps of a wider B that is neither aligned nor packed.
//
// These rules were fitted on the matrices of tools/sets/spmm-fitted.txt, and on generated ones that are in no
// list (07_spmm/notes.md), on an H100. What they cost there and on others is in 07_spmm/measured.md, "What the
// rules cost".

#include "07_spmm/row_major.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {

inline constexpr Index kWideStrip = 128;  ///< columns of floats, on 16 lanes

/// What rules need to know of a product.
struct SpmmShape {
  Offset nnz = 0;
  Index rows = 0;
  Index rows_of_b = 0;
  Index n_cols = 0;
  Offset ld_of_b = 0;  ///< elements from a row of B to the next
  Offset longest = 0;  ///< non-zeros of a row
  double fresh = 1;    ///< of kWindow non-zeros in turn, the part that asks for a row of B first; by a sample
};

inline constexpr Offset kWindow = 4096;  ///< non-zeros

/// The part of the non-zeros of a matrix that ask for a row of B for which none before them in their window of
/// kWindow has asked, by a sample of windows. 1: no row is asked for twice.
template <class T>
double sampled_fresh_share(const Csr<T>& a);

template <class T>
SpmmShape shape_of(const SpmmProblem<T>& problem);

/// Whether rows that are near each other ask for the same rows of B, so often that caches of an SM help.
bool is_local(const SpmmShape& shape);
/// Whether they do so nearly always, as where all non-zeros are near the diagonal.
bool is_banded(const SpmmShape& shape);
/// Whether A is local, its rows even, and the mean one not long.
bool is_mesh(const SpmmShape& shape);
/// Whether there are so many non-zeros that all SMs have enough to do, however they are cut.
bool has_many(const SpmmShape& shape);
/// Whether the mean row has so many non-zeros.
bool has_mean_row(const SpmmShape& shape, Index nonzeros);
/// Times the mean row that the longest is at most, where rows are even.
inline constexpr double kEven = 4;
/// Whether no row has more than `times` as many non-zeros as the mean row.
bool is_even(const SpmmShape& shape, double times = kEven);

/// `given` with what is 0 filled in by the rules above. Throws Error if there is no such form.
template <class T>
Granularity resolve(Granularity given, const SpmmShape& shape);

/// Whether a lane takes vectors of B.
template <class T>
bool takes_vectors(const Granularity& g, const SpmmShape& shape);

/// The columns of a B that is not packed, from the first to the last, by the launches that take them.
struct Division {
  Index whole = 0;  ///< in strips, the last of which may not be full
  Index rest = 0;   ///< in one strip of for_rest()
  Index few = 0;    ///< a lane a non-zero
};

/// Columns beside whole strips are the rest if they are half a strip at most; where B is not `aligned` to 16
/// bytes, together with the strip before them.
template <class T>
Division divide(Index n_cols, Index strip, bool aligned);

/// For columns that are not done in strips as wide as the others, 96 at most: the narrowest strip that has
/// room for all of them. `aligned`: B is, or it is packed.
template <class T>
Granularity for_rest(Index columns, bool aligned);

}  // namespace stages::spmm
