#include "common/mpi/deal.hpp"

#include <algorithm>

#include "common/matrix/instantiate.hpp"
#include "common/matrix/processors.hpp"
#include "common/matrix/statistics.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/transfer.hpp"

namespace stages::mpi {

RowBounds deal(std::span<const Offset> before, int ranks) {
  const auto rows = std::ssize(before) - 1;
  const Offset total = before.back();
  RowBounds bounds(static_cast<std::size_t>(ranks) + 1, 0);
  for (int r = 1; r < ranks; ++r) {
    const auto rank = static_cast<std::size_t>(r);
    if (total == 0) {
      bounds[rank] = static_cast<Index>(rows * r / ranks);
      continue;
    }
    // The row that crosses the share goes to the side where less of it sticks out.
    const auto share = static_cast<Offset>(static_cast<double>(total) * r / ranks);
    auto row = std::upper_bound(before.begin(), before.end(), share) - before.begin() - 1;
    row = std::min(row, rows);
    if (row < rows &&
        before[static_cast<std::size_t>(row) + 1] - share < share - before[static_cast<std::size_t>(row)])
      ++row;
    bounds[rank] = std::max(bounds[rank - 1], static_cast<Index>(row));
  }
  bounds.back() = static_cast<Index>(rows);
  return bounds;
}

std::vector<Offset> elements_before(const RowBounds& rows, Index columns) {
  std::vector<Offset> before;
  for (const Index row : rows) before.push_back(Offset{row} * columns);
  return before;
}

template <class T>
std::vector<Offset> products_before(const Csr<T>& a, const Csr<T>& b, Offset per_row) {
  const AllProcessors hold;
  const Buffer<Offset> products = spgemm_row_products(a, b);
  std::vector<Offset> before(products.size() + 1, 0);
  for (std::size_t i = 0; i < products.size(); ++i) before[i + 1] = before[i] + products[i] + per_row;
  return before;
}

std::vector<Offset> reweighed(std::span<const Offset> before, const RowBounds& bounds,
                              std::span<const double> seconds) {
  std::vector<Offset> out(before.size(), 0);
  for (std::size_t r = 0; r + 1 < bounds.size(); ++r) {
    const auto first = static_cast<std::size_t>(bounds[r]), last = static_cast<std::size_t>(bounds[r + 1]);
    const auto weight = static_cast<double>(before[last] - before[first]);
    const double each = weight > 0 ? 1e12 * std::max(seconds[r], 0.0) / weight : 0;
    // From the start of the share, so that what is rounded off doesn't add up over the rows.
    for (std::size_t i = first; i < last; ++i) {
      out[i + 1] =
          out[first] + static_cast<Offset>(each * static_cast<double>(before[i + 1] - before[first]));
    }
  }
  return out;
}

double imbalance(std::span<const Offset> before, const RowBounds& bounds) {
  if (before.back() == 0) return 1;
  Offset largest = 0;
  for (std::size_t r = 0; r + 1 < bounds.size(); ++r) {
    largest = std::max(largest, before[static_cast<std::size_t>(bounds[r + 1])] -
                                    before[static_cast<std::size_t>(bounds[r])]);
  }
  return static_cast<double>(largest) * static_cast<double>(bounds.size() - 1) /
         static_cast<double>(before.back());
}

RowBounds shared_bounds(RowBounds bounds, MPI_Comm comm) {
  bounds.resize(static_cast<std::size_t>(rank_count(comm)) + 1);
  broadcast(bounds.data(), std::ssize(bounds), 0, comm);
  return bounds;
}

STAGES_FOR_VALUES(products_before)

}  // namespace stages::mpi
