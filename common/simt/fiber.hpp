#pragma once
// Fibers: stacks that one OS thread switches between by hand, on Boost.Context's fcontext layer.
//
// A switch saves the callee-saved registers and the stack pointer and takes 5 to 10 ns. The layer below
// boost::context::fiber is used because a fiber here hands over directly to the next one (the class would go
// through the fiber that started it, two switches instead of one), and because AddressSanitizer must be told
// of each switch: Debian builds Boost.Context without that support.
//
// On x86-64 the switch is our own, for one reason: it ends in a `ret`. Boost's ends in a jump, after which the
// processor foretells the returns of all callers wrongly; half of the executor's time went there.
//
// Stacks are 64 KiB (256 KiB under ASan, whose frames are larger), mapped lazily, with a guard page below, so
// that a runaway recursion is a crash and not a corrupted neighbour. They are kept and reused.

#include <boost/context/detail/fcontext.hpp>
#include <boost/version.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace stages::simt {

// That layer is no promise of Boost's. It is as it is used here from this version on.
static_assert(BOOST_VERSION >= 106100, "the executor needs Boost.Context 1.61 or newer");

struct Fiber {
  void* context = nullptr;     ///< while it does not run: its stack pointer, or what Boost makes of it
  std::byte* stack = nullptr;  ///< lowest usable byte; null for the OS thread's own stack
  std::size_t size = 0;
  void* fake_stack = nullptr;     ///< ASan's, while the fiber is not running
  Fiber* switching_to = nullptr;  ///< tells a fiber that starts who it is
  void (*body)(Fiber&) = nullptr;
};

/// Leaves `from` (the running fiber) where it is and continues `to`; returns when somebody continues `from`.
void switch_fiber(Fiber& from, Fiber& to);

/// Fibers at rest, owned by one OS thread.
class FiberPool {
 public:
  /// At the next switch to it a fiber calls `body`, which must never return.
  explicit FiberPool(void (*body)(Fiber&)) : body_(body) {}
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  Fiber* take();
  void put(Fiber* fiber) { idle_.push_back(fiber); }
  /// put() for a fiber that is in the middle of something, which is dropped without unwinding.
  void drop(Fiber* fiber);

 private:
  void reset(Fiber& fiber);

  void (*body_)(Fiber&);
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> idle_;
};

}  // namespace stages::simt
