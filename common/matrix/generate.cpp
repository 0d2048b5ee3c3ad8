#include "common/matrix/generate.hpp"

#include <algorithm>

#include "common/matrix/builtin.hpp"
#include "common/matrix/embedded_table.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/generators/generators.hpp"
#include "common/matrix/instantiate.hpp"
#include "common/matrix/memory.hpp"
#include "common/matrix/nearest.hpp"
#include "common/matrix/random.hpp"

namespace stages {
namespace {

using recipes::Generator;
using recipes::Parameters;
using recipes::Pattern;
using recipes::Recipe;

enum class ValueKind { uniform, integers, ones };

/// How the values of a spec come about.
struct ValueRule {
  ValueKind kind = ValueKind::uniform;
  random::Word key = 0;
  bool symmetric = false;

  /// The value at (row, col): at most 24 significant bits, so that float and double hold the same number.
  double operator()(Index row, Index col) const {
    if (kind == ValueKind::ones) return 1.0;
    if (symmetric && row > col) std::swap(row, col);
    const random::Word place =
        (random::Word{static_cast<std::uint32_t>(row)} << 32U) | static_cast<std::uint32_t>(col);
    const random::Word word = random::mix(key ^ random::mix(place + random::kGolden));
    if (kind == ValueKind::integers) {
      const auto eighth = static_cast<int>(word >> 61U);  // 0 .. 7
      return eighth < 4 ? eighth - 4 : eighth - 3;
    }
    const auto odd = static_cast<std::int64_t>((word >> 39U) | 1U);  // 1, 3, .., 2^25 - 1
    return static_cast<double>(odd - (std::int64_t{1} << 24)) * 0x1p-24;
  }
};

/// Every generator takes these two, behind its own; some have another default for the values.
constexpr GeneratorParameter kSeed{"seed", "1", "another seed gives another matrix of the same kind"},
    kValues{"values", "uniform",
            "uniform: odd multiples of 2^-24 in (-1, 1); integers: -4 .. 4 without 0; ones"};

/// A spec that has been understood.
struct Plan {
  Recipe recipe;
  ValueRule values;
};

const std::vector<Generator>& all_generators() {
  static const std::vector<Generator> all = [] {
    std::vector<Generator> v;
    for (const auto& group :
         {recipes::random_generators(), recipes::graph_generators(), recipes::structured_generators(),
          recipes::mesh_generators(), recipes::course_generators()})
      v.insert(v.end(), group.begin(), group.end());
    for (auto& [info, plan] : v) {
      for (const GeneratorParameter& common : {kSeed, kValues})
        if (std::ranges::find(info.parameters, common.name, &GeneratorParameter::name) ==
            info.parameters.end())
          info.parameters.push_back(common);
    }
    return v;
  }();
  return all;
}

const Generator& find_generator(std::string_view spec, std::string_view name) {
  const auto& all = all_generators();
  const auto found = std::ranges::find(all, name, [](const Generator& g) { return g.info.name; });
  if (found == all.end()) {
    std::vector<std::string_view> names;
    for (const Generator& g : all) names.push_back(g.info.name);
    fail("{}: there is no generator '{}'; {}", spec, name, nearest_names(name, names));
  }
  return *found;
}

Plan plan_spec(std::string_view spec) {
  constexpr std::string_view kBuiltin = "data:";
  if (spec.starts_with(kBuiltin)) spec = builtin(spec.substr(kBuiltin.size())).spec;
  constexpr std::string_view kPrefix = "gen:";
  if (!spec.starts_with(kPrefix) || spec.size() == kPrefix.size())
    fail("'{}' is not a generator spec; write gen:NAME:KEY=VALUE,..., for example gen:rmat:scale=12", spec);
  std::string_view arguments = spec.substr(kPrefix.size());
  const Generator& generator = find_generator(spec, take(arguments, ':'));
  const Parameters parameters(spec, arguments, generator.info);
  Plan plan;
  const std::string_view kind = parameters.choice("values", {"uniform", "integers", "ones"});
  plan.values.kind = kind == "uniform"    ? ValueKind::uniform
                     : kind == "integers" ? ValueKind::integers
                                          : ValueKind::ones;
  plan.values.key = random::key(parameters.seed(), random::Purpose::values);
  plan.recipe = generator.plan(parameters);
  plan.values.symmetric = plan.recipe.symmetric_values;
  constexpr Offset kMaxEntries = Offset{1} << 44;  // below it, sizes in bytes are far from 2^63
  if (plan.recipe.entries > kMaxEntries)
    fail("{}: {} x {} with {} entries is more than any machine's memory; ask for less", spec,
         plan.recipe.rows, plan.recipe.cols, plan.recipe.entries);
  return plan;
}

/// While draws become a pattern: the columns as drawn and as packed, positions three times. Afterwards: the
/// pattern and its values.
Offset peak_bytes(const Recipe& r, std::size_t value_size) {
  const Offset pointers = (Offset{r.rows} + 1) * Offset{sizeof(Offset)};
  const Offset columns = r.entries * Offset{sizeof(Index)};
  const Offset making = r.drawn ? 2 * columns + 2 * pointers : columns + pointers;
  return std::max(making, pointers + columns + r.entries * static_cast<Offset>(value_size));
}

template <class T>
Csr<T> with_values(Pattern&& p, const ValueRule& value, int threads) {
  Csr<T> a;
  a.rows = p.rows;
  a.cols = p.cols;
  a.row_ptr = std::move(p.row_ptr);
  a.col_idx = std::move(p.col_idx);
  a.values.resize(a.col_idx.size());
  parallel_blocks(a.rows, recipes::kRowsPerBlock, threads, [&](int, Offset begin, Offset end) {
    for (auto i = static_cast<Index>(begin); i < end; ++i) {
      const auto last = static_cast<std::size_t>(a.row_ptr[static_cast<std::size_t>(i) + 1]);
      for (auto k = static_cast<std::size_t>(a.row_ptr[static_cast<std::size_t>(i)]); k < last; ++k)
        a.values[k] = static_cast<T>(value(i, a.col_idx[k]));
    }
  });
  return a;
}

}  // namespace

std::span<const GeneratorInfo> generators() {
  static const std::vector<GeneratorInfo> infos = [] {
    std::vector<GeneratorInfo> v;
    for (const Generator& g : all_generators()) v.push_back(g.info);
    return v;
  }();
  return infos;
}

bool is_matrix_spec(std::string_view text) { return text.starts_with("gen:") || text.starts_with("data:"); }

template <class T>
Csr<T> generate(std::string_view spec, int threads) {
  const Plan plan = plan_spec(spec);
  const Offset need = peak_bytes(plan.recipe, sizeof(T));
  const Offset lines = std::max(plan.recipe.rows, plan.recipe.cols);
  if (lines / 8 > plan.recipe.entries && static_cast<double>(need) > kMostForEmptyLines)
    fail(
        "{}: {} x {} with {} entries takes {:.3g} GB of memory, and the limit is {:.3g} GB where most rows "
        "are empty; ask for fewer rows",
        spec, plan.recipe.rows, plan.recipe.cols, plan.recipe.entries, static_cast<double>(need) * 1e-9,
        kMostForEmptyLines * 1e-9);
  const Offset limit = available_memory();
  if (need > limit)
    fail(
        "{}: needs {:.3g} GB of memory for {} x {} with {} entries, and the limit is {:.3g} GB; ask for less",
        spec, static_cast<double>(need) * 1e-9, plan.recipe.rows, plan.recipe.cols, plan.recipe.entries,
        static_cast<double>(limit) * 1e-9);
  return with_values<T>(plan.recipe.make(thread_count(threads)), plan.values, thread_count(threads));
}

template <class T>
Offset generation_bytes(std::string_view spec) {
  return peak_bytes(plan_spec(spec).recipe, sizeof(T));
}

std::pair<Index, Index> generated_shape(std::string_view spec) {
  const Recipe recipe = plan_spec(spec).recipe;
  return {recipe.rows, recipe.cols};
}

STAGES_FOR_VALUES(generate)
STAGES_FOR_VALUES(generation_bytes)

}  // namespace stages
