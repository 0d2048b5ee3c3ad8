#pragma once
// The one exception of the project and the checked narrowing that uses it.

#include <fmt/format.h>

#include <concepts>
#include <limits>
#include <stdexcept>
#include <utility>

namespace stages {

/// Bad usage or bad input. The message is one line: what is wrong, where, and how to mend it.
/// `main` turns it into exit code 2.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// There is not enough memory, on the host or on a device: what needs it is skipped, and a run goes on.
struct OutOfMemory : Error {
  using Error::Error;
};

/// Throws an Error whose message is built like fmt::format's.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Converts between integer types, and throws where the value does not fit. `what` names the value in the
/// message.
template <std::integral To, std::integral From>
constexpr To narrow(From value, const char* what = "a count") {
  if (!std::in_range<To>(value))
    fail("{} is {}, which does not fit into {} bits; use a smaller matrix or the 64-bit form", what, value,
         std::numeric_limits<To>::digits + (std::is_signed_v<To> ? 1 : 0));
  return static_cast<To>(value);
}

}  // namespace stages
