#pragma once
// What environment variables make of the executor (docs/environment.md): its numbers, and what device it is.

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

inline constexpr std::size_t kSharedDefault = 48 * 1024;  ///< of a block that did not ask for more

/// What devices of one compute capability have in common; the numbers are the CUDA C++ Programming Guide's.
/// A block may have as much shared memory as an SM, less what each block has of it for the system.
struct Device {
  const char* name;
  int major, minor;
  std::size_t shared_per_sm;
  std::size_t shared_reserved;  ///< of each block
  int threads_per_sm, blocks_per_sm;

  std::size_t shared_optin() const { return shared_per_sm - shared_reserved; }
};

/// Throws Error where STAGES_DEVICE names none that is known.
const Device& device();

}  // namespace stages::simt
