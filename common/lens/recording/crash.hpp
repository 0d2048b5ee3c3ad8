#pragma once
// While the lens looks, a kernel that crashes or never ends is a fault of its launch, so that what was counted
// until then is kept: a signal's handler lets the thread go on in BlockRecorder::end_after_crash.

#include <csignal>
#include <cstdint>
#include <memory>
#include <thread>

namespace stages::simt {

/// What a signal says of the thread that it came to.
struct Crash {
  int signal = 0;
  std::uint64_t code = 0;     ///< where the thread was
  std::uint64_t address = 0;  ///< that it touched, where it was that
};

/// On: crashes inside kernels are caught from here on; off: signals do again what they did before. Does
/// nothing for processors whose registers it does not know (x86-64 and AArch64 are known).
void catch_crashes(bool on);
bool catching_crashes();

/// To be called by an OS thread before it runs blocks: a stack for the handlers, kept in `stack`.
void prepare_for_crashes(std::unique_ptr<std::byte[]>& stack);

/// Ends the kernel of that OS thread, wherever it is.
void interrupt(std::thread& thread);
bool is_interrupt(const Crash& crash);

}  // namespace stages::simt
