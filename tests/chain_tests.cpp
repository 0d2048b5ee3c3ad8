// Chains of SpGEMM: what the rounds are, what ends them, and which plans the check rejects.

#include "common/battery/matrices.hpp"
#include "common/matrix/generate.hpp"
#include "tests/expect.hpp"
#include "tests/mutants/spgemm.hpp"
#include "tests/running.hpp"

namespace stages {
namespace {

using mutants::FaultyGustavson;
using mutants::GustavsonFault;

enum class Fault {
  none,
  stays,          ///< multiplies the first A in every round
  never_begins,   ///< goes on from the last C after a load, too
  skips_a_round,  ///< the third round multiplies the A of the second
  lazy,           ///< takes C for the next A only if it was fetched
  other_bits,     ///< of a second chain
};

/// Right by itself; what is wrong is how rounds follow each other.
template <class T>
class ChainedPlan final : public FaultyGustavson<T> {
 public:
  ChainedPlan(const SpgemmProblem<T>& problem, Exec& exec, Fault fault)
      : FaultyGustavson<T>(problem, exec, GustavsonFault::none), fault_(fault) {}

  void load(const SpgemmOperands<T>& operands) override {
    const bool goes_on = fault_ == Fault::never_begins && rounds_ > 0;
    rounds_ = 0;
    ++loads_;
    FaultyGustavson<T>::load(operands);
    if (goes_on) FaultyGustavson<T>::advance();
  }
  void advance() override {
    ++rounds_;
    if (fault_ == Fault::stays || (fault_ == Fault::skips_a_round && rounds_ == 2)) return;
    if (fault_ == Fault::lazy && !std::exchange(fetched_, false)) return;
    FaultyGustavson<T>::advance();
  }
  void run() override {
    FaultyGustavson<T>::run();
    if (fault_ == Fault::other_bits && loads_ > 1 && rounds_ == 1)
      for (T& value : this->c_.values) value = std::nextafter(value, T{2});
  }
  Csr<T> fetch() override {
    fetched_ = true;
    return FaultyGustavson<T>::fetch();
  }

 private:
  Fault fault_;
  int rounds_ = 0, loads_ = 0;
  bool fetched_ = false;
};

template <template <class> class PlanOf = ChainedPlan, class Kind = Fault>
std::vector<ResultRow> rows_of(Kind fault, const SpgemmProblem<double>& problem,
                               const RunOptions& options = quick(), Exec&& exec = Exec()) {
  return run(entry_of<PlanOf>({.name = "a/x", .idea = "i"}, fault), problem, exec, options).rows;
}

/// A path of n steps: its powers have one non-zero a row less each time, and then none.
SpgemmProblem<double> path(Index n, Index rounds) {
  const auto a =
      std::make_shared<const Csr<double>>(generate<double>(fmt::format("gen:diagonal:n={},offset=1", n)));
  return make_spgemm_problem<double>("path", a, a, Destination::host, rounds);
}

SpgemmProblem<double> graph(Index rounds) {
  const auto a = share<double>(matrices::uneven(60, 60, 5));
  return make_spgemm_problem<double>("graph", a, a, Destination::host, rounds);
}

TEST(Chain, EachRoundIsARowWithTheAThatItHas) {
  const auto rows = rows_of(Fault::none, path(6, 7));
  ASSERT_EQ(rows.size(), 7U);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    EXPECT_EQ(rows[r].status, Status::good) << rows[r].reason;
    EXPECT_TRUE(rows[r].checked && rows[r].timed());
    EXPECT_EQ(rows[r].problem.options, fmt::format("round {} of 7", r + 1));
    EXPECT_EQ(rows[r].problem.nnz, std::max<Offset>(5 - static_cast<Offset>(r), 0));
    EXPECT_EQ(rows[r].result_nnz, std::max<Offset>(4 - static_cast<Offset>(r), 0));
    EXPECT_EQ(rows[r].run.samples.size(), 5U);
  }
}

TEST(Chain, EachRoundTellsForHowLongTheDeviceIsBusy) {
  for (const ResultRow& row : rows_of(Fault::none, path(6, 4), quick(), BusyExec(1e-12))) {
    EXPECT_EQ(row.busy.samples, std::vector<double>(3, 1e-12));
    EXPECT_TRUE(row.note.starts_with("host-bound")) << row.note;
  }
}

TEST(Chain, RejectsPlansWhoseRoundsDoNotFollowEachOther) {
  struct Case {
    Fault fault;
    std::size_t round;  ///< at which it shows
    const char* words;
  };
  for (const auto& [fault, round, words] : {Case{Fault::stays, 2, "real values"},
                                            {Fault::never_begins, 1, "real values"},
                                            {Fault::skips_a_round, 3, "real values"},
                                            {Fault::lazy, 3, "integer values"},
                                            {Fault::other_bits, 3, "other bits"}}) {
    const auto rows = rows_of(fault, graph(3));
    ASSERT_EQ(rows.size(), round) << words;
    EXPECT_EQ(rows.back().status, Status::wrong);
    EXPECT_TRUE(has(rows.back().reason, words));
  }
}

TEST(Chain, EndsWhereALimitRulesARoundOut) {
  const auto whole = rows_of(Fault::none, graph(4));
  ASSERT_EQ(whole.size(), 4U);
  RunOptions options = quick();
  options.max_memory = whole[2].cost.memory - 1;
  auto rows = rows_of(Fault::none, graph(4), options);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_TRUE(rows[1].timed());
  EXPECT_EQ(rows[2].status, Status::skipped);
  EXPECT_TRUE(has(rows[2].reason, "of memory"));

  options = quick();
  options.max_work = whole[0].cost.work + whole[1].cost.work + whole[2].cost.work - 1;
  rows = rows_of(Fault::none, graph(4), options);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_TRUE(has(rows[2].reason, "with the rounds before it"));
}

TEST(Chain, EndsWithARoundThatThrows) {
  const auto rows = rows_of<FaultyGustavson>(GustavsonFault::throws, graph(2));
  EXPECT_TRUE(rows.size() == 1 && rows[0].status == Status::skipped);
}

template <class T>
class Unchained final : public FaultyGustavson<T> {
 public:
  using FaultyGustavson<T>::FaultyGustavson;
  static constexpr bool kChains = false;
};

TEST(Chain, LeavesOutWhoCannot) {
  const auto rows = rows_of<Unchained>(GustavsonFault::none, graph(2));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_TRUE(has(rows[0].reason, "not for chains"));
}

}  // namespace
}  // namespace stages
