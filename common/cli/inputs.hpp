#pragma once
// The matrices that a command line names: files, generator specs, matrices of the built-in set.

#include <string>

#include "common/cli/options.hpp"
#include "common/matrix/matrix_market.hpp"

namespace stages {

/// How files are read, by all commands alike. Their heading is that of all options that are declared later.
void add_input_options(Command& command, ReadOptions& options);

/// The name of a value type.
void add_type_option(Command& command, std::string& type, const std::string& what);

/// Calls work.operator()<float>() or <double>().
template <class Work>
auto with_type(const std::string& type, Work&& work) {
  return type == "f32" ? work.template operator()<float>() : work.template operator()<double>();
}

/// Rows and columns of a matrix, from the header of a file or the parameters of a spec. Throws Error if these
/// already tell that the matrix cannot be had: so that it is said before a long run, not in it.
Shape require_matrix(const std::string& source);

/// The same options for who checks products: of values that are NaN or infinite it cannot judge them.
inline ReadOptions finite(ReadOptions options) {
  options.allow_non_finite = false;
  return options;
}

/// The matrix. What reading met (entries dropped or added up, values not finite) is told on stderr.
template <class T>
Csr<T> load_matrix(const std::string& source, const ReadOptions& options);

/// The same, every element written out by columns.
template <class T>
Dense<T> load_dense(const std::string& path, const ReadOptions& options);

/// Throws Error, naming the option, unless a file can be written there that is none of those which are
/// `read`. `flag` is the option that named it.
void require_writable(const std::string& flag, const std::string& path,
                      const std::vector<std::string>& read = {});

/// Throws Error unless results can be written to the file of --json and to that of another option, which are
/// two. Empty: it was not given.
void require_two_files(const std::string& json, const std::string& flag, const std::string& path,
                       const std::vector<std::string>& read);

/// Throws OutOfMemory where most rows or columns of a matrix are empty and all of them together take more than
/// `limit` bytes at `line_bytes` each: memory and time are to go with the entries.
template <class T>
void require_room_for_lines(const std::string& name, const Csr<T>& a, double line_bytes, double limit);

/// Prints a remark on a file that was written to `path`: on stderr where that file is stdout itself.
void print_about(const std::string& path, const std::string& remark);

}  // namespace stages
