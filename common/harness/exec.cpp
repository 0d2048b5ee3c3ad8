#include "common/harness/exec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "common/harness/machine.hpp"
#include "common/harness/seconds.hpp"
#include "common/matrix/memory.hpp"

namespace stages {

Exec::Exec() = default;
Exec::~Exec() = default;

std::string Exec::device() const { return fmt::format("{}, one thread", cpu_name()); }

double Exec::memory_limit() const { return static_cast<double>(available_memory()) / 2; }

double Exec::time(const std::function<void()>& work) {
  synchronize();
  communicator().barrier();
  const auto start = std::chrono::steady_clock::now();
  work();
  synchronize();
  return communicator().max(seconds_since(start));
}

void Exec::flush_caches() {
  // Twice the largest last-level cache that this core can see, written so that the lines are owned here.
  if (flush_area_.empty())
    flush_area_.assign(static_cast<std::size_t>(beyond_caches(2, 64.0 * (1 << 20))), 0);
  for (std::size_t i = 0; i < flush_area_.size(); i += 64) ++flush_area_[i];
}

double Exec::copy_bandwidth(bool again) {
  if (copies_ == 0 || (again && copies_ == 1)) {
    ++copies_;
    copy_bandwidth_ = std::max(copy_bandwidth_, measure_copy_bandwidth());
  }
  return copy_bandwidth_;
}

double Exec::measure_copy_bandwidth() {
  // Four times the last-level cache (at least 128 MiB), so that the copy runs from memory to memory; the best
  // of seven, because anything else on the machine only ever slows a copy down.
  const auto bytes = static_cast<std::size_t>(beyond_caches(4, 128.0 * (1 << 20)));
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  double best = 0;
  for (int i = 0; i < 7; ++i) {
    const double seconds = Exec::time([&] { std::memcpy(to.data(), from.data(), bytes); });
    best = std::max(best, 2.0 * static_cast<double>(bytes) / seconds);
  }
  return best;
}

void Exec::begin_phase(std::string_view name) { open_phases_.emplace_back(name, seconds_since({})); }

void Exec::end_phase() {
  const auto [name, start] = open_phases_.back();
  open_phases_.pop_back();
  add_phase_time(name, seconds_since({}) - start);
}

void add_phase(std::vector<PhaseTime>& phases, std::string_view name, double seconds) {
  auto found = std::ranges::find(phases, name, &PhaseTime::name);
  if (found == phases.end()) found = phases.insert(found, {std::string(name), 0});
  found->seconds += seconds;
}

}  // namespace stages
