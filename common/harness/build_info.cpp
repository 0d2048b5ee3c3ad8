#include "common/harness/build_info.hpp"

#include "stages_source_digest.hpp"

namespace stages {

const BuildInfo& build_info() {
  static constexpr BuildInfo kInfo{STAGES_VERSION, STAGES_COMPILER, STAGES_FLAGS, STAGES_BACKEND,
                                   STAGES_SOURCE_DIGEST};
  return kInfo;
}

}  // namespace stages
