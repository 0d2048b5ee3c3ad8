// Ranks that work one after the other.
#include <chrono>
#include <thread>

#include "common/mpi/communicator.hpp"
#include "common/mpi/transfer.hpp"
#include "tests/expect.hpp"
#include "tests/mpi/checks.hpp"

namespace stages::mpi_tests {
namespace {

Offset now() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

void Stay::operator()() {
  ++times;
  begin = now();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  end = now();
}

void require_apart(World& world, const Stay& mine, const std::function<bool(int, int)>& may_meet) {
  require(mine.times == 1, "rank {} worked {} times", world.ranks.rank(), mine.times);
  const Offset own[2] = {mine.begin, mine.end};
  const std::vector<Offset> all = mpi::all_gather(own, world.ranks.comm());
  for (int a = 0; a < world.ranks.size(); ++a) {
    for (int b = 0; b < a; ++b) {
      const auto i = static_cast<std::size_t>(2 * a), j = static_cast<std::size_t>(2 * b);
      const bool apart = all[i] >= all[j + 1] || all[j] >= all[i + 1];
      require(apart || may_meet(a, b), "ranks {} and {} worked at the same time", a, b);
    }
  }
}

/// Two ranks a turn. The planted fault is work at the same time.
MPI_TEST(turns) {
  const int turns = (world.ranks.size() + 1) / 2;
  const auto same_turn = [](int a, int b) { return a / 2 == b / 2; };
  Stay stay;
  mpi::take_turns(world.ranks.rank() / 2, turns, world.ranks.comm(), stay);
  require_apart(world, stay, same_turn);
  const Offset begin[1] = {stay.begin};
  const std::vector<Offset> begins = mpi::all_gather(begin, world.ranks.comm());
  for (std::size_t r = 2; r < begins.size(); ++r)
    require(begins[r - 2] < begins[r], "rank {} worked before rank {}, whose turn is earlier", r, r - 2);
  const std::string error =
      error_of([&] { require_apart(world, {.times = 1, .begin = 0, .end = 1}, same_turn); });
  require(error.empty() == (turns == 1), "ranks that worked at once passed for ranks that took turns");
}

}  // namespace stages::mpi_tests
