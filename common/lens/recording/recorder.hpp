#pragma once
// The lens as an observer of the executor: counts what kernels do, and looks for races, or does one of the two.
// Here is what happens in blocks; what the host tells is in recorder.cpp.

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "common/lens/recording/races.hpp"
#include "common/lens/recording/tracer.hpp"
#include "common/simt/block_runner.hpp"
#include "common/simt/observer.hpp"

namespace stages::simt {

// ---- crashes: while the lens looks, a kernel that crashes or never ends is a fault of its launch, so that
// what was counted until then is kept. A signal's handler lets the thread go on in
// BlockRecorder::end_after_crash.

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
/// By which the kernel of an OS thread is ended, wherever it is.
int interrupt_signal();

/// Of the blocks of one OS thread.
class BlockRecorder final : public BlockObserver {
 public:
  explicit BlockRecorder(BlockRunner& runner) : runner_(runner) {}

  /// Null: races are not looked for, or nothing is counted.
  void begin_launch(RaceDetector* races, LaunchCounts* counts);
  void end_launch() override;
  void begin_block(std::uint64_t number, Span own, Span fixed, Span dynamic) override;
  void end_block(bool dropped) override;
  void enter(unsigned thread, Span stack) override;
  void exit(unsigned thread, bool last_of_warp) override;
  void barrier(Where at) override;
  void grid_barrier(bool completes) override;
  void meet(unsigned warp, unsigned lanes, bool all, Where at) override;
  void change(const volatile void* p, unsigned bytes, AtomicHow how, const void* code) override;
  void next_is_atomic(const volatile void* p, AtomicHow how) override { next_atomic_ = {p, how}; }
  void fence(Scope scope) override;
  void look(bool begins) override;
  std::string where_ended() const override;

  /// A load or store of the running thread, by the instruction before `code` (hooks.cpp).
  void note(const volatile void* p, unsigned bytes, Access access, const void* code);
  /// Where a handler of signals finds the running thread; 0: none runs, or not on a stack of the kernel.
  std::uint64_t end_of_stack() const;
  void note_crash(const Crash& crash) { crash_ = crash; }
  /// The running thread crashed, or is to end (note_crash).
  [[noreturn]] void end_after_crash();

 private:
  /// `how`: of what is more than a plain load or store.
  [[gnu::always_inline]] inline void take(const volatile void* p, unsigned bytes, Access access,
                                          const AtomicHow* how, const void* code);
  void make_room();
  void put_together(unsigned warp);
  void put_all_together();
  [[noreturn]] void leave(std::uint64_t code);

  // What each access needs comes first, in few lines of the cache.
  const std::atomic<Fault>* stop_ = nullptr;  ///< of the launch
  RaceDetector* races_ = nullptr;
  unsigned running_ = 0;  ///< the thread that runs, ...
  bool counting_ = false;
  Span stack_;                       ///< ... its stack, ...
  Span own_;                         ///< (other variables of the OS thread that are no shared memory)
  const void* last_code_ = nullptr;  ///< ... and where its last access was
  std::pair<const volatile void*, AtomicHow> next_atomic_{};
  RaceDetector::Block clocks_;

  BlockRunner& runner_;
  Tracer tracer_;
  Crash crash_;
  std::uint64_t left_at_ = 0;  ///< the code at which the running thread was ended; 0: it was not
  std::unique_ptr<std::byte[]> signal_stack_;
};

/// Of the thread that runs; null: nobody is told. There is no other observer than this.
inline BlockRecorder* block_recorder() { return static_cast<BlockRecorder*>(t_local.observer); }

}  // namespace stages::simt
