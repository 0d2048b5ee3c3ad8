// B, copied so that no strip of one of its rows lies in more lines of a cache than it must (packed_b.hpp).
//
// A gather costs the lines that it touches rather than bytes. 32 floats in one line are one request; where
// rows are 33 floats long, they lie in two lines for 31 rows of 32, and no vector fits them. A product asks
// for a row of B once a non-zero: if that is often enough (balanced.cu), it pays to write B anew in each
// run, side by side, at the full speed of the memory.
//
// A block copies 32 rows of a strip. Blocks with the same rows follow each other, so that a line that belongs
// to two strips is still in L2 for the second; and who has the last strip copies the narrow piece too, for
// which a block of its own would have too little to do. Cost: B read once and written once.

#include "07_spmm/fast/packed_b.hpp"

#include <array>
#include <bit>
#include <numeric>

namespace stages::spmm {
namespace {

constexpr unsigned kCopyRows = 32;  ///< so that a narrow piece of one float is a line
constexpr unsigned kCopyBlock = 256;
constexpr unsigned kCopyAhead = 4;  ///< elements that a thread asks for at once

/// A Piece as kernels take it.
template <class T>
struct CopyOfPiece {
  T* to = nullptr;  ///< row 0 of the first strip
  unsigned first = 0;
  unsigned columns = 0;
  unsigned strips = 0;
  unsigned first_block = 0;  ///< of those of some rows, the one that copies the first strip
  unsigned strip_bits = 0;   ///< the binary logarithm of a strip's columns
  unsigned lanes = 0;        ///< to which columns are dealt; 0: they are not
};

/// A strip, or what of it is left, of some rows.
template <class T>
struct Tile {
  RowMajor<const T> from;
  unsigned rows = 0;
  unsigned columns = 0;  ///< that B has
};

/// The column whose number lies at `place` of a row of a strip.
template <class T>
__device__ unsigned column_at(unsigned place, unsigned lanes) {
  constexpr unsigned kVector = kVectorLength<T>;
  return lanes == 0 ? place : place % kVector * lanes + place / kVector;
}

template <class T>
__device__ void copy_tile(const Tile<T>& tile, unsigned strip_bits, unsigned lanes, T* to) {
  const unsigned size = tile.rows << strip_bits, last_place = (1u << strip_bits) - 1;
  for (unsigned first = threadIdx.x; first < size; first += kCopyAhead * kCopyBlock) {
    T held[kCopyAhead] = {};
#pragma unroll
    for (unsigned u = 0; u < kCopyAhead; ++u) {
      const unsigned at = first + u * kCopyBlock, column = column_at<T>(at & last_place, lanes);
      if (at < size && column < tile.columns) {
        held[u] = __ldcs(tile.from.row(static_cast<Index>(at >> strip_bits)) + column);
      }
    }
#pragma unroll
    for (unsigned u = 0; u < kCopyAhead; ++u) {
      const unsigned at = first + u * kCopyBlock;
      if (at < size) to[at] = held[u];
    }
  }
}

/// The tile of strip `number` of `piece` that begins at row `top`.
template <class T>
__device__ void copy_strip(const RowMajor<const T>& b, Index rows, Offset top, const CopyOfPiece<T>& piece,
                           unsigned number) {
  const unsigned skipped = number << piece.strip_bits;
  const auto left = static_cast<unsigned>(min(Offset{kCopyRows}, rows - top));
  const RowMajor<const T> from{b.row(static_cast<Index>(top)) + piece.first + skipped, b.ld};
  T* const to = piece.to + ((Offset{number} * rows + top) << piece.strip_bits);
  copy_tile(Tile<T>{from, left, piece.columns - skipped}, piece.strip_bits, piece.lanes, to);
}

template <class T>
struct Copies {
  std::array<CopyOfPiece<T>, kMostPieces> piece;  ///< without strips where there are fewer
  unsigned strips = 0;                            ///< that have a block for each kCopyRows rows
};

template <class T>
__global__ void __launch_bounds__(kCopyBlock) copy_pieces(RowMajor<const T> b, Index rows, Copies<T> copies) {
  const Offset top = Offset{blockIdx.x / copies.strips} * kCopyRows;
  const unsigned mine = blockIdx.x % copies.strips;
#pragma unroll
  for (std::size_t p = 0; p < kMostPieces; ++p) {
    const CopyOfPiece<T>& piece = copies.piece[p];
    const unsigned number = mine - piece.first_block;  // huge where the piece has none up to `mine`
    if (number < piece.strips) copy_strip(b, rows, top, piece, number);
  }
}

Offset columns_of(std::span<const Piece> pieces) {
  Offset columns = 0;
  for (const Piece& piece : pieces) columns += Offset{piece.strips()} * piece.strip;
  return columns;
}

/// What is left beside whole strips, which end at column `first`: `rest` columns, fewer than a strip.
void add_rest(std::vector<Piece>& pieces, Index first, Index rest, Index line, Index sector) {
  const Index over = rest % line, lines = rest - over;
  const bool narrow = over > 0 && (lines > 0 ? over <= sector : over <= line / 2);
  const Index wide = narrow ? lines : rest;
  if (wide > 0) pieces.push_back({first, wide, lines + (over > 0 && !narrow ? line : 0)});
  if (narrow) {
    const auto width = std::bit_ceil(static_cast<unsigned>(over));
    pieces.push_back({first + wide, over, static_cast<Index>(width)});
  }
}

}  // namespace

std::vector<Piece> pieces_of(Index n_cols, Index strip, Index line, Index sector) {
  const Index rest = n_cols % strip, whole = n_cols - rest;
  std::vector<Piece> pieces;
  if (whole > 0) pieces.push_back({0, whole, strip});
  if (rest > 0) add_rest(pieces, whole, rest, line, sector);
  if (pieces.size() > 1 && pieces[1].strip == strip) {  // padded: one more of the same
    pieces[0].columns += pieces[1].columns;
    pieces.erase(pieces.begin() + 1);
  }
  return pieces;
}

double lines_packed(std::span<const Piece> pieces, Index line) {
  double lines = 0;
  for (const Piece& piece : pieces) {
    const Index last = piece.columns - (piece.strips() - 1) * piece.strip;
    const auto of = [line](Index columns) { return (columns + line - 1) / line; };
    lines += (piece.strips() - 1.0) * of(piece.strip) + of(last);
  }
  return lines;
}

double lines_as_it_lies(Index n_cols, Offset ld, Index at_once, Index line) {
  const Offset step = std::gcd(ld, Offset{line});  // rows begin at all multiples of it, equally often
  double lines = 0;
  for (Offset begin = 0; begin < line; begin += step) {
    for (Offset first = 0; first < n_cols; first += at_once) {
      const Offset from = begin + first, to = begin + std::min(Offset{n_cols}, first + at_once) - 1;
      lines += static_cast<double>(to / line - from / line + 1);
    }
  }
  return lines * static_cast<double>(step) / line;
}

template <class T>
PackedB<T>::PackedB(Index rows, std::vector<Piece> pieces)
    : rows_(rows),
      pieces_(std::move(pieces)),
      data_(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns_of(pieces_))) {}

template <class T>
double PackedB<T>::bytes(Index rows, std::span<const Piece> pieces) {
  return static_cast<double>(sizeof(T)) * rows * static_cast<double>(columns_of(pieces));
}

template <class T>
Offset PackedB<T>::before(const Piece& piece) const {
  Offset columns = 0;
  for (const Piece& other : pieces_)
    columns += other.first < piece.first ? Offset{other.strips()} * other.strip : 0;
  return rows_ * columns;
}

template <class T>
void PackedB<T>::copy(const RowMajor<const T>& b, bool dealt, cudaStream_t stream) {
  if (data_.empty()) return;
  constexpr Index kLine = kLineBytes / sizeof(T), kVector = kVectorLength<T>;
  Copies<T> copies;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const Piece& piece = pieces_[p];
    const auto strips = static_cast<unsigned>(piece.strips());
    const bool has_blocks = p == 0 || piece.strip >= kLine;
    copies.piece[p] = {
        .to = data_.data() + before(piece),
        .first = static_cast<unsigned>(piece.first),
        .columns = static_cast<unsigned>(piece.columns),
        .strips = strips,
        .first_block = has_blocks ? copies.strips : copies.strips - 1,
        .strip_bits = static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(piece.strip))),
        .lanes = dealt && piece.strip >= kVectorStrip ? static_cast<unsigned>(piece.strip / kVector) : 0};
    if (has_blocks) copies.strips += strips;
  }
  launch(copy_pieces<T>,
         {.grid = blocks_for(blocks_for(rows_, kCopyRows) * Offset{copies.strips}, 1),
          .block = kCopyBlock,
          .stream = stream},
         b, rows_, copies);
}

template class PackedB<float>;
template class PackedB<double>;

}  // namespace stages::spmm
