// What our code was compiled for. This source has the flags of all others, so it knows the same macros. A
// list, and nothing but data.
#include "common/cli/processor.hpp"

namespace stages {

#define STAGES_TEXT(value) #value
#define STAGES_IS_BUILT_FOR(macro, name, compilers) STAGES_TEXT(macro)[0] == '1',
constinit const bool built_for[] = {STAGES_FEATURES(STAGES_IS_BUILT_FOR)};

}  // namespace stages
