#include "common/gpu/architectures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "common/matrix/embedded_table.hpp"

namespace stages {
namespace {

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty())
    if (const std::string_view word = take(list, ','); !word.empty()) words.push_back(word);
  return words;
}

/// How code for one word of the list, such as 90a-real, runs on a device.
CodeFor code_of_word(std::string_view word, int device) {
  int capability = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), capability);
  std::string_view tail = word.substr(static_cast<std::size_t>(rest - word.data()));
  char suffix = ' ';  // a: this capability alone; f: its family
  if (tail.starts_with('a') || tail.starts_with('f')) {
    suffix = tail.front();
    tail.remove_prefix(1);
  }
  const bool has_machine_code = tail != "-virtual", has_ptx = tail != "-real";
  const bool known = error == std::errc{} && (tail.empty() || !has_machine_code || !has_ptx);
  if (!known) return CodeFor::machine;
  const bool same_major = device / 10 == capability / 10;
  const bool fits =
      suffix == 'a' ? device == capability : device >= capability && (suffix != 'f' || same_major);
  if (!fits) return CodeFor::none;
  if (has_machine_code && same_major) return CodeFor::machine;
  return has_ptx ? CodeFor::ptx : CodeFor::none;
}

}  // namespace

CodeFor code_for(std::string_view architectures, int capability) {
  CodeFor best = CodeFor::none;
  for (const std::string_view word : words_of(architectures))
    best = std::max(best, code_of_word(word, capability));
  return best;
}

std::string code_problem(std::string_view architectures, std::string_view device, int capability, int driver,
                         int runtime) {
  if (capability < kLeastCapability) {
    return fmt::format("the {} is sm_{}; the kernels need compute capability {}.{} or later", device,
                       capability, kLeastCapability / 10, kLeastCapability % 10);
  }
  const CodeFor code = code_for(architectures, capability);
  if (code == CodeFor::machine || (code == CodeFor::ptx && driver >= runtime)) return {};
  std::string has;
  for (const std::string_view word : words_of(architectures))
    has += fmt::format("{}sm_{}", has.empty() ? "" : ", ", word.substr(0, word.find('-')));
  const std::string compiles =
      code == CodeFor::none
          ? ""
          : fmt::format(", for which the driver (CUDA {}.{}) would have to compile PTX of CUDA {}.{}",
                        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  return fmt::format(
      "this build has code for {}; the {} is sm_{}{}: configure with -DCMAKE_CUDA_ARCHITECTURES={} and build "
      "again",
      has, device, capability, compiles, capability);
}

std::string old_driver(int driver, int runtime) {
  return fmt::format(
      "the driver is for CUDA {}.{}, and this program was built with CUDA {}.{}: install a newer driver, or "
      "build "
      "with an older CUDA",
      driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

}  // namespace stages
