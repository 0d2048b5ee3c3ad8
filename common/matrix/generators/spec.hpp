#pragma once
// The text of a spec, taken apart: "gen:NAME:KEY=VALUE,..." against a generator's table of parameters.
// Defaults are parsed from the same table that --help shows, so that the two cannot disagree.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string_view>

#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"

namespace stages::recipes {

/// The values that a spec gives to a generator's parameters. All functions throw Error, naming the spec, the
/// parameter and the values that it takes.
class Parameters {
 public:
  /// Rejects keys that `info` does not have, keys given twice, and empty ones. A first item without '=' is
  /// the value of the first parameter.
  Parameters(std::string_view spec, std::string_view arguments, const GeneratorInfo& info);

  /// Whether the spec gives `name`, as opposed to its default.
  bool given(std::string_view name) const { return values_.contains(name); }

  /// A whole number in [low, high]. 1e6 and 2.5e3 are whole numbers, 2.5 is not.
  std::int64_t count(std::string_view name, std::int64_t low, std::int64_t high) const;
  /// A number of rows or columns, or something that becomes one: [low, 2^31 - 1].
  Index index(std::string_view name, Index low = 0) const;
  /// A seed: any 64-bit whole number.
  std::uint64_t seed() const;
  /// A share in [low, high] (0 <= low, high <= 1), in units of 2^-32. Decimal digits become the nearest such
  /// unit.
  std::uint64_t share(std::string_view name, double low = 0, double high = 1) const;
  /// `rows` and `cols`, each `n` where it is not given. All three are too many.
  Shape shape() const;
  /// One of `choices`.
  std::string_view choice(std::string_view name, std::initializer_list<std::string_view> choices) const;

  /// Throws Error: the spec, then what is said of it.
  template <class... Args>
  [[noreturn]] void reject(fmt::format_string<Args...> what, Args&&... args) const {
    fail("{}: {}", spec_, fmt::format(what, std::forward<Args>(args)...));
  }

 private:
  std::string_view text(std::string_view name) const;

  std::string_view spec_;
  const GeneratorInfo& info_;
  std::map<std::string_view, std::string_view, std::less<>> values_;
};

}  // namespace stages::recipes
