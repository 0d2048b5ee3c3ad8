#pragma once
// The built-in set: small matrices, made by generators in seconds, one for each kind of structure that the
// stages meet. The list is data/builtin.tsv, embedded in the library at build time, so that the program needs
// no file at run time. `data:NAME` is a spec wherever one is taken.

#include <span>
#include <string_view>

#include "common/matrix/types.hpp"

namespace stages {

struct BuiltinMatrix {
  std::string_view name;        ///< the NAME in data:NAME
  std::string_view spec;        ///< gen:... for A
  std::string_view b_spec;      ///< gen:... for B in A * B; empty: B is A where A is square, else A^T
  std::string_view operations;  ///< the operations it is meant for, comma-separated: "spmv,spmm,spgemm"
  std::string_view stands_for;  ///< the real matrices whose structure it imitates

  /// Whether `operation` ("spmv", "spmm" or "spgemm") is among the operations.
  bool meant_for(std::string_view operation) const;
};

/// The whole set, in file order. Throws Error, naming the line, if the embedded text is malformed.
std::span<const BuiltinMatrix> builtin_set();

/// The entry called `name`. Throws Error, listing the names there are, if there is none.
const BuiltinMatrix& builtin(std::string_view name);

}  // namespace stages
