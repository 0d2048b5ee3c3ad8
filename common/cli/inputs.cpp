#include "common/cli/inputs.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <type_traits>

#include "common/cli/terminal.hpp"
#include "common/harness/results.hpp"
#include "common/matrix/atomic_file.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/generate.hpp"
#include "common/matrix/instantiate.hpp"
#include "common/matrix/processors.hpp"

namespace stages {
namespace {

template <class T>
void tell(const std::string& path, const ReadReport& report) {
  const auto say = [&](Offset n, const char* one, const char* many, const std::string& what) {
    if (n > 0) print_stderr("{}: {} {} {}\n", printable(path), n, n == 1 ? one : many, what);
  };
  say(report.dropped, "entry", "entries", "outside the matrix left out");
  say(report.repeated, "repeated entry", "repeated entries", "added to an earlier one at the same place");
  say(report.non_finite, "value is", "values are", "NaN or infinite");
  constexpr bool kSingle = std::is_same_v<T, float>;
  say(report.rounded, "integer", "integers",
      fmt::format("beyond 2^{} rounded to the nearest {}", std::numeric_limits<T>::digits,
                  kSingle ? "f32; --type f64 keeps those up to 2^53" : "f64"));
}

/// Whether two paths are of one file, or would be if it were there.
bool same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || is_matrix_spec(a) || is_matrix_spec(b)) return false;
  namespace fs = std::filesystem;
  std::error_code ignored;  // what cannot be looked at is no file yet
  const auto place = [&](fs::path path) {
    // A link to what is not there yet: where it leads.
    for (int links = 0; links < 40 && fs::is_symlink(path, ignored); ++links)
      path = path.parent_path() / fs::read_symlink(path, ignored);
    return fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  };
  return fs::equivalent(a, b, ignored) || place(a) == place(b);
}

}  // namespace

void add_input_options(Command& command, ReadOptions& options) {
  command.heading(kFilesGroup);
  command.option("--index-base", options.index_base, "Number of the first row and column",
                 {.type = "0|1", .least = 0, .most = 1, .shows_default = true});
  command.flag(
      "--drop-out-of-range", options.drop_out_of_range,
      "Leave out entries that lie outside the matrix (their number is reported) instead of refusing them");
}

void add_type_option(Command& command, std::string& type, const std::string& what) {
  command.option("--type", type, what, {.one_of = {"f32", "f64"}, .shows_default = true});
}

Shape require_matrix(const std::string& source) {
  if (is_matrix_spec(source)) {
    const auto [rows, cols] = generated_shape(source);
    return {rows, cols};
  }
  const MatrixMarketHeader header = read_matrix_market_header(source);
  return {header.rows, header.cols};
}

template <class T>
Csr<T> load_matrix(const std::string& source, const ReadOptions& options) {
  const AllProcessors hold;
  if (is_matrix_spec(source)) return generate<T>(source);
  ReadReport report;
  Csr<T> a = read_matrix_market<T>(source, options, &report);
  tell<T>(source, report);
  return a;
}

template <class T>
Dense<T> load_dense(const std::string& path, const ReadOptions& options) {
  ReadReport report;
  Dense<T> a = read_matrix_market_dense<T>(path, Layout::col_major, options, &report);
  tell<T>(path, report);
  return a;
}

template <class T>
void require_room_for_lines(const std::string& name, const Csr<T>& a, double line_bytes, double limit) {
  if (!mostly_empty_columns(std::max(a.rows, a.cols), a.nnz())) return;
  const double needed = line_bytes * (static_cast<double>(a.rows) + a.cols);
  if (needed <= limit) return;
  throw OutOfMemory(fmt::format(
      "{}: {} x {} with {} entries needs {} of memory, the limit is {} where most rows or columns are "
      "empty (--max-memory)",
      name, a.rows, a.cols, a.nnz(), format_bytes(needed), format_bytes(limit)));
}

void print_about(const std::string& path, const std::string& remark) {
  if (same_file(path, "/dev/stdout")) {
    print_stderr("{}\n", remark);
  } else {
    fmt::print("{}\n", remark);
  }
}

void require_writable(const std::string& flag, const std::string& path,
                      const std::vector<std::string>& read) {
  if (path.empty()) fail("{}: the file's name is empty", flag);
  for (const std::string& input : read)
    if (same_file(path, input))
      fail("{} {}: that is the matrix which is read; name another file", flag, path);
  if (std::error_code none; std::filesystem::is_fifo(path, none)) {
    // Opened and closed, it would end for who reads it before it began.
    if (access(path.c_str(), W_OK) != 0)
      fail("{} {}: {}; change its permissions", flag, path, std::strerror(errno));
    return;
  }
  try {
    const AtomicFile probe(path);  // makes its temporary file beside it, and removes it again
  } catch (const Error& error) {
    fail("{}: {}", flag, error.what());
  }
}

void require_two_files(const std::string& json, const std::string& flag, const std::string& path,
                       const std::vector<std::string>& read) {
  if (!json.empty()) require_writable("--json", json, read);
  if (!path.empty()) require_writable(flag, path, read);
  if (same_file(json, path)) fail("--json and {} both name {}; give two files", flag, json);
}

STAGES_FOR_VALUES(load_matrix)
STAGES_FOR_VALUES(load_dense)
STAGES_FOR_VALUES(require_room_for_lines)

}  // namespace stages
