// The main of a program of one step without kernels.
#include "common/cli/program.hpp"

int main(int argc, char** argv) {
  return stages::run_program(argc, argv, {stages::add_entries, stages::left_out(), {}, {}});
}
