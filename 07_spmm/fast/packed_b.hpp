#pragma once
// A copy of B, strip by strip, in which no strip of a row of B lies in more lines of a cache than it must.
// For balanced.cu, where rows of B begin anywhere; the copy belongs to the timed run, as B is new in each.
//
//   N = 100, strips of 64 floats     B:      row 0: |<- 400 bytes ->|row 1: |<- 400 bytes ->|...
//                                    packed: columns 0..63:   row 0 |row 1 |row 2 |...    256 bytes each
//                                            columns 64..95:  row 0|row 1|row 2|...       128 bytes each
//                                            columns 96..99:  row 0,row 1,row 2,...        16 bytes each

#include <span>
#include <vector>

#include "07_spmm/row_major.hpp"

namespace stages::spmm {

inline constexpr Index kSectorBytes = 32;  ///< what a gather moves at least; a quarter of a line

/// Columns [first, first + columns) of B, each `strip` of them an array of its own: rows_of_b rows, which lie
/// side by side. What the last strip has beyond `columns` is 0.
struct Piece {
  Index first = 0;
  Index columns = 0;
  Index strip = 0;  ///< a power of 2

  Index strips() const { return (columns + strip - 1) / strip; }
  bool operator==(const Piece&) const = default;
};

/// At most so many: whole strips, a line beside them, and what is less.
inline constexpr std::size_t kMostPieces = 3;

/// The pieces of `n_cols` columns in strips of `strip`, which is one or two `line`s, of columns too, as
/// `sector` is. What is left beside whole strips is padded to one if that takes no line more; half a line
/// or less, and a sector or less beside a line, are narrow pieces, whose rows share lines with others.
std::vector<Piece> pieces_of(Index n_cols, Index strip, Index line, Index sector);

/// The same for numbers of type T.
template <class T>
std::vector<Piece> pieces_of(Index n_cols, Index strip) {
  constexpr Index kSize = sizeof(T);
  return pieces_of(n_cols, strip, kLineBytes / kSize, kSectorBytes / kSize);
}

/// How many lines a non-zero asks for, its row of B being packed.
double lines_packed(std::span<const Piece> pieces, Index line);

/// The same where row i of B begins at element i * ld: the mean over its rows. A load asks for `at_once`
/// columns, and for each line that these have a part in.
double lines_as_it_lies(Index n_cols, Offset ld, Index at_once, Index line);

/// The copy.
template <class T>
class PackedB {
 public:
  PackedB() = default;
  PackedB(Index rows, std::vector<Piece> pieces);

  /// Copies `b`. With `dealt`, the columns of a strip of kVectorStrip or more are interleaved over its lanes:
  /// of 8 lanes, lane l holds the columns l, l + 8, l + 16, ... in its vector of 16 bytes. This is for a C
  /// whose rows are not aligned to 16 bytes. Lanes must then store number by number, and interleaved columns
  /// make these stores coalesced.
  void copy(const RowMajor<const T>& b, bool dealt, cudaStream_t stream);

  std::span<const Piece> pieces() const { return pieces_; }
  /// The array of a piece's first strip. Those of its other strips follow, each `apart(piece)` further on.
  const T* data(const Piece& piece) const { return data_.data() + before(piece); }
  Offset apart(const Piece& piece) const { return Offset{rows_} * piece.strip; }
  double bytes() const { return static_cast<double>(data_.bytes()); }

  /// For cost().
  static double bytes(Index rows, std::span<const Piece> pieces);

 private:
  Offset before(const Piece& piece) const;

  Index rows_ = 0;
  std::vector<Piece> pieces_;
  DeviceArray<T> data_;
};

/// The narrowest strip that may be dealt. Narrower ones may have a column a lane although B is aligned.
inline constexpr Index kVectorStrip = 32;

}  // namespace stages::spmm
