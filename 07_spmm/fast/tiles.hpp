#pragma once
// A matrix in tiles for tensor cores, cut on the host in prepare.

#include <span>
#include <vector>

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"

namespace stages::spmm {

inline constexpr Index kTileRows = 16;
inline constexpr Index kTileColumns = 8;

/// Shorter rows are left out of the tiles. Three products a non-zero lose up to 2^-21 of it
/// (dense_tiles.cu counts them up), and the check grants 2^-22 of the sum for each non-zero of a row. With
/// 4 there is room for what the sums lose, too.
inline constexpr Index kLeastOfTiledRow = 4;

/// The rows of a matrix, 16 at a time and apart from short ones. 16 such rows are a `band`, here and wherever
/// tiles are multiplied or chosen; in `balanced` a band is of columns. The columns that occur in a band are
/// packed: 8 of them are a tile, and the last tile is filled up with zeros. A tile's 128 values come in the
/// order in which the lanes of a warp take them, 4 a lane (common/gpu/tensor.hpp).
/// Source: packed columns are those of TC-GNN (Y. Wang and others, USENIX ATC 2023), and of DTC-SpMM (R. Fan
/// and others, ASPLOS 2024).
template <class T>
struct Tiles {
  std::vector<Index> rows;        ///< 16 a band; -1: the last band has none here
  std::vector<Index> short_rows;  ///< all others
  std::vector<Offset> first;      ///< tile of each band, and the number of all tiles
  std::vector<Index> columns;     ///< 8 a tile, all of them in the matrix
  std::vector<T> values;          ///< 128 a tile
};

template <class T>
Tiles<T> cut_tiles(const Csr<T>& a);

/// Tiles as kernels see them, and the matrix that they were cut from.
template <class T>
struct TiledMatrix {
  const Index* rows = nullptr;
  const Offset* first = nullptr;
  const Index* columns = nullptr;
  const T* values = nullptr;
  const Index* short_rows = nullptr;
  Offset bands = 0, n_short = 0;
  CsrView<T> csr;
};

/// The same in device memory.
template <class T>
class DeviceTiles {
 public:
  explicit DeviceTiles(const Csr<T>& a) : DeviceTiles(a, cut_tiles(a)) {}

  TiledMatrix<T> view() const {
    return {rows_.data(),
            first_.data(),
            columns_.data(),
            values_.data(),
            short_rows_.data(),
            static_cast<Offset>(rows_.size()) / kTileRows,
            static_cast<Offset>(short_rows_.size()),
            csr_.view()};
  }

 private:
  DeviceTiles(const Csr<T>& a, const Tiles<T>& tiles)
      : csr_(a),
        rows_(std::span<const Index>(tiles.rows)),
        short_rows_(std::span<const Index>(tiles.short_rows)),
        columns_(std::span<const Index>(tiles.columns)),
        first_(std::span<const Offset>(tiles.first)),
        values_(std::span<const T>(tiles.values)) {}

  DeviceCsr<T, Offset> csr_;
  DeviceArray<Index> rows_, short_rows_, columns_;
  DeviceArray<Offset> first_;
  DeviceArray<T> values_;
};

/// No fewer than the tiles that cut_tiles() makes.
template <class T>
double most_tiles(const Csr<T>& a);

/// The part of the places of tiles that non-zeros would take, as a sample of bands tells, if no band had fewer
/// than 12 tiles, with which a warp is worth it.
template <class T>
double tiles_busy(const Csr<T>& a);

}  // namespace stages::spmm
