// Reads random sectors of an array that fits L2 well, and is several times as large as all L1 caches.

#include "08_spgemm_multigpu/fast/gather.hpp"

#include <algorithm>

#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = 256;
constexpr unsigned kWordsOfSector = 8;
constexpr unsigned kReads = 64;  ///< of a thread

/// The sum goes to `sink` where it is one value of 2^32, so that the loads are not optimised away.
__global__ void __launch_bounds__(kBlock)
    read_sectors(const unsigned* words, unsigned sectors, unsigned* sink) {
  const unsigned me = blockIdx.x * kBlock + threadIdx.x, team = me / kWordsOfSector;
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned r = 0; r < kReads; ++r) {
    const unsigned mixed = (team * kReads + r) * 0x9E3779B1u;
    const unsigned sector = __umulhi((mixed ^ mixed >> 15) * 0x85EBCA77u, sectors);
    sum += words[sector * kWordsOfSector + me % kWordsOfSector];
  }
  if (sum == 0xDEADBEEFu) *sink = sum;
}

double measure() {
  const auto sectors = static_cast<unsigned>(device_facts().l2_bytes / 3 / 32);
  DeviceArray<unsigned> words(std::size_t{sectors} * kWordsOfSector), sink(1);
  const Stream stream;
  const EventTimer timer;
  words.zero(stream);
  const auto blocks = static_cast<unsigned>(device_facts().sms) * 64;
  double rate = 0;
  for (int run = 0; run < 8; ++run) {
    timer.start(stream);
    launch(read_sectors, {.grid = blocks, .block = kBlock, .stream = stream}, words.data(), sectors,
           sink.data());
    timer.stop(stream);
    const double bytes = static_cast<double>(std::size_t{blocks} * kBlock * kReads * sizeof(unsigned));
    rate = std::max(rate, bytes / timer.seconds().value_or(1e30));
  }
  return rate;
}

}  // namespace

std::optional<double> gather_bytes_per_second() {
  if (STAGES_SIMULATED) return std::nullopt;
  static const double best = measure();
  return best;
}

}  // namespace stages::spgemm
