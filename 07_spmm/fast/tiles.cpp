#include "07_spmm/fast/tiles.hpp"
#include "common/matrix/instantiate.hpp"

#include <algorithm>

namespace stages::spmm {
namespace {

constexpr std::size_t kWarpLanes = 32;
constexpr Offset kSampledBands = 256;           ///< of a matrix, evenly spaced
constexpr Offset kSampledNonzeros = 1'000'000;  ///< if more would be looked at, fewer bands, but 16

/// Where a tile keeps the value of one of its 16 rows and 8 columns.
std::size_t place_in_tile(std::size_t row, std::size_t column) {
  const std::size_t lane = row % 8 * 4 + column % 4;
  return lane * 4 + column / 4 * 2 + row / 8;
}

/// Bands of rows, all but the short ones.
template <class T>
class Bands {
 public:
  explicit Bands(const Csr<T>& a) : a_(a) {
    for (Index i = 0; i < a.rows; ++i) (a.row_nnz(i) < kLeastOfTiledRow ? short_rows : rows).push_back(i);
    rows.resize((rows.size() + kTileRows - 1) / kTileRows * kTileRows, -1);
  }

  /// Calls `visit` with the row in the band and the place of each of its non-zeros. `band`: its first row.
  template <class Visit>
  void visit(std::size_t band, Visit visit) const {
    for (std::size_t r = 0; r < kTileRows; ++r) {
      const Index row = rows[band + r];
      if (row < 0) return;
      const auto begin = a_.row_ptr[static_cast<std::size_t>(row)];
      for (Offset e = begin; e < begin + a_.row_nnz(row); ++e) visit(r, static_cast<std::size_t>(e));
    }
  }

  /// The columns that occur in a band, ascending, to `columns`; returns how many tiles they take.
  std::size_t find_columns(std::size_t band, std::vector<Index>& columns) const {
    columns.clear();
    visit(band, [&](std::size_t, std::size_t e) { columns.push_back(a_.col_idx[e]); });
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    return (columns.size() + kTileColumns - 1) / kTileColumns;
  }

  std::vector<Index> rows, short_rows;  ///< as in Tiles

 private:
  const Csr<T>& a_;
};

}  // namespace

template <class T>
Tiles<T> cut_tiles(const Csr<T>& a) {
  Tiles<T> out;
  Bands<T> bands(a);
  out.first.push_back(0);
  std::vector<Index> columns;
  for (std::size_t band = 0; band < bands.rows.size(); band += kTileRows) {
    const std::size_t tiles = bands.find_columns(band, columns);
    const auto first = static_cast<std::size_t>(out.first.back());
    out.values.resize((first + tiles) * kTileRows * kTileColumns, T{0});
    bands.visit(band, [&](std::size_t r, std::size_t e) {
      const auto at = std::lower_bound(columns.begin(), columns.end(), a.col_idx[e]) - columns.begin();
      const auto place = static_cast<std::size_t>(at);
      const std::size_t tile = first + place / kTileColumns;
      out.values[tile * kTileRows * kTileColumns + place_in_tile(r, place % kTileColumns)] += a.values[e];
    });
    columns.resize(tiles * kTileColumns, columns.back());
    out.columns.insert(out.columns.end(), columns.begin(), columns.end());
    out.first.push_back(out.first.back() + static_cast<Offset>(tiles));
  }
  static_assert(kWarpLanes * 4 == kTileRows * kTileColumns);
  out.rows = std::move(bands.rows);
  out.short_rows = std::move(bands.short_rows);
  return out;
}

template <class T>
double tiles_busy(const Csr<T>& a) {
  constexpr std::size_t kWorthIt = 12;  // tiles of a band
  const Bands<T> bands(a);
  const Offset most = std::clamp(kSampledNonzeros * a.rows / (std::max(Offset{1}, a.nnz()) * kTileRows),
                                 Offset{16}, kSampledBands);
  const std::size_t count = bands.rows.size() / kTileRows,
                    sampled = std::min(count, static_cast<std::size_t>(most));
  std::size_t tiles = 0, nonzeros = 0;
  std::vector<Index> columns;
  for (std::size_t k = 0; k < sampled; ++k) {
    const std::size_t band = k * count / sampled * kTileRows;
    tiles += std::max(kWorthIt, bands.find_columns(band, columns));
    bands.visit(band, [&](std::size_t, std::size_t) { ++nonzeros; });
  }
  return tiles == 0 ? 0
                    : static_cast<double>(nonzeros) / static_cast<double>(tiles * kTileRows * kTileColumns);
}

template <class T>
double most_tiles(const Csr<T>& a) {
  const double bands = (a.rows + kTileRows - 1.0) / kTileRows;
  const double columns = std::min(static_cast<double>(a.nnz()), bands * a.cols);
  return columns / kTileColumns + bands;
}

STAGES_FOR_VALUES(cut_tiles)
STAGES_FOR_VALUES(most_tiles)
STAGES_FOR_VALUES(tiles_busy)

}  // namespace stages::spmm
