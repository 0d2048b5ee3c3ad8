#pragma once
// What this build is; see cmake/BuildInfo.cmake.

namespace stages {

struct BuildInfo {
  const char* version;
  const char* compiler;
  const char* flags;
  const char* backend;        ///< "cpu" or "gpu"
  const char* source_digest;  ///< SHA-256 over the contents of all source and build files
  const char*
      code;  ///< of each step a digest of its own, and of the headers that kernels include: "01_cpu_serial=..."
};

const BuildInfo& build_info();

}  // namespace stages
