// Which races are told, with what is missing in each, and as text.

#include <algorithm>
#include <tuple>

#include "common/lens/recording/code.hpp"
#include "common/lens/recording/races.hpp"
#include "common/simt/block_runner.hpp"

namespace stages::simt {
namespace {

constexpr const char* kAtomic = "an atomic operation, or another place for one of them";
constexpr const char* kOfWarp = "a __syncwarp() of both lanes";
constexpr const char* kOfBlock = "a __syncthreads()";

}  // namespace

void RaceDetector::report(Race race) {
  constexpr std::size_t kMost = 100;
  const auto key = std::tuple(race.first.code, race.second.code, race.shared);
  const auto known = races_.find(key);
  if (known != races_.end()) {  // two that are farther apart tell more
    race.times += known->second.times;
    if (race.apart > known->second.apart) known->second = std::move(race);
    known->second.times = race.times;
  } else if (races_.size() < kMost) {
    races_.emplace(key, std::move(race));
  }
}

std::string RaceDetector::missing(const Epoch& before, const Block& block, unsigned thread, const Epoch& now,
                                  unsigned apart) const {
  if (before.phase < first_phase_) return kBetweenStreams;
  if (now.size == kReadOnly)
    return "a plain load: __ldg may give what stood there before this kernel, whatever lies between them";
  const bool same_block = apart < 2;
  if (before.atomic != 0 && now.atomic != 0 && !(before.bare && now.bare)) {
    return same_size(before, now) ? "a scope of both atomics that reaches the other block"
                                  : "atomics of one size: these touch a part of a word";
  }
  if ((before.atomic != 0) != (now.atomic != 0))
    return same_block ? "an atomic access on both sides, or a barrier (__syncthreads) between them"
                      : "an atomic access on both sides, or a fence and a flag between them";
  if (!same_block) {
    if (block.far[thread].heard_from == before.block)
      return "a __threadfence() before the flag is written and one after it is read, or release and acquire, "
             "of device scope";
    return before.access == Access::load || now.access == Access::load
               ? "a grid barrier, a flag with fences, or a kernel of its own for the later access"
               : kAtomic;
  }
  return apart == 0 ? kOfWarp : kOfBlock;
}

std::vector<Race> RaceDetector::take() {
  settle();
  std::vector<Race> all;
  std::vector<std::uint64_t> codes;
  for (auto& [key, race] : races_) {
    // Of a sum without an atomic the first race is a load, and only the store behind it tells.
    for (const auto& [store, load] : changes_) {
      const auto of_change = [&](const RaceAccess& a) { return a.code == store || a.code == load; };
      if (of_change(race.first) && of_change(race.second) && race.missing != kBetweenStreams)
        race.missing = kAtomic;
    }
    codes.insert(codes.end(), {race.first.code, race.second.code});
    all.push_back(std::move(race));
  }
  // All pairs of two lines need what those need that are the farthest apart.
  const std::vector<std::string> lines = all.size() > 1 ? lines_of_own(codes) : std::vector<std::string>{};
  for (std::size_t i = 0; i < lines.size() / 2; ++i) {
    for (std::size_t k = 0; k < lines.size() / 2; ++k) {
      const bool same =
          std::minmax(lines[2 * i], lines[2 * i + 1]) == std::minmax(lines[2 * k], lines[2 * k + 1]);
      if (same && all[k].apart > all[i].apart && (all[i].missing == kOfWarp || all[i].missing == kOfBlock) &&
          all[k].missing != kBetweenStreams)
        all[i].missing = all[k].missing;
    }
  }
  races_.clear();
  changes_.clear();
  return all;
}

std::string kind_of(const Race& race) {
  const auto name = [](Access access) {
    return access == Access::load ? "read" : access == Access::store ? "write" : "atomic";
  };
  return fmt::format("{}-after-{}", name(race.second.access), name(race.first.access));
}

const char* verb_of(Access access) {
  return access == Access::load ? "reads" : access == Access::store ? "writes" : "changes atomically";
}

std::string text_of(const Race& race) {
  const auto side = [](const RaceAccess& a) {
    if (a.code == 0) return fmt::format("a copy or cudaMemset on a stream {}", verb_of(a.access));
    return fmt::format("block {} thread {} {} at {}", coordinates(a.block), coordinates(a.thread),
                       verb_of(a.access), line_of(a.code));
  };
  const std::string where = race.shared      ? "shared memory"
                            : race.bytes > 0 ? fmt::format("a global array of {} bytes", race.bytes)
                                             : "global memory";
  return fmt::format("a race: {} hazard at byte {} of {}: {}, and {}; missing: {}", kind_of(race),
                     race.offset, where, side(race.first), side(race.second), race.missing);
}

}  // namespace stages::simt
