#include "common/simt/lens/request.hpp"

#include <algorithm>
#include <bit>

namespace stages::simt {

unsigned lanes_that_meet(const Request& request) {
  DistinctSet addresses;
  each_lane(request.lanes, [&](unsigned lane) { addresses.insert(request.address[lane]); });
  return static_cast<unsigned>(std::popcount(request.lanes)) - addresses.size();
}

GlobalCost global_cost(const Request& request) {
  GlobalCost cost;
  each_sector(request, [&](std::uint64_t) { ++cost.sectors; });
  const auto lanes = static_cast<unsigned>(std::popcount(request.lanes));
  cost.wanted_bytes = std::uint64_t{lanes - lanes_that_meet(request)} * request.bytes;
  return cost;
}

SharedCost shared_cost(const Request& request) {
  const unsigned words = std::max(1u, request.bytes / static_cast<unsigned>(kBankBytes));
  const unsigned together = kLanes / std::min(words, kLanes);  // lanes that are answered at once
  SharedCost cost;
  for (unsigned first = 0; first < kLanes; first += together) {
    std::array<std::uint8_t, kLanes> of_bank{};
    DistinctSet seen;
    for (unsigned lane = first; lane < first + together; ++lane) {
      if ((request.lanes >> lane & 1) == 0) continue;
      for (unsigned w = 0; w < words; ++w) {
        const std::uint64_t word = request.address[lane] / kBankBytes + w;
        if (seen.insert(word)) ++of_bank[word % kLanes];
      }
    }
    if (seen.size() == 0) continue;
    cost.wavefronts += *std::max_element(of_bank.begin(), of_bank.end());
    cost.least += (seen.size() + kLanes - 1) / kLanes;
  }
  return cost;
}

}  // namespace stages::simt
