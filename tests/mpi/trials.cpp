// Dealing by time: plans whose clock is made up, so that what they deal can be known exactly.
#include "common/mpi/spgemm_plan.hpp"
#include "common/mpi/transfer.hpp"
#include "tests/mpi/checks.hpp"

namespace stages::mpi_tests {
namespace {

constexpr Index kRows = 4000;

/// Multiplies nothing: a row takes 1 us in the first part of the matrix and 6 us in the last third, though
/// all have equally many products. With `slower` everything takes longer at each deal than at the one before.
/// The ranks have the shares in reverse order.
class MadeUpPlan final : public mpi::MpiSpgemmPlan<double> {
 public:
  MadeUpPlan(const SpgemmProblem<double>& problem, Exec& exec, bool slower, double least_seconds = 0)
      : MpiSpgemmPlan(problem, exec), slower_(slower) {
    std::vector<Offset> before;
    if (root()) before = mpi::products_before(*problem.a, *problem.b, 1);
    deal_rows_by_time(std::move(before), least_seconds);
  }

  const mpi::RowBounds& bounds() const { return bounds_; }
  int multiplications() const { return multiplications_; }
  static double seconds_of(Index first, Index last) {
    const auto before = [](Index i) { return i + 5.0 * std::max<Index>(0, i - 2 * kRows / 3); };
    return 1e-6 * (before(last) - before(first));
  }

 private:
  void use(const mpi::RowBounds& bounds) override {
    bounds_ = bounds;
    ++deals_;
  }
  void place() override {}
  void multiply() override {
    ++multiplications_;
    add_compute_seconds(seconds_of(bounds_[me()], bounds_[me() + 1]) * (slower_ ? deals_ * deals_ : 1));
  }
  void collect() override {}
  void forget() override {}
  Csr<double> result() const override { return {}; }

  bool slower_;
  mpi::RowBounds bounds_;
  int deals_ = 0, multiplications_ = 0;
};

double time_imbalance(const mpi::RowBounds& bounds) {
  double slowest = 0;
  for (std::size_t r = 0; r + 1 < bounds.size(); ++r)
    slowest = std::max(slowest, MadeUpPlan::seconds_of(bounds[r], bounds[r + 1]));
  return slowest * static_cast<double>(bounds.size() - 1) / MadeUpPlan::seconds_of(0, kRows);
}

}  // namespace

MPI_TEST(trials) {
  const auto problem =
      square_on_root<double>(world, fmt::format("gen:uniform:rows={0},cols={0},per_row=4", kRows));
  mpi::RowBounds by_products;
  if (world.root())
    by_products = mpi::deal(mpi::products_before(*problem.a, *problem.b, 1), world.ranks.size());
  by_products = mpi::shared_bounds(std::move(by_products), world.ranks.comm());
  const bool alone = world.ranks.size() == 1;
  const double uneven = time_imbalance(by_products);
  require(alone || uneven > 1.4, "the problem is even: {} by products", uneven);

  const MadeUpPlan steady(problem, world.exec, false);
  require(time_imbalance(steady.bounds()) < 1.1, "{} ranks: the slowest takes {} of the mean, {} by products",
          world.ranks.size(), time_imbalance(steady.bounds()), uneven);
  require(steady.multiplications() <= (alone ? 0 : 24), "{} multiplications", steady.multiplications());

  // All rows together take 11 ms.
  const MadeUpPlan too_short(problem, world.exec, false, 0.1), long_enough(problem, world.exec, false, 1e-5);
  require(too_short.bounds() == by_products, "shares that take too little time were dealt again");
  require(long_enough.bounds() == steady.bounds(), "shares that take long enough were not dealt again");

  const MadeUpPlan slower(problem, world.exec, true);
  require(slower.bounds() == by_products, "a deal that was measured to be worse was kept");

  // Each rank takes one second more than the one before it.
  const double ranks = world.ranks.size();
  mpi::Clocks clocks;
  clocks.add({world.ranks.rank() + 1.0, ranks, -1});
  const double imbalance = metric(clocks.metrics(world.ranks.comm()), "compute_imbalance");
  require(std::abs(imbalance - 2 * ranks / (ranks + 1)) < 1e-12, "{} ranks: imbalance in time {}", ranks,
          imbalance);
}

}  // namespace stages::mpi_tests
