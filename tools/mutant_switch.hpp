#pragma once
// For tools/mutate.py: faults behind switches. It puts these in the place of the operators of a source, all
// faults of a file in one program, and the environment's STAGES_MUTANT says which of them is on: its number, or
// none. An operator's stand-in has the operator's own precedence, so nothing around it has to be understood:
//
//     a <= b      a < mutant::compare(mutant::on(7) ? mutant::kLess : mutant::kLessEqual) > b
//     a && b      a && mutant::passed(7) || mutant::goes_on(7) && b
//     a += b      a += mutant::overwrites(mutant::on(7)) = b
//
// Nothing here is a constant expression: where the source needs one it does not compile, and that fault is
// tried by a build of its own.

#include <pthread.h>

#include <cstdlib>
#include <type_traits>

#pragma GCC diagnostic ignored "-Wparentheses"  // a < b > c, a && b || c

namespace mutant {

/// The number of the fault that is on. Const: one call does for a whole kernel.
__attribute__((const, noinline, no_sanitize("thread"))) inline unsigned active() {
  static const unsigned number = [] {
    const char* const text = std::getenv("STAGES_MUTANT");
    return text == nullptr ? 0U : static_cast<unsigned>(std::strtoul(text, nullptr, 0));
  }();
  return number;
}

inline bool on(unsigned number) { return active() == number; }

// ---- a < b, and so on --------------------------------------------------------------------------------------

enum Comparison { kLess, kLessEqual, kLessEqualMore, kGreater, kGreaterMore, kGreaterEqual };

struct Compare {
  Comparison how;
};
inline Compare compare(Comparison how) { return {how}; }

template <class B>
auto one_more(B b) {
  if constexpr (requires { 1 + b; }) {
    return 1 + b;
  } else {
    return static_cast<B>(1 + static_cast<int>(b));  // of an enumeration
  }
}

template <class A>
struct LeftOf {
  A a;
  Comparison how;
  template <class B>
  bool operator>(B b) const {
    switch (how) {
      case kLess: return a < b;
      case kLessEqual: return a <= b;
      case kLessEqualMore: return a <= one_more(b);
      case kGreater: return a > b;
      case kGreaterMore: return a > one_more(b);
      case kGreaterEqual: return a >= b;
    }
    return false;
  }
};
template <class A>
LeftOf<A> operator<(A a, Compare compare) {
  return {a, compare.how};
}
template <class A>
LeftOf<A> operator>(A a, Compare compare) {
  return {a, compare.how};
}

// ---- a && b, with || in its place --------------------------------------------------------------------------

/// Where a thread notes that the `a` of the `a && b` that is at work was true. No thread_local: those are
/// shared memory to the executor, which fills it with junk. Made before any kernel runs: what a kernel makes
/// anew would be a race.
inline const pthread_key_t kAWasTrue = [] {
  pthread_key_t made{};
  pthread_key_create(&made, nullptr);
  return made;
}();

__attribute__((noinline, no_sanitize("thread"))) inline bool passed(unsigned number) {
  if (on(number)) return true;
  static const char note = 0;
  pthread_setspecific(kAWasTrue, &note);
  return false;
}
__attribute__((noinline, no_sanitize("thread"))) inline bool goes_on(unsigned number) {
  if (on(number)) return true;
  const bool was_true = pthread_getspecific(kAWasTrue) != nullptr;
  pthread_setspecific(kAWasTrue, nullptr);
  return was_true;
}

// ---- a += b, with = in its place ---------------------------------------------------------------------------

template <class B>
struct Added {
  B b;
  bool alone;
};
struct Overwrites {
  bool is_on;
  template <class B>
  Added<B> operator=(B b) const {
    return {b, is_on};
  }
};
inline Overwrites overwrites(bool is_on) { return {is_on}; }
template <class A, class B>
A& operator+=(A& a, Added<B> added) {
  if (added.alone) {
    a = static_cast<A>(added.b);
  } else {
    a += added.b;
  }
  return a;
}

// ---- T{a} * b, with int{a} in its place --------------------------------------------------------------------

template <class T, unsigned kNumber>
struct Narrow {
  T a;
  template <class A>
  explicit Narrow(A from) : a(static_cast<T>(from)) {}
  T value() const { return on(kNumber) ? static_cast<T>(static_cast<int>(a)) : a; }
  template <class U, unsigned kOther>
  auto operator*(Narrow<U, kOther> b) const {
    return *this * b.value();
  }
  template <class B>
  auto operator*(B b) const {
    return on(kNumber) ? static_cast<decltype(a * b)>(static_cast<int>(a) * b) : a * b;
  }
};

// ---- min(a, b), with max in its place ----------------------------------------------------------------------

template <class A, class B>
std::common_type_t<A, B> extreme(bool least, A a, B b) {
  const std::common_type_t<A, B> x = a, y = b;
  return (least ? y < x : x < y) ? y : x;
}

}  // namespace mutant
