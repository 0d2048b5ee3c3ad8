#include "common/gpu/architectures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace stages {
namespace {

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) words.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// One word of the list: 90a-real is {90, 'a', real}.
struct Architecture {
  int capability = 0;
  char suffix = ' ';  ///< a: this capability alone; f: its family
  bool real = true, virtual_ = true;
  bool known = false;

  explicit Architecture(std::string_view word) {
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), capability);
    std::string_view tail = word.substr(static_cast<std::size_t>(rest - word.data()));
    known = error == std::errc{};
    if (tail.starts_with('a') || tail.starts_with('f')) {
      suffix = tail.front();
      tail.remove_prefix(1);
    }
    real = tail != "-virtual";
    virtual_ = tail != "-real";
    known = known && (tail.empty() || !real || !virtual_);
  }

  CodeFor code_for(int device) const {
    if (!known) return CodeFor::machine;
    const bool same_major = device / 10 == capability / 10;
    const bool fits =
        suffix == 'a' ? device == capability : device >= capability && (suffix != 'f' || same_major);
    if (!fits) return CodeFor::none;
    if (real && same_major) return CodeFor::machine;
    return virtual_ ? CodeFor::ptx : CodeFor::none;
  }
};

}  // namespace

CodeFor code_for(std::string_view architectures, int capability) {
  CodeFor best = CodeFor::none;
  for (const std::string_view word : words_of(architectures))
    best = std::max(best, Architecture(word).code_for(capability));
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
