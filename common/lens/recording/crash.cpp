// Crashes of kernels while the lens looks (recorder.hpp).

#include <ucontext.h>

#include <array>
#include <csignal>

#include "common/lens/recording/recorder.hpp"

namespace stages::simt {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;
bool g_catching = false;

#if defined(__x86_64__)
std::uint64_t code_of(const ucontext_t& context) {
  return static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
}
void go_on(ucontext_t& context, std::uint64_t code, std::uint64_t stack_end) {
  context.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(code);
  context.uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(stack_end / 16 * 16 - 8);  // as behind a call
}
constexpr bool kKnown = true;
#elif defined(__aarch64__)
std::uint64_t code_of(const ucontext_t& context) { return context.uc_mcontext.pc; }
void go_on(ucontext_t& context, std::uint64_t code, std::uint64_t stack_end) {
  context.uc_mcontext.pc = code;
  context.uc_mcontext.sp = stack_end / 16 * 16;
}
constexpr bool kKnown = true;
#else
std::uint64_t code_of(const ucontext_t&) { return 0; }
void go_on(ucontext_t&, std::uint64_t, std::uint64_t) {}
constexpr bool kKnown = false;
#endif

/// Where the thread goes on, at the end of its fiber's stack.
[[noreturn]] void land() { block_recorder()->end_after_crash(); }

void on_signal(int signal, siginfo_t* info, void* given) {
  auto& context = *static_cast<ucontext_t*>(given);
  const std::uint64_t stack_end = block_recorder() != nullptr ? block_recorder()->end_of_stack() : 0;
  if (stack_end == 0) {  // no kernel's: the instruction runs again, and ends the program
    if (signal != interrupt_signal()) std::signal(signal, SIG_DFL);
    return;
  }
  block_recorder()->note_crash({signal, code_of(context), reinterpret_cast<std::uintptr_t>(info->si_addr)});
  go_on(context, reinterpret_cast<std::uintptr_t>(&land), stack_end);
}

}  // namespace

int interrupt_signal() {
  return SIGRTMIN + 5;  // not one of those by which batch systems and terminals end programs
}

void catch_crashes(bool on) {
  if (!kKnown || on == g_catching) return;
  g_catching = on;
  static std::array<struct sigaction, 5> before;
  struct sigaction ours {};
  ours.sa_sigaction = on_signal;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  struct sigaction* next = before.data();
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, interrupt_signal()}) {
    sigaction(signal, on ? &ours : next, on ? next : nullptr);
    ++next;
  }
}

bool catching_crashes() { return g_catching; }

void prepare_for_crashes(std::unique_ptr<std::byte[]>& stack) {
  if (stack) return;
  stack = std::make_unique<std::byte[]>(kStackBytes);
  stack_t own{};
  own.ss_sp = stack.get();
  own.ss_size = kStackBytes;
  sigaltstack(&own, nullptr);
}

}  // namespace stages::simt
