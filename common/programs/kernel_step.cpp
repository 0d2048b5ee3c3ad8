// The main of a program of one step with kernels.
#include "common/lens/command.hpp"

int main(int argc, char** argv) {
  return stages::run_program(
      argc, argv,
      {stages::add_entries, stages::left_out(), {stages::add_lens_command}, stages::count_by_lens()});
}
