// The one main, linked into `stages` and into each stage's program.
#include "common/cli/program.hpp"

int main(int argc, char** argv) {
  return stages::run_program(argc, argv, stages::add_entries, stages::left_out());
}
