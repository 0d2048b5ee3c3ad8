// The main of `stages`.
#include "common/judge/grade.hpp"
#include "common/lens/command.hpp"

int main(int argc, char** argv) {
  return stages::run_program(argc, argv,
                             {stages::add_entries,
                              stages::left_out(),
                              {stages::add_lens_command, stages::judge::add_grade_command},
                              stages::count_by_lens()});
}
