// What the programs of bench/ share: a matrix by its name, a record, and the end of main.

#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"
#include "common/matrix/matrix_market.hpp"

namespace stages::bench {

/// The matrix that a spec (gen:..., data:...) or the path of a Matrix Market file names. Throws Error where
/// there is none.
template <typename Value>
Csr<Value> matrix_named(const std::string& name) {
  return is_matrix_spec(name) ? generate<Value>(name) : read_matrix_market<Value>(name);
}

/// Writes what was measured to a file, if one was asked for. Throws Error if it cannot be written.
inline void write_record(const std::string& path, const nlohmann::json& record) {
  if (path.empty()) return;
  std::ofstream out(path);
  out << record.dump(1) << "\n";
  if (!out.flush()) fail("{} cannot be written; name a file in a directory that exists", path);
}

/// The exit code of a program's work; 2, with a line on stderr, if it throws.
template <typename Work>
int exit_code_of(const char* program, Work work) {
  try {
    return work();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return 2;
  }
}

}  // namespace stages::bench
