#pragma once
// The CUDA device language as C++: qualifiers, barriers, warp functions, atomics, cached loads and bit
// tricks, with the names and the meaning that the CUDA C++ Programming Guide gives them, so that a kernel
// compiles here unchanged. Whatever the guide leaves undefined is answered with junk, or stops the kernel
// with a fault.
//
// Every function that can wait ends in a defaulted std::source_location, which is how faults and deadlock
// tables know the kernel's file and line.

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/simt/thread.hpp"

// Qualifiers. Shared arrays are static thread_local: right as long as a block stays on its OS thread and no
// other block runs there, which the executor guarantees. The tag becomes a part of a kernel's symbol,
// multiply[abi:kernel]: tests/reached lists all kernels of a program by it.
#define __global__ __attribute__((abi_tag("kernel"), flatten))
#define __device__
#define __host__
#define __constant__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))

// Of kernels that are counted these are noted, too (lens/recording); std::copy and std::fill come to them.
#ifdef __SANITIZE_THREAD__
asm(".set memcpy, stages_memcpy\n.set memmove, stages_memmove\n.set memset, stages_memset");
#endif

// The defaulted last parameter of every function that can wait.
#define STAGES_SIMT_AT stages::simt::Where at = stages::simt::Where::current()

// ---- barriers and votes -----------------------------------------------------------------------------------

inline void __syncthreads(STAGES_SIMT_AT) { stages::simt::block_barrier(stages::simt::Vote::none, 0, at); }
#define STAGES_SIMT_VOTE(NAME, VOTE)                                             \
  inline int __syncthreads_##NAME(int predicate, STAGES_SIMT_AT) {               \
    return stages::simt::block_barrier(stages::simt::Vote::VOTE, predicate, at); \
  }
STAGES_SIMT_VOTE(count, count)
STAGES_SIMT_VOTE(and, all)
STAGES_SIMT_VOTE(or, any)
#undef STAGES_SIMT_VOTE
inline void __syncwarp(unsigned mask = 0xffffffffu, STAGES_SIMT_AT) {
  stages::simt::meet(stages::simt::WarpOp::sync, mask, 0, 0, at);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, STAGES_SIMT_AT) {
  return static_cast<unsigned>(stages::simt::meet(stages::simt::WarpOp::ballot, mask, predicate != 0, 0, at));
}
inline int __any_sync(unsigned mask, int predicate, STAGES_SIMT_AT) {
  return __ballot_sync(mask, predicate, at) != 0;
}
inline int __all_sync(unsigned mask, int predicate, STAGES_SIMT_AT) {
  return __ballot_sync(mask, !predicate, at) == 0;
}

/// The lanes that happen to run together with this one. Hardware promises no more than the caller itself, so
/// the caller itself is the answer: a kernel that reads more into it fails here.
inline unsigned __activemask() { return 1u << stages::simt::lane_of_thread(); }

// ---- shuffles ---------------------------------------------------------------------------------------------

namespace stages::simt {

/// What CUDA shuffles: integers and floating-point numbers of 4 or 8 bytes.
template <class T>
concept Shuffled = std::is_arithmetic_v<T> &&(sizeof(T) == 4 || sizeof(T) == 8);

template <class T>
std::uint64_t to_bits(T value) {
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

/// source(lane, within) is the lane that `lane` reads from; `within` masks a lane's place in its segment of
/// `width` lanes.
template <class T, class Source>
T shuffle(unsigned mask, T value, int width, Where at, Source source) {
  if (width < 1 || width > 32 || (width & (width - 1)) != 0)
    device_fault("a shuffle whose width is not 1, 2, 4, 8, 16 or 32", at);
  const unsigned from = source(lane_of_thread(), static_cast<unsigned>(width) - 1);
  return from_bits<T>(meet(WarpOp::shuffle, mask, to_bits(value), from, at));
}

}  // namespace stages::simt

template <stages::simt::Shuffled T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, STAGES_SIMT_AT) {
  return stages::simt::shuffle(mask, value, width, at, [source](unsigned lane, unsigned within) {
    return (lane & ~within) | (static_cast<unsigned>(source) & within);
  });
}

/// From the lane `delta` below, its own value where that would leave the segment of `width` lanes.
template <stages::simt::Shuffled T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, STAGES_SIMT_AT) {
  return stages::simt::shuffle(mask, value, width, at, [delta](unsigned lane, unsigned within) {
    return (lane & within) < delta ? lane : lane - delta;
  });
}

template <stages::simt::Shuffled T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, STAGES_SIMT_AT) {
  return stages::simt::shuffle(mask, value, width, at, [delta](unsigned lane, unsigned within) {
    return delta > within - (lane & within) ? lane : lane + delta;
  });
}

/// From lane ^ bits; lanes of later segments are out of reach (own value), those of earlier ones are not.
template <stages::simt::Shuffled T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, STAGES_SIMT_AT) {
  return stages::simt::shuffle(mask, value, width, at, [bits](unsigned lane, unsigned within) {
    const unsigned source = lane ^ static_cast<unsigned>(bits);
    return source > (lane | within) ? lane : source;
  });
}

template <stages::simt::Shuffled T>
unsigned __match_any_sync(unsigned mask, T value, STAGES_SIMT_AT) {
  using namespace stages::simt;
  return static_cast<unsigned>(meet(WarpOp::match_any, mask, to_bits(value), 0, at));
}

#define STAGES_SIMT_REDUCE(NAME, T, OP)                                     \
  inline T __reduce_##NAME##_sync(unsigned mask, T value, STAGES_SIMT_AT) { \
    using namespace stages::simt;                                           \
    require_capability(80, "__reduce_" #NAME "_sync", at);                  \
    return from_bits<T>(meet(WarpOp::OP, mask, to_bits(value), 0, at));     \
  }
STAGES_SIMT_REDUCE(add, unsigned, add_u32)
STAGES_SIMT_REDUCE(min, unsigned, min_u32)
STAGES_SIMT_REDUCE(max, unsigned, max_u32)
STAGES_SIMT_REDUCE(add, int, add_u32)
STAGES_SIMT_REDUCE(min, int, min_s32)
STAGES_SIMT_REDUCE(max, int, max_s32)
STAGES_SIMT_REDUCE(and, unsigned, and_u32)
STAGES_SIMT_REDUCE(or, unsigned, or_u32)
STAGES_SIMT_REDUCE(xor, unsigned, xor_u32)
#undef STAGES_SIMT_REDUCE

// ---- atomics: true ones, as blocks run on several OS threads ----------------------------------------------

namespace stages::simt {

/// The types of CUDA's integer atomics; other integers are left out because hardware lacks them.
template <class T>
concept AtomicInteger =
    std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long>;
template <class T>
concept AtomicNumber = AtomicInteger<T> || std::same_as<T, float> || std::same_as<T, double>;
template <class T>
concept AtomicOrdered = AtomicInteger<T> || std::same_as<T, long long>;
template <class T>
concept AtomicExchanged = AtomicInteger<T> || std::same_as<T, float>;
template <class T>
concept AtomicCompared = AtomicInteger<T> || std::same_as<T, unsigned short>;

/// To add to a T, or to change it otherwise than by an exchange.
template <class T>
inline constexpr AtomicWay way_to_change = std::floating_point<T> || sizeof(T) == 8 ? AtomicWay::swap_loop
                                                                                    : AtomicWay::one;

/// Replaces *p by change(*p) atomically and returns the old value.
template <class T, class Change>
T atomic_change(T* p, Where at, Change change) {
  note_atomic_change(p, at, {.way = way_to_change<T>});
  std::atomic_ref<T> cell(*p);
  T old = cell.load(std::memory_order_relaxed);
  while (!cell.compare_exchange_weak(old, change(old), std::memory_order_relaxed)) {
  }
  return old;
}

}  // namespace stages::simt

// The operand's type is not deduced (std::type_identity), so that atomicAdd(&x, 1) converts as with CUDA's
// overloads.
#define STAGES_SIMT_ATOMIC_HOW(NAME, TYPES, METHOD, ...)                \
  template <stages::simt::TYPES T>                                      \
  T NAME(T* p, std::type_identity_t<T> v, STAGES_SIMT_AT) {             \
    stages::simt::note_atomic_change(p, at, {__VA_ARGS__});             \
    return std::atomic_ref<T>(*p).METHOD(v, std::memory_order_relaxed); \
  }
#define STAGES_SIMT_ATOMIC(NAME, TYPES, METHOD) \
  STAGES_SIMT_ATOMIC_HOW(NAME, TYPES, METHOD, .way = stages::simt::way_to_change<T>)
STAGES_SIMT_ATOMIC(atomicAdd, AtomicNumber, fetch_add)
STAGES_SIMT_ATOMIC_HOW(atomicAdd_block, AtomicNumber, fetch_add, .scope = stages::simt::Scope::block,
                       .way = stages::simt::way_to_change<T>)
STAGES_SIMT_ATOMIC(atomicSub, AtomicInteger, fetch_sub)
STAGES_SIMT_ATOMIC(atomicAnd, AtomicInteger, fetch_and)
STAGES_SIMT_ATOMIC(atomicOr, AtomicInteger, fetch_or)
STAGES_SIMT_ATOMIC(atomicXor, AtomicInteger, fetch_xor)
STAGES_SIMT_ATOMIC_HOW(atomicExch, AtomicExchanged, exchange)
#undef STAGES_SIMT_ATOMIC
#undef STAGES_SIMT_ATOMIC_HOW

template <stages::simt::AtomicOrdered T>
T atomicMin(T* p, std::type_identity_t<T> v, STAGES_SIMT_AT) {
  return stages::simt::atomic_change(p, at, [v](T old) { return v < old ? v : old; });
}
template <stages::simt::AtomicOrdered T>
T atomicMax(T* p, std::type_identity_t<T> v, STAGES_SIMT_AT) {
  return stages::simt::atomic_change(p, at, [v](T old) { return v > old ? v : old; });
}
template <stages::simt::AtomicCompared T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> desired, STAGES_SIMT_AT) {
  stages::simt::note_atomic_change(p, at, {.way = stages::simt::AtomicWay::compare_swap});
  std::atomic_ref<T>(*p).compare_exchange_strong(expected, desired, std::memory_order_relaxed);
  return expected;
}
inline unsigned atomicInc(unsigned* p, unsigned limit, STAGES_SIMT_AT) {
  return stages::simt::atomic_change(p, at, [limit](unsigned old) { return old >= limit ? 0u : old + 1; });
}

inline void __threadfence() {
  stages::simt::note_fence(stages::simt::Scope::device);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline void __threadfence_block() {
  stages::simt::note_fence(stages::simt::Scope::block);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline void __threadfence_system() { __threadfence(); }
inline void __nanosleep(unsigned, STAGES_SIMT_AT) { stages::simt::pause_turn(at); }
[[noreturn]] inline void __trap(STAGES_SIMT_AT) {
  stages::simt::device_fault("the kernel called __trap()", at);
}
inline long long clock64() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// The part of libcu++ that our kernels use.
namespace cuda {
using std::memory_order;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;
using thread_scope = stages::simt::Scope;
inline constexpr thread_scope thread_scope_system = thread_scope::device;
inline constexpr thread_scope thread_scope_device = thread_scope::device;
inline constexpr thread_scope thread_scope_block = thread_scope::block;
inline constexpr thread_scope thread_scope_thread = thread_scope::thread;

/// cuda::atomic_ref over std::atomic_ref. All memory is one memory here, so scopes only matter to the search
/// for races.
template <class T, thread_scope scope = thread_scope_system>
class atomic_ref {
 public:
  explicit atomic_ref(T& object) : address_(&object), cell_(object) {}

  void store(T value, memory_order order = memory_order_seq_cst) const {
    stages::simt::note_atomic_next(address_, how(order));
    cell_.store(value, order);
  }
  T load(memory_order order = memory_order_seq_cst, STAGES_SIMT_AT) const {
    stages::simt::note_atomic(at);
    stages::simt::note_atomic_next(address_, how(order));
    return cell_.load(order);
  }
  T exchange(T value, memory_order order = memory_order_seq_cst, STAGES_SIMT_AT) const {
    stages::simt::note_atomic_change(address_, at, how(order));
    return cell_.exchange(value, order);
  }
  T fetch_add(T value, memory_order order = memory_order_seq_cst, STAGES_SIMT_AT) const {
    stages::simt::note_atomic_change(address_, at, how(order, stages::simt::way_to_change<T>));
    return cell_.fetch_add(value, order);
  }

 private:
  static constexpr stages::simt::AtomicHow how(memory_order order,
                                               stages::simt::AtomicWay way = stages::simt::AtomicWay::one) {
    return {.scope = scope,
            .acquires = order != memory_order_relaxed && order != memory_order_release,
            .releases = order != memory_order_relaxed && order != memory_order_acquire,
            .way = way};
  }

  T* address_;
  std::atomic_ref<T> cell_;
};
}  // namespace cuda

// ---- loads and stores with cache hints --------------------------------------------------------------------

#define STAGES_SIMT_PLAIN_LOAD(NAME, NOTE) \
  template <class T>                       \
  T NAME(const T* p, STAGES_SIMT_AT) {     \
    stages::simt::require_aligned(p, at);  \
    NOTE;                                  \
    return *p;                             \
  }
STAGES_SIMT_PLAIN_LOAD(__ldg, stages::simt::note_atomic_next(p, {.read_only = true}))
STAGES_SIMT_PLAIN_LOAD(__ldca, )
STAGES_SIMT_PLAIN_LOAD(__ldcs, )
#undef STAGES_SIMT_PLAIN_LOAD

// Those that go past L1 are used to talk to other blocks, hence to other OS threads: no torn numbers, and
// never kept in a register across the turns of a loop.
#define STAGES_SIMT_SHARED_LOAD(NAME)                                        \
  template <class T>                                                         \
  T NAME(const T* p, STAGES_SIMT_AT) {                                       \
    stages::simt::require_aligned(p, at);                                    \
    stages::simt::note_atomic(at);                                           \
    stages::simt::note_atomic_next(p, {.vector = !std::is_arithmetic_v<T>}); \
    if constexpr (!std::is_arithmetic_v<T>) {                                \
      return *p;                                                             \
    } else {                                                                 \
      T value;                                                               \
      __atomic_load(p, &value, __ATOMIC_RELAXED);                            \
      return value;                                                          \
    }                                                                        \
  }
STAGES_SIMT_SHARED_LOAD(__ldcg)
STAGES_SIMT_SHARED_LOAD(__ldcv)
#undef STAGES_SIMT_SHARED_LOAD

#define STAGES_SIMT_STORE(NAME, NOTE)                          \
  template <class T>                                           \
  void NAME(T* p, std::type_identity_t<T> v, STAGES_SIMT_AT) { \
    stages::simt::require_aligned(p, at);                      \
    NOTE;                                                      \
    if constexpr (std::is_arithmetic_v<T>) {                   \
      __atomic_store(p, &v, __ATOMIC_RELAXED);                 \
    } else {                                                   \
      *p = v;                                                  \
    }                                                          \
  }
STAGES_SIMT_STORE(__stcs, )
STAGES_SIMT_STORE(__stcg, stages::simt::note_atomic_next(p, {.vector = !std::is_arithmetic_v<T>}))
STAGES_SIMT_STORE(__stwt, stages::simt::note_atomic_next(p, {.vector = !std::is_arithmetic_v<T>}))
#undef STAGES_SIMT_STORE

// ---- integer and floating-point intrinsics ----------------------------------------------------------------

#define STAGES_SIMT_UNARY(NAME, TO, FROM, RESULT) \
  inline TO NAME(FROM v) { return RESULT; }
STAGES_SIMT_UNARY(__popc, int, unsigned, std::popcount(v))
STAGES_SIMT_UNARY(__popcll, int, unsigned long long, std::popcount(v))
STAGES_SIMT_UNARY(__clz, int, int, std::countl_zero(static_cast<unsigned>(v)))
STAGES_SIMT_UNARY(__clzll, int, long long, std::countl_zero(static_cast<unsigned long long>(v)))
STAGES_SIMT_UNARY(__ffs, int, int, __builtin_ffs(v))
STAGES_SIMT_UNARY(__ffsll, int, long long, __builtin_ffsll(v))
STAGES_SIMT_UNARY(__int_as_float, float, int, std::bit_cast<float>(v))
STAGES_SIMT_UNARY(__float_as_int, int, float, std::bit_cast<int>(v))
STAGES_SIMT_UNARY(__uint_as_float, float, unsigned, std::bit_cast<float>(v))
STAGES_SIMT_UNARY(__float_as_uint, unsigned, float, std::bit_cast<unsigned>(v))
STAGES_SIMT_UNARY(__longlong_as_double, double, long long, std::bit_cast<double>(v))
STAGES_SIMT_UNARY(__double_as_longlong, long long, double, std::bit_cast<long long>(v))
#undef STAGES_SIMT_UNARY
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
// CUDA has min and max for every pair of arithmetic types in the global namespace.
template <class A, class B>
requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

#undef STAGES_SIMT_AT
