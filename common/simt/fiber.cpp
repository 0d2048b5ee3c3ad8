#include "common/simt/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "common/simt/sanitizer.hpp"

// Our own switch, for the one processor that it is written for.
#if !defined(STAGES_SIMT_OWN_SWITCH) && defined(__x86_64__)
#define STAGES_SIMT_OWN_SWITCH 1
#endif

namespace stages::simt {
namespace {

constexpr std::size_t kStackBytes = STAGES_SIMT_ASAN ? 256 * 1024 : 64 * 1024;

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

// What every switch ends with, on the stack that continues, after `left` was left.
void arrive([[maybe_unused]] Fiber& left, [[maybe_unused]] void* own_fake_stack) {
#if STAGES_SIMT_ASAN
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(own_fake_stack, &bottom, &size);
  if (!left.stack) {  // the OS thread's own stack: only now do we learn where it lies
    left.stack = static_cast<std::byte*>(const_cast<void*>(bottom));
    left.size = size;
  }
#endif
}

// What every switch begins with.
void depart([[maybe_unused]] Fiber& from, [[maybe_unused]] Fiber& to) {
#if STAGES_SIMT_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.size);
#endif
}

}  // namespace

#if STAGES_SIMT_OWN_SWITCH

// stages_switch_stack: pushes what a function must keep, notes the stack pointer where `left` begins, and takes
// from `to` what was pushed there. Returns, there, the fiber that was left. stages_begin_stack: where a stack
// begins, with the function to call in r12 and its first argument in r13; the fiber that was left is the
// second.
asm(R"(
  .text
  .p2align 4
  .type stages_switch_stack, @function
stages_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r15
  pushq %r14
  pushq %r13
  pushq %r12
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r12
  popq %r13
  popq %r14
  popq %r15
  popq %rbx
  popq %rbp
  movq %rdi, %rax
  ret
  .size stages_switch_stack, .-stages_switch_stack
  .p2align 4
  .type stages_begin_stack, @function
stages_begin_stack:
  movq %r13, %rdi
  movq %rax, %rsi
  call *%r12
  ud2
  .size stages_begin_stack, .-stages_begin_stack
)");
extern "C" {
Fiber* stages_switch_stack(Fiber* left, void* to);
void stages_begin_stack();
}
static_assert(offsetof(Fiber, context) == 0);

void switch_fiber(Fiber& from, Fiber& to) {
  depart(from, to);
  Fiber* const left = stages_switch_stack(&from, to.context);
  arrive(*left, from.fake_stack);
}

namespace {

// The first frame on every fiber's stack.
void entry(Fiber& self, Fiber& left) {
  arrive(left, nullptr);
  self.body(self);
}

void* first_context(Fiber& fiber) {
  auto* top = reinterpret_cast<void**>(fiber.stack + fiber.size);  // a multiple of 16
  *--top = nullptr;
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&stages_begin_stack);
  for (int i = 0; i < 4; ++i) *--top = nullptr;  // rbp, rbx, r15, r14
  *--top = &fiber;                               // r13
  *--top = reinterpret_cast<void*>(&entry);      // r12
  return top;
}

}  // namespace

#else

namespace {

// Notes where the fiber that was left stopped.
Fiber& left_by(boost::context::detail::transfer_t from) {
  Fiber& left = *static_cast<Fiber*>(from.data);
  left.context = from.fctx;
  return left;
}

// The first frame on every fiber's stack.
void entry(boost::context::detail::transfer_t from) {
  Fiber& self = *static_cast<Fiber*>(from.data)->switching_to;
  arrive(left_by(from), nullptr);
  self.body(self);
}

void* first_context(Fiber& fiber) {
  return boost::context::detail::make_fcontext(fiber.stack + fiber.size, fiber.size, entry);
}

}  // namespace

void switch_fiber(Fiber& from, Fiber& to) {
  from.switching_to = &to;
  depart(from, to);
  Fiber& left = left_by(boost::context::detail::jump_fcontext(to.context, &from));
  arrive(left, from.fake_stack);
}

#endif

void FiberPool::reset(Fiber& fiber) {
#if STAGES_SIMT_ASAN
  __asan_unpoison_memory_region(fiber.stack, fiber.size);
#endif
  fiber.body = body_;
  fiber.fake_stack = nullptr;
  fiber.context = first_context(fiber);
}

FiberPool::~FiberPool() {
  for (const auto& fiber : all_) {
#if STAGES_SIMT_ASAN
    __asan_unpoison_memory_region(fiber->stack, fiber->size);
#endif
    munmap(fiber->stack - page_bytes(), kStackBytes + page_bytes());
  }
}

Fiber* FiberPool::take() {
  if (idle_.empty()) {
    const std::size_t page = page_bytes();
    void* memory = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) throw std::bad_alloc();
    auto fiber = std::make_unique<Fiber>();
    fiber->stack = static_cast<std::byte*>(memory) + page;
    // Stacks that all began at the same offset would fight for the same few cache sets: stagger them.
    fiber->size = kStackBytes - (all_.size() % 32) * 192;
    reset(*fiber);
    idle_.push_back(fiber.get());
    all_.push_back(std::move(fiber));
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

void FiberPool::drop(Fiber* fiber) {
  reset(*fiber);
  put(fiber);
}

}  // namespace stages::simt
