#pragma once
// Matrix Market files, in and out. Format: R. Boisvert, R. Pozo, K. Remington, "The Matrix Market Exchange
// Formats: Initial Design", NISTIR 5935 (1996).
//
// Read: coordinate and array; real, integer and pattern (whose values are 1); general, symmetric and
// skew-symmetric, expanded so that diagonals are never doubled; plain or gzip-compressed, told apart by the
// first bytes, not by the name. Complex files are refused by name.
//
// Lenient where nothing can be mistaken: any letter case, CRLF, blank lines, comment lines and spaces
// anywhere, `+1`, `1.0D+00`, a banner with leading spaces or a single `%`, entries of a symmetric file in
// either triangle, `double` for real, real Hermitian files, zeros on the diagonal of a skew-symmetric one, NULs
// behind the text. Strict elsewhere: one entry a line, exactly the declared number of entries, indices inside
// the matrix, numbers that parse completely. A finite number beyond the range of T is refused, one too small
// for T is rounded to zero or to a subnormal, an integer must fit into 64 bits (signed or unsigned) and is
// rounded to T (counted where that changes it, ReadReport::rounded). A packed file that unfolds to 128 MiB
// and 100 times its size, or to 64 MiB and mostly comments, is refused; what it unpacks to is read. `nan`,
// `inf` and `infinity` are values that other tools write, and are read as such and counted
// (ReadReport::non_finite), or refused with ReadOptions::allow_non_finite = false.
//
// Every error is one line, `file:line: what is wrong; how to mend it`, with lines counted from 1 and, in
// compressed files, in the text they unpack to.

#include <string>

#include "common/matrix/byte_source.hpp"
#include "common/matrix/types.hpp"

namespace stages {

struct MatrixMarketHeader {
  enum class Format { coordinate, array };
  enum class Field { real, integer, pattern };
  enum class Symmetry { general, symmetric, skew_symmetric };

  Format format = Format::coordinate;
  Field field = Field::real;
  Symmetry symmetry = Symmetry::general;
  Index rows = 0, cols = 0;
  Offset stored = 0;     ///< entries that the file holds, before symmetry is expanded
  Offset size_line = 0;  ///< the line that says how many

  bool mirrored() const { return symmetry != Symmetry::general; }
  bool operator==(const MatrixMarketHeader&) const = default;
};

struct ReadOptions {
  int index_base = 1;  ///< the number of the first row and column: 1, or 0 for files that break the rule
  bool drop_out_of_range =
      false;                     ///< leave out entries outside the matrix (counted) instead of refusing them
  bool allow_non_finite = true;  ///< whether nan and infinities are read or refused
  Offset max_bytes = 0;          ///< the largest result to allocate; 0: what the machine has available
};

/// What reading met on its way.
struct ReadReport {
  MatrixMarketHeader header;
  Offset dropped = 0;     ///< entries outside the matrix, left out (only with drop_out_of_range)
  Offset repeated = 0;    ///< entries, after symmetry was expanded, that were added to an earlier one
  Offset non_finite = 0;  ///< values read that are nan or infinite
  Offset rounded = 0;     ///< values of an integer file that T does not hold exactly: beyond 2^53, or 2^24
};

/// The banner and the size line alone. Throws Error.
MatrixMarketHeader read_matrix_market_header(const std::string& path);

/// The matrix in canonical form. While it is made, each entry takes two indices and a value besides the result.
/// Entries that repeat are summed in file order; explicit zeros of coordinate files are kept, zeros of array
/// files are not. T: float or double. Throws Error.
/// `name` stands for the file in messages; `source` is unpacked already.
template <class T>
Csr<T> read_matrix_market(ByteSource& source, const std::string& name, const ReadOptions& options = {},
                          ReadReport* report = nullptr);
template <class T>
Csr<T> read_matrix_market(const std::string& path, const ReadOptions& options = {},
                          ReadReport* report = nullptr) {
  return read_matrix_market<T>(*open_unpacked(path), path, options, report);
}

/// The matrix with every element written out, without padding, from array and coordinate files alike. Throws
/// Error.
template <class T>
Dense<T> read_matrix_market_dense(ByteSource& source, const std::string& name,
                                  Layout layout = Layout::row_major, const ReadOptions& options = {},
                                  ReadReport* report = nullptr);
template <class T>
Dense<T> read_matrix_market_dense(const std::string& path, Layout layout = Layout::row_major,
                                  const ReadOptions& options = {}, ReadReport* report = nullptr) {
  return read_matrix_market_dense<T>(*open_unpacked(path), path, layout, options, report);
}

/// Writes `a` as `coordinate real general`, row by row, 1-based, each value with the fewest digits that read
/// back as the same bits; or as `coordinate pattern general`, without values. The file appears complete or not
/// at all; a name that ends in ".gz" is compressed. Throws Error.
template <class T>
void write_matrix_market(const std::string& path, const Csr<T>& a, bool pattern = false);

/// Writes `a` as `array real general`, column by column.
template <class T>
void write_matrix_market(const std::string& path, const Dense<T>& a);

}  // namespace stages
