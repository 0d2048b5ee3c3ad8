#pragma once
// What this build is; see cmake/BuildInfo.cmake.

namespace stages {

struct BuildInfo {
  const char* version;
  const char* compiler;
  const char* flags;
  const char* backend;        ///< "cpu" or "gpu"
  const char* source_digest;  ///< SHA-256 over the contents of all source and build files
};

const BuildInfo& build_info();

}  // namespace stages
