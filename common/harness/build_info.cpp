#include "common/harness/build_info.hpp"

#include "stages_source_digest.hpp"

#ifndef STAGES_MORE_FLAGS
#define STAGES_MORE_FLAGS ""  // of a program whose entries are compiled in another way
#endif

namespace stages {

const BuildInfo& build_info() {
  static constexpr BuildInfo kInfo{STAGES_VERSION, STAGES_COMPILER,      STAGES_FLAGS STAGES_MORE_FLAGS,
                                   STAGES_BACKEND, STAGES_SOURCE_DIGEST, STAGES_CODE};
  return kInfo;
}

}  // namespace stages
