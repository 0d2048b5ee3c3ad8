// What the compiler calls before each load and store of a kernel (-fsanitize=thread), and in place of each
// atomic operation. The names and their meaning are GCC's (gcc/sanitizer.def) and LLVM's (compiler-rt,
// tsan_interface.h); of their library nothing is linked.
//
// An atomic of CUDA notes itself (note_atomic in simt/thread.hpp): the loop that stands for it here is one
// instruction there. So what comes here in place of one is done and not noted, but for plain atomic loads and
// stores.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/lens/recording/recorder.hpp"

namespace stages::simt {

bool has_hooks() { return STAGES_LENS_HOOKS; }

}  // namespace stages::simt

using stages::simt::Access;
using stages::simt::block_recorder;
using stages::simt::t_local;

namespace {

inline void note(const volatile void* p, unsigned bytes, Access access, const void* code) {
  if (block_recorder() != nullptr) [[unlikely]]
    block_recorder()->note(p, bytes, access, code);
}

/// A copy of a struct, or a call of memcpy: as instructions of up to 16 bytes, as its alignment allows.
void note_range(const volatile void* p, std::size_t bytes, Access access, const void* code) {
  if (block_recorder() == nullptr) return;
  auto at = reinterpret_cast<std::uintptr_t>(p);
  while (bytes > 0) {
    std::size_t piece = 16;
    while (piece > bytes || at % piece != 0) piece /= 2;
    note(reinterpret_cast<const void*>(at), static_cast<unsigned>(piece), access, code);
    at += piece;
    bytes -= piece;
  }
}

}  // namespace

// Nobody else declares these.
#pragma GCC diagnostic ignored "-Wmissing-declarations"
#define STAGES_HOOK(NAME, BYTES, KIND) \
  void __tsan_##NAME(void* p) { note(p, BYTES, Access::KIND, __builtin_return_address(0)); }
#define STAGES_VOLATILE_HOOK(NAME, BYTES, KIND)                   \
  void __tsan_volatile_##NAME(void* p) {                          \
    if (block_recorder() != nullptr) [[unlikely]]                 \
      block_recorder()->next_is_atomic(p, {.is_volatile = true}); \
    note(p, BYTES, Access::KIND, __builtin_return_address(0));    \
  }
#define STAGES_HOOKS(BYTES)                         \
  STAGES_HOOK(read##BYTES, BYTES, load)             \
  STAGES_HOOK(write##BYTES, BYTES, store)           \
  STAGES_HOOK(unaligned_read##BYTES, BYTES, load)   \
  STAGES_HOOK(unaligned_write##BYTES, BYTES, store) \
  STAGES_VOLATILE_HOOK(read##BYTES, BYTES, load)    \
  STAGES_VOLATILE_HOOK(write##BYTES, BYTES, store)

// The order of memory is the strictest, whatever was asked for.
#define STAGES_ATOMIC_CHANGE(BITS, T, NAME, BUILTIN)        \
  T __tsan_atomic##BITS##_##NAME(volatile T* p, T v, int) { \
    t_local.in_atomic = false;                              \
    return __atomic_##BUILTIN(p, v, __ATOMIC_SEQ_CST);      \
  }
#define STAGES_ATOMIC_COMPARE(BITS, T, NAME)                                                       \
  bool __tsan_atomic##BITS##_compare_exchange_##NAME(volatile T* p, T* expected, T v, int, int) {  \
    t_local.in_atomic = false;                                                                     \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
#define STAGES_ATOMICS(BITS, T)                                                            \
  T __tsan_atomic##BITS##_load(const volatile T* p, int) {                                 \
    if (!t_local.in_atomic) note(p, sizeof(T), Access::load, __builtin_return_address(0)); \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                           \
  }                                                                                        \
  void __tsan_atomic##BITS##_store(volatile T* p, T v, int) {                              \
    note(p, sizeof(T), Access::store, __builtin_return_address(0));                        \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                              \
  }                                                                                        \
  STAGES_ATOMIC_CHANGE(BITS, T, exchange, exchange_n)                                      \
  STAGES_ATOMIC_CHANGE(BITS, T, fetch_add, fetch_add)                                      \
  STAGES_ATOMIC_CHANGE(BITS, T, fetch_sub, fetch_sub)                                      \
  STAGES_ATOMIC_CHANGE(BITS, T, fetch_and, fetch_and)                                      \
  STAGES_ATOMIC_CHANGE(BITS, T, fetch_or, fetch_or)                                        \
  STAGES_ATOMIC_CHANGE(BITS, T, fetch_xor, fetch_xor)                                      \
  STAGES_ATOMIC_CHANGE(BITS, T, fetch_nand, fetch_nand)                                    \
  STAGES_ATOMIC_COMPARE(BITS, T, strong)                                                   \
  STAGES_ATOMIC_COMPARE(BITS, T, weak)

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
STAGES_HOOKS(1)
STAGES_HOOKS(2)
STAGES_HOOKS(4)
STAGES_HOOKS(8)
STAGES_HOOKS(16)
void __tsan_read_range(void* p, std::size_t bytes) {
  note_range(p, bytes, Access::load, __builtin_return_address(0));
}
void __tsan_write_range(void* p, std::size_t bytes) {
  note_range(p, bytes, Access::store, __builtin_return_address(0));
}
void* stages_memmove(void* to, const void* from, std::size_t bytes) {
  note_range(from, bytes, Access::load, __builtin_return_address(0));
  note_range(to, bytes, Access::store, __builtin_return_address(0));
  return std::memmove(to, from, bytes);
}
void* stages_memcpy(void*, const void*, std::size_t) __attribute__((alias("stages_memmove")));
void* stages_memset(void* to, int byte, std::size_t bytes) {
  note_range(to, bytes, Access::store, __builtin_return_address(0));
  return std::memset(to, byte, bytes);
}
STAGES_ATOMICS(8, unsigned char)
STAGES_ATOMICS(16, unsigned short)
STAGES_ATOMICS(32, unsigned)
STAGES_ATOMICS(64, unsigned long)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}
}
