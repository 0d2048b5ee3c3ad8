#include "common/lens/recording/request.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace stages::simt {

Sectors::Sectors(const Request& request) {
  bool rising = true;  // as they mostly do: then none is there twice
  std::int64_t before = -1;
  const auto add = [&](std::uint64_t sector) {
    const auto next = static_cast<std::int64_t>(sector);
    sector_[size_] = sector;
    size_ += static_cast<unsigned>(next != before);
    rising &= next >= before;
    before = next;
  };
  each_lane(request.lanes, [&](unsigned lane) {
    const std::uint64_t first = request.address[lane] / kSectorBytes;
    const std::uint64_t last = (request.address[lane] + request.bytes - 1) / kSectorBytes;
    add(first);
    if (last == first) [[likely]]
      return;
    one_each_ = false;
    for (std::uint64_t sector = first + 1; sector <= last; ++sector) add(sector);
  });
  if (!rising) {
    DistinctSet seen;
    const unsigned all = std::exchange(size_, 0);
    for (unsigned i = 0; i < all; ++i)
      if (seen.insert(sector_[i])) sector_[size_++] = sector_[i];
  }
  one_each_ &= size_ == static_cast<unsigned>(std::popcount(request.lanes));
}

unsigned lanes_that_meet(const Request& request) {
  const auto lanes = static_cast<unsigned>(std::popcount(request.lanes));
  bool rising = true, alike = true;
  std::uint64_t last = request.address[first_lane(request.lanes)];
  each_lane(request.lanes & (request.lanes - 1), [&](unsigned lane) {
    rising &= request.address[lane] > last;
    alike &= request.address[lane] == last;
    last = request.address[lane];
  });
  if (rising) return 0;
  if (alike) return lanes - 1;
  DistinctSet addresses;
  each_lane(request.lanes, [&](unsigned lane) { addresses.insert(request.address[lane]); });
  return lanes - addresses.size();
}

namespace {

/// Whether all lanes that take part want the same as lane ^ 1, or all the same as lane ^ 2, if that takes part.
bool come_in_pairs(const Request& request) {
  const auto paired_at = [&](unsigned distance) {
    bool alike = true;
    each_lane(request.lanes, [&](unsigned lane) {
      const unsigned other = lane ^ distance;
      alike &= (request.lanes >> other & 1) == 0 || request.address[lane] == request.address[other];
    });
    return alike;
  };
  return paired_at(1) || paired_at(2);
}

}  // namespace

SharedCost shared_cost(const Request& request) {
  const unsigned words = std::max(1u, request.bytes / static_cast<unsigned>(kBankBytes));
  unsigned together = kLanes / std::min(words, kLanes);  // lanes that are answered at once
  if (words > 1 && request.access == Access::load && come_in_pairs(request)) together *= 2;
  const bool is_atomic = request.access > Access::store;
  SharedCost cost;
  for (unsigned first = 0; first < kLanes; first += together) {
    std::array<std::uint8_t, kLanes> of_bank{};
    DistinctSet seen;
    for (unsigned lane = first; lane < first + together; ++lane) {
      if ((request.lanes >> lane & 1) == 0) continue;
      for (unsigned w = 0; w < words; ++w) {
        const std::uint64_t next = request.address[lane] / kBankBytes + w;
        const bool is_new = seen.insert(next);
        if (is_new || is_atomic) ++of_bank[next % kLanes];
      }
    }
    if (seen.size() == 0) continue;
    if (request.access == Access::swap_loop) {  // one lane a bank, whoever else stands there
      ++cost.wavefronts;
      ++cost.least;
      continue;
    }
    cost.wavefronts += *std::max_element(of_bank.begin(), of_bank.end());
    cost.least += (seen.size() + kLanes - 1) / kLanes;
  }
  if (request.access >= Access::compare_swap) {
    cost.wavefronts *= 2;
    cost.least *= 2;
  }
  return cost;
}

void swap_rounds(Request request, const std::function<void(const Request&, bool)>& visit) {
  for (bool again = false; request.lanes != 0; again = true) {
    for (const Access access : {Access::load, Access::swap_loop}) {
      request.access = access;
      visit(request, again);
    }
    std::array<bool, 2 * kLanes> taken{};  // banks, of each half of the warp where lanes take 8 bytes
    DistinctSet changed;
    each_lane(request.lanes, [&](unsigned lane) {
      const unsigned half = request.bytes == 8 ? lane / (kLanes / 2) : 0;
      bool& bank = taken[half * kLanes + request.address[lane] / kBankBytes % kLanes];
      if (!bank && changed.insert(request.address[lane])) request.lanes &= ~(1u << lane);
      bank = true;
    });
  }
}

}  // namespace stages::simt
