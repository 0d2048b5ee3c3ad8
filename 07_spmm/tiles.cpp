#include "07_spmm/tiles.hpp"

#include <algorithm>

namespace stages::spmm {
namespace {

constexpr std::size_t kWarp = 32;

/// Where a tile keeps the value of one of its 16 rows and 8 columns.
std::size_t place_in_tile(std::size_t row, std::size_t column) {
  const std::size_t lane = row % 8 * 4 + column % 4;
  return lane * 4 + column / 4 * 2 + row / 8;
}

}  // namespace

template <class T>
Tiles<T> cut_tiles(const Csr<T>& a) {
  Tiles<T> out;
  for (Index i = 0; i < a.rows; ++i)
    (a.row_nnz(i) < kLeastOfTiledRow ? out.short_rows : out.rows).push_back(i);
  out.rows.resize((out.rows.size() + kTileRows - 1) / kTileRows * kTileRows, -1);
  out.first.push_back(0);
  std::vector<Index> columns;
  const auto for_band = [&](std::size_t band, auto visit) {
    for (std::size_t r = 0; r < kTileRows; ++r) {
      const Index row = out.rows[band + r];
      if (row < 0) return;
      const auto begin = a.row_ptr[static_cast<std::size_t>(row)];
      for (Offset e = begin; e < begin + a.row_nnz(row); ++e) visit(r, static_cast<std::size_t>(e));
    }
  };
  for (std::size_t band = 0; band < out.rows.size(); band += kTileRows) {
    columns.clear();
    for_band(band, [&](std::size_t, std::size_t e) { columns.push_back(a.col_idx[e]); });
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    const std::size_t tiles = (columns.size() + kTileColumns - 1) / kTileColumns;
    const auto first = static_cast<std::size_t>(out.first.back());
    out.values.resize((first + tiles) * kTileRows * kTileColumns, T{0});
    for_band(band, [&](std::size_t r, std::size_t e) {
      const auto at = std::lower_bound(columns.begin(), columns.end(), a.col_idx[e]) - columns.begin();
      const auto place = static_cast<std::size_t>(at);
      const std::size_t tile = first + place / kTileColumns;
      out.values[tile * kTileRows * kTileColumns + place_in_tile(r, place % kTileColumns)] += a.values[e];
    });
    columns.resize(tiles * kTileColumns, columns.back());
    out.columns.insert(out.columns.end(), columns.begin(), columns.end());
    out.first.push_back(out.first.back() + static_cast<Offset>(tiles));
  }
  static_assert(kWarp * 4 == kTileRows * kTileColumns);
  return out;
}

template <class T>
double most_tiles(const Csr<T>& a) {
  const double bands = (a.rows + kTileRows - 1.0) / kTileRows;
  const double columns = std::min(static_cast<double>(a.nnz()), bands * a.cols);
  return columns / kTileColumns + bands;
}

template Tiles<float> cut_tiles(const Csr<float>&);
template Tiles<double> cut_tiles(const Csr<double>&);
template double most_tiles(const Csr<float>&);
template double most_tiles(const Csr<double>&);

}  // namespace stages::spmm
