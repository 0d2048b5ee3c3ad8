// Step 8's choice of a form for a row, at every border: pairs of rows whose facts differ by one and whose
// forms differ. The borders are not listed here but looked for in the rules themselves, so new rules bring
// theirs.

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "08_spgemm_multigpu/fast/shared_bytes.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "tests/cuda_mutants/support.hpp"

namespace stages::cuda_mutants {
namespace {

using spgemm::Form;
using spgemm::Rules;

/// What the rules look at, of a row of C: products, results, the range of its columns, rows of B.
enum Fact { kProducts, kResults, kWidth, kRows };
using Facts = std::array<Index, 4>;

/// Whether some row has these facts: no row of B has more entries than there are results.
bool possible(const Facts& f) {
  return f[kRows] >= 1 && f[kProducts] >= f[kRows] && f[kResults] >= 1 && f[kProducts] >= f[kResults] &&
         f[kWidth] >= f[kResults] && (f[kWidth] == 1 || f[kResults] >= 2) &&
         Offset{f[kRows]} * f[kResults] >= f[kProducts] && (f[kRows] > 1 || f[kProducts] == f[kResults]);
}

struct Forms {
  Form counting, multiplying;
  bool operator==(const Forms&) const = default;
};

Forms forms_of(const Rules& rules, const Facts& f) {
  const Index longest = (f[kProducts] + f[kRows] - 1) / f[kRows];
  const Form counting = counting_form(rules, {f[kProducts], f[kRows], f[kWidth], longest});
  return {counting, multiplying_form(rules, counting, f[kProducts], f[kWidth], f[kResults], false)};
}

/// Rows on both sides of every border between two forms that is found from a lattice of facts: between
/// neighbours with different forms, by bisection. Of the borders between the same forms, in the same fact,
/// the cheapest.
std::vector<Facts> borders_of(const Rules& rules, Index most_products, Index most_columns) {
  std::vector<Index> sizes;
  for (Index n = 1; n <= most_columns; n += std::max(1, n / 3)) sizes.push_back(n);
  std::map<std::tuple<Fact, Form, Form, Form, Form>, std::pair<Facts, Facts>> cheapest;
  const auto look_between = [&](Facts low, Facts high, Fact fact) {
    const Forms before = forms_of(rules, low);
    if (before == forms_of(rules, high)) return;
    while (high[fact] - low[fact] > 1) {
      Facts middle = low;
      middle[fact] = low[fact] + (high[fact] - low[fact]) / 2;
      (forms_of(rules, middle) == before ? low : high) = middle;
    }
    const Forms after = forms_of(rules, high);
    const bool of_counting = before.counting != after.counting;
    const auto [at, is_new] = cheapest.try_emplace(
        {fact, before.counting, after.counting, of_counting ? Form::empty : before.multiplying,
         of_counting ? Form::empty : after.multiplying},
        low, high);
    if (!is_new && low < at->second.first) at->second = {low, high};
  };
  const auto look_from = [&](const Facts& facts) {
    if (!possible(facts)) return;
    for (const Fact fact : {kProducts, kResults, kWidth, kRows}) {
      Facts next = facts;
      next[fact] += std::max(1, facts[fact] / 3);
      if (possible(next) && next[kProducts] <= most_products && next[kWidth] <= most_columns)
        look_between(facts, next, fact);
    }
  };
  for (const Index products : sizes) {
    if (products > most_products) break;
    for (const Index results : sizes) {
      if (results > products) break;
      for (const Index width : sizes) {
        const Index fewest = (products + results - 1) / results;
        for (const Index rows : {1, fewest, 2 * fewest, std::max(fewest, 200)})
          look_from({products, results, width, rows});
      }
    }
  }
  std::set<Facts> rows;
  for (const auto& [key, pair] : cheapest) rows.insert({pair.first, pair.second});
  return {rows.begin(), rows.end()};
}

/// A and B whose product has a row for each of these, in this order.
template <class T>
SpgemmProblem<T> problem_with(const std::vector<Facts>& rows) {
  Index columns = 0;
  for (const Facts& f : rows) columns = std::max(columns, f[kWidth]);
  Coo<double> a, b;
  for (const Facts& f : rows) {
    // The products go through the row's columns, again and again, and each row of B has the next so many of
    // them.
    for (Index r = 0, product = 0; r < f[kRows]; ++r) {
      const auto end = static_cast<Index>(Offset{f[kProducts]} * (r + 1) / f[kRows]);
      a.push(a.rows, b.rows, 1.0 + r % 3);
      for (; product < end; ++product) {
        const Offset place = product % f[kResults];
        const Offset column = f[kResults] == 1 ? 0 : place * (f[kWidth] - 1) / (f[kResults] - 1);
        b.push(b.rows, static_cast<Index>(column), 0.5 + product % 5);
      }
      ++b.rows;
    }
    ++a.rows;
  }
  a.cols = b.rows;
  b.cols = columns;
  return make_spgemm_problem("borders", share<T>(to_csr(a)), share<T>(to_csr(b)));
}

template <class T>
void multiply_at_borders(const Rules& asked) {
  const DeviceFacts& device = device_facts();
  const bool few = asked.thread_rows_a_sm > 0;  // rows, for a thread each
  Rules rules = spgemm::fitted_to_memory<T>(asked, {device.shared_per_block_optin, device.shared_per_sm});
  if (few) rules.band_products = 0;
  const std::vector<Facts> rows = borders_of(rules, 20'000, 2'000'000);
  Registry registry;
  // Of so many products in all, a warp takes as many of a row as the rules let it, however many
  // multiprocessors the device has.
  add_binned(registry, "as_it_is",
             {.rules = asked, .products = Offset{32} * rules.warp_products * device.sms});
  const Entry& entry = registry.entries().front();
  const auto problem = problem_with<T>(rows);
  expect_good(registry, problem);
  // The rows have come to the forms that were meant.
  std::array<Index, spgemm::kForms> meant = {}, expected = {};
  for (const Facts& f : rows) ++meant[static_cast<std::size_t>(forms_of(rules, f).multiplying)];
  for (std::size_t k = 0; k < meant.size(); ++k) {
    const Form form = form_for_so_many(rules, static_cast<Form>(k), meant[k], device.sms);
    expected[static_cast<std::size_t>(form)] += meant[k];
  }
  GpuExec exec;
  const auto plan = entry.on<SpgemmProblem<T>>().prepare(problem, exec);
  run_once(*plan, problem);
  const auto value = [&](std::size_t k) {
    return metric(*plan, fmt::format("rows_{}", spgemm::kFormNames[k]));
  };
  for (std::size_t k = 0; k < expected.size(); ++k) {
    const std::string name = spgemm::kFormNames[k];
    const auto form = static_cast<Form>(k);
    if (form == Form::windows) {  // some of which the counting pass has cut into spans
      constexpr auto kSpans = static_cast<std::size_t>(Form::ranked_spans);
      EXPECT_EQ(value(k) + value(kSpans), expected[k]) << name;
    } else if (form != Form::ranked_spans) {
      EXPECT_EQ(value(k), expected[k]) << name;
    }
    // On a device with little shared memory there is one size of large tables, and of ranked rows.
    const bool has_none = form == Form::empty || (form == Form::band && few) ||
                          ((form == Form::sorted_32 || form == Form::sorted_16) && !few) ||
                          (form == Form::large_tables && rules.large_slots == rules.block_slots) ||
                          (form == Form::ranked && rules.ranked_bytes == rules.ranked_small_bytes);
    EXPECT_TRUE(has_none || meant[k] + value(k) > 0) << name << ": no row here has this form";
  }
}

using RuleBorders = OnDevice;

TEST_F(RuleBorders, RowsOnBothSidesOfEachAreRight) {
  for (const Index thread_rows : {Rules{}.thread_rows_a_sm, 0}) {
    multiply_at_borders<float>({.thread_rows_a_sm = thread_rows});
    multiply_at_borders<double>({.thread_rows_a_sm = thread_rows});
  }
}

}  // namespace
}  // namespace stages::cuda_mutants
