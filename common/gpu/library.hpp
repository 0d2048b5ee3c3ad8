#pragma once
// Functions of a library that is opened while the program runs, because not every machine has it.

#include <dlfcn.h>

#include <cstring>

namespace stages {

/// The function of that name and type in an open library; null where it has none.
template <class Function>
Function* function_of(void* library, const char* name) {
  Function* function = nullptr;
  void* const symbol = dlsym(library, name);
  static_assert(sizeof symbol == sizeof function);
  std::memcpy(&function, &symbol, sizeof symbol);
  return function;
}

}  // namespace stages
