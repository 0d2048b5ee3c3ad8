#pragma once
// The numbers that environment variables give the executor (docs/environment.md).

#include <cstddef>

namespace stages::simt {

struct Numbers {
  double patience;            ///< STAGES_WATCHDOG, seconds
  std::size_t workers;        ///< STAGES_WORKERS
  std::size_t device_memory;  ///< STAGES_DEVICE_MEMORY, bytes
  int device_sms;             ///< STAGES_DEVICE_SMS
  int device_l2;              ///< STAGES_DEVICE_L2, bytes
  std::size_t races_memory;   ///< STAGES_RACES_MEMORY, bytes
};

/// As they were at the first call. Throws Error where a variable holds what is no such number.
const Numbers& numbers();

}  // namespace stages::simt
