#pragma once
// A student's file, made into a program of his own: his object, what an entry needs, and the loop of
// common/judge/student. The compiler and the linker are confined like the program itself; they see the file,
// the headers of the rooms that an entry needs and those that the exercise includes, and no step.
//
// How they are called is what CMake would do: it builds a target with nothing in it, and cmake/record.sh
// writes down the words of both calls.

#include <filesystem>
#include <string>
#include <vector>

#include "common/judge/confined.hpp"
#include "common/judge/exercise.hpp"

namespace stages::judge {

/// Where the project lies, and where and by what it was built.
struct Places {
  std::filesystem::path root;
  std::filesystem::path build;
  std::string cmake;
};

/// A program that is there, and what it reads when it runs.
struct StudentProgram {
  std::filesystem::path file;
  std::vector<std::filesystem::path> reads = {};
};

/// The two programs that are made of a file: one whose accesses AddressSanitizer watches, on the executor, and
/// one whose kernels tell what they do to memory, which the lens counts.
enum class Build { watched, counted };

/// Builds a program of a student's file into `scratch`. Returns the compiler's errors; empty: `program` is
/// built. Throws Error where the project itself does not build, or the disk is full.
std::string compile(const std::filesystem::path& file, const Exercise& exercise, const Places& places,
                    const Confinement& confinement, const std::filesystem::path& scratch, Build build,
                    StudentProgram& program);

/// Throws Error unless the user that programs run as can read the file.
void require_readable(const std::filesystem::path& file, const Confinement& confinement);

}  // namespace stages::judge
