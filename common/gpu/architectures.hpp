#pragma once
// Which devices a build has code for, by CMake's list, and what to say where it has none.

#include <string>
#include <string_view>

namespace stages {

/// The least compute capability that the kernels compile for.
inline constexpr int kLeastCapability = 75;

/// How a program that was compiled for `architectures` runs on a device of compute capability `capability`
/// (75 is 7.5). The list is as CMake has it, with commas: `80-real` is machine code, which runs on later
/// devices of the same major number; `80-virtual` is PTX, which the driver compiles for any later device;
/// `80` is both. `90a` is for that capability alone, `100f` for those of its major number. What is no such
/// word (`all`) is taken for machine code.
enum class CodeFor { none, ptx, machine };
CodeFor code_for(std::string_view architectures, int capability);

/// Why it does not run there, and how to mend that, in one line; empty where it does. `driver` and `runtime`
/// are CUDA's numbers, 12040 is 12.4: an older driver does not compile the PTX of a later CUDA.
std::string code_problem(std::string_view architectures, std::string_view device, int capability, int driver,
                         int runtime);

/// What to say of a driver that is too old for the runtime.
std::string old_driver(int driver, int runtime);

}  // namespace stages
