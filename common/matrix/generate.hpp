#pragma once
// Matrices made from a line of text, the same on every machine: `gen:rmat:scale=17,edge_factor=8,seed=1`, or
// data:NAME for one of the built-in set (builtin.hpp). docs/generators.md tells the grammar, why a spec always
// means the same matrix, and the generators.

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/matrix/types.hpp"

namespace stages {

/// One KEY of a generator, for --help and for error messages.
struct GeneratorParameter {
  std::string_view name;
  std::string_view default_value;  ///< as it would be written in a spec; empty: see meaning
  std::string_view meaning;
};

/// What one generator makes and takes.
struct GeneratorInfo {
  std::string_view name;        ///< the NAME in gen:NAME
  std::string_view stands_for;  ///< one line: the structure, and the real matrices it stands for
  std::string_view example;     ///< a whole spec that works
  std::vector<GeneratorParameter> parameters;
};

/// All generators, in the order in which --help shows them.
std::span<const GeneratorInfo> generators();

/// True for text that generate() is meant for ("gen:..." or "data:..."), as opposed to the name of a file.
bool is_matrix_spec(std::string_view text);

/// Makes the canonical Csr that `spec` describes. `threads` = 0 means one per hardware thread. Throws Error,
/// naming the spec, for an unknown generator or parameter, for a value out of range, and, before anything is
/// allocated, if making the matrix needs more memory than the machine has left.
template <class T>
Csr<T> generate(std::string_view spec, int threads = 0);

/// Bytes of memory that generate<T>(spec) needs at its peak, if none of the entries drawn fall at one place
/// (each that does makes it less). Throws as generate does.
template <class T>
Offset generation_bytes(std::string_view spec);

/// Rows and columns of generate(spec), which is not made. Throws as generate does.
std::pair<Index, Index> generated_shape(std::string_view spec);

}  // namespace stages
