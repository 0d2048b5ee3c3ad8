// Transfers of any size, and the dealing of rows.
#include "common/mpi/transfer.hpp"

#include <numeric>

#include "02_mpi/halo.hpp"
#include "02_mpi/requests.hpp"
#include "common/matrix/generate.hpp"
#include "common/mpi/deal.hpp"
#include "tests/expect.hpp"
#include "tests/mpi/checks.hpp"

namespace stages::mpi_tests {
namespace {

/// A number that tells where it came from.
std::int32_t token(int rank, Offset place) { return static_cast<std::int32_t>(rank * 1'000'000 + place); }

/// Part r has 97 r elements: the first is empty, none divides by any of the limits.
std::vector<Offset> uneven_bounds(int ranks) {
  std::vector<Offset> bounds(static_cast<std::size_t>(ranks) + 1, 0);
  for (int r = 0; r < ranks; ++r)
    bounds[static_cast<std::size_t>(r) + 1] = bounds[static_cast<std::size_t>(r)] + 97 * r;
  return bounds;
}

void scatter_and_gather(World& world, int root) {
  const auto bounds = uneven_bounds(world.ranks.size());
  const auto me = static_cast<std::size_t>(world.ranks.rank());
  const auto own = static_cast<std::size_t>(bounds[me + 1] - bounds[me]);
  std::vector<std::int32_t> whole, part(own, -1), back;
  if (world.ranks.rank() == root) {
    for (int r = 0; r < world.ranks.size(); ++r)
      for (Offset k = 0; k < 97 * r; ++k) whole.push_back(token(r, k));
    back.assign(whole.size(), -1);
  }
  mpi::scatter(whole.data(), part.data(), bounds, root, world.ranks.comm());
  for (std::size_t k = 0; k < own; ++k)
    require(part[k] == token(world.ranks.rank(), static_cast<Offset>(k)), "scatter from {}: element {} is {}",
            root, k, part[k]);
  mpi::gather(part.data(), back.data(), bounds, root, world.ranks.comm());
  require(back == (world.ranks.rank() == root ? whole : back), "gather to {} brought other elements", root);
  std::vector<std::int32_t> all(static_cast<std::size_t>(bounds.back()), -1);
  std::copy(part.begin(), part.end(), all.begin() + bounds[me]);
  mpi::all_gather(all.data(), bounds, world.ranks.comm());
  for (int r = 0; r < world.ranks.size(); ++r)
    for (Offset k = 0; k < 97 * r; ++k)
      require(all[static_cast<std::size_t>(bounds[static_cast<std::size_t>(r)] + k)] == token(r, k),
              "all_gather: element {} of rank {} is another", k, r);
}

void all_to_all_messages(World& world) {
  const int ranks = world.ranks.size(), me = world.ranks.rank();
  std::vector<std::vector<std::int32_t>> out(static_cast<std::size_t>(ranks)), in(out.size());
  mpi::Transfers transfers(world.ranks.comm());
  for (int r = 0; r < ranks; ++r) {
    auto& from = in[static_cast<std::size_t>(r)];
    auto& to = out[static_cast<std::size_t>(r)];
    from.resize(static_cast<std::size_t>(50 * me + r));
    to.resize(static_cast<std::size_t>(50 * r + me));
    std::iota(to.begin(), to.end(), token(me, 1000 * r));
    transfers.receive(from.data(), std::ssize(from), r);
    transfers.send(to.data(), std::ssize(to), r);
  }
  transfers.wait();
  for (int r = 0; r < ranks; ++r) {
    const auto& from = in[static_cast<std::size_t>(r)];
    for (std::size_t k = 0; k < from.size(); ++k)
      require(from[k] == token(r, 1000 * me + static_cast<Offset>(k)), "message from {}: element {} is {}", r,
              k, from[k]);
  }
}

void broadcasts(World& world, int root) {
  Buffer<std::int32_t> data;
  if (world.ranks.rank() == root) {
    data.resize(1234);
    std::iota(data.begin(), data.end(), token(root, 0));
  }
  mpi::broadcast(data, root, world.ranks.comm());
  require(data.size() == 1234 && data.front() == token(root, 0) && data.back() == token(root, 1233),
          "broadcast from {} brought {} elements", root, data.size());
}

}  // namespace

/// 1 byte cuts every element; 100 cuts within elements; the last is larger than all of it.
MPI_TEST(transfers) {
  const std::size_t before = mpi::chunk_bytes();
  for (const std::size_t limit :
       {std::size_t{1}, std::size_t{100}, std::size_t{4096}, std::size_t{1} << 30}) {
    mpi::set_chunk_bytes(limit);
    for (int root = 0; root < world.ranks.size(); ++root) {
      scatter_and_gather(world, root);
      broadcasts(world, root);
    }
    all_to_all_messages(world);
  }
  mpi::set_chunk_bytes(before);
  for (const std::size_t wrong : {std::size_t{0}, std::size_t{1} << 31}) {
    const std::string error = error_of([&] { mpi::set_chunk_bytes(wrong); });
    require(!error.empty(), "a chunk limit of {} was taken", wrong);
  }
  const auto bounds = mpi::all_bounds(world.ranks.rank() + 1, world.ranks.comm());
  const Offset n = world.ranks.size();
  require(bounds.front() == 0 && bounds.back() == n * (n + 1) / 2, "bounds end at {}", bounds.back());
}

MPI_TEST(dealing) {
  // Of the dense operand of a matrix that is not square all ranks hold equally many rows, give or take one.
  Csr<double> a;
  if (world.root()) a = generate<double>("gen:uniform:rows=50,cols=103,per_row=3");
  const mpi::HaloMatrix<double> matrix(world.root() ? &a : nullptr, world.ranks);
  const Index share = 103 / world.ranks.size(), mine = matrix.operand_count();
  require(mine == share || mine == share + 1, "rank {} of {} holds {} of 103 elements of x",
          world.ranks.rank(), world.ranks.size(), mine);
  const auto bounds_of = [](std::vector<Offset> weights, int ranks) {
    std::vector<Offset> before(weights.size() + 1, 0);
    std::partial_sum(weights.begin(), weights.end(), before.begin() + 1);
    return std::pair(mpi::deal(before, ranks), before);
  };
  // One heavy row cannot be shared; the others are not given away with it.
  const auto [heavy, heavy_before] = bounds_of({1, 1, 100, 1, 1}, 3);
  require(mpi::imbalance(heavy_before, heavy) == 100.0 * 3 / 104, "a heavy row: imbalance {}",
          mpi::imbalance(heavy_before, heavy));
  // Beyond 2^31 weights, and elements.
  constexpr Offset kMany = 3'000'000'000;
  require(bounds_of({kMany, kMany, kMany, 0, 1}, 3).first == mpi::RowBounds{0, 1, 2, 5}, "three huge rows");
  require(mpi::elements_before({0, 1, 70'000, 70'001}, 40'000) ==
              std::vector<Offset>{0, 40'000, 2'800'000'000, 2'800'040'000},
          "elements before rows of a dense matrix");
  const auto [few, few_before] = bounds_of({5, 5}, 7);
  require(few.size() == 8 && few.front() == 0 && few.back() == 2 && mpi::imbalance(few_before, few) == 3.5,
          "2 rows on 7 ranks");
  const auto [none, none_before] = bounds_of({}, 3);
  require(none == mpi::RowBounds({0, 0, 0, 0}), "0 rows on 3 ranks");
  const auto [empty, empty_before] = bounds_of({0, 0, 0, 0}, 2);
  require(empty == mpi::RowBounds({0, 2, 4}), "rows without weight are dealt evenly");
  const auto [even, even_before] = bounds_of(std::vector<Offset>(1000, 3), 7);
  require(mpi::imbalance(even_before, even) < 1.01, "even rows: imbalance {}",
          mpi::imbalance(even_before, even));
  // The second share took three times as long as the first: a row there weighs three times as much.
  const std::vector<Offset> weights_before{0, 2, 4, 6, 8};
  const std::vector<double> seconds{1e-6, 3e-6};
  const auto again = mpi::reweighed(weights_before, {0, 2, 4}, seconds);
  require(again == std::vector<Offset>({0, 500'000, 1'000'000, 2'500'000, 4'000'000}), "weights by time");
  require(mpi::reweighed(empty_before, empty, seconds).back() == 0, "rows without weight have no time");
  for (const auto& bounds : {heavy, few, even})
    require(std::is_sorted(bounds.begin(), bounds.end()), "bounds must ascend");

  const Buffer<Index> columns{130, 3, 64, 63, 3, 199};
  const mpi::NeededRows needed = mpi::needed_rows(columns, 200);
  require(needed.rows == Buffer<Index>({3, 63, 64, 130, 199}), "needed rows");
  require(needed.places == Buffer<Index>({3, 0, 2, 1, 0, 4}), "their places");
}

}  // namespace stages::mpi_tests
