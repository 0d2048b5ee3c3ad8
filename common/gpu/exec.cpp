#include "common/gpu/exec.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>

#include "common/gpu/library.hpp"
#include "common/gpu/nvml.hpp"
#include "common/gpu/trace.hpp"
#include "common/harness/clock.hpp"
#include "common/harness/seconds.hpp"

#if !STAGES_SIMULATED
#include <cuda_profiler_api.h>
#endif

namespace stages {

void spin_on(cudaStream_t stream, long long cycles);  // probe.cu

namespace {

constexpr double kNoiseOfWaiting = 2e-5;  ///< seconds

/// One run that a profiler sees which was told to wait for it. Does nothing unless STAGES_PROFILE asks for
/// it, nor on the executor, which no profiler watches.
void show_to_profiler([[maybe_unused]] const std::function<void()>& run, [[maybe_unused]] Stream& stream) {
#if !STAGES_SIMULATED
  if (std::getenv("STAGES_PROFILE") == nullptr) return;
  stream.synchronize();
  STAGES_CUDA(cudaProfilerStart());
  run();
  stream.synchronize();
  STAGES_CUDA(cudaProfilerStop());
#endif
}

/// Seconds for which streams that nobody waited for go on after the plan's own has ended. Two waits, because a
/// device at rest takes its time to say so, too; what is shorter than the noise of that is none.
double seconds_of_other_streams() {
  if (STAGES_SIMULATED) return 0;
  const auto wait = [] {
    const auto start = std::chrono::steady_clock::now();
    STAGES_CUDA(cudaDeviceSynchronize());
    return seconds_since(start);
  };
  const double first = wait(), at_rest = wait();
  return first - at_rest > kNoiseOfWaiting ? first - at_rest : 0;
}

/// Of one of CUDA's libraries, as "12.6.3"; empty where this program is built without it.
std::string version_of(const char* library) {
  auto* const property =
      function_of<int(int, int*)>(RTLD_DEFAULT, fmt::format("{}GetProperty", library).c_str());
  std::array<int, 3> parts = {};  // major, minor, patch
  for (int k = 0; k < 3; ++k)
    if (property == nullptr || property(k, &parts[static_cast<std::size_t>(k)]) != 0) return {};
  return fmt::format("{}", fmt::join(parts, "."));
}

}  // namespace

GpuExec::~GpuExec() = default;

GpuExec::GpuExec(Launch launch) : launch_(launch) {
  if (const std::string problem = device_problem(); !problem.empty()) {
    fail("no kernel can run here: {}; use the preset cpu, whose executor needs no GPU", problem);
  }
  if (!simulated()) nvml_ = std::make_unique<Nvml>(device_facts().uuid);
}

std::string GpuExec::device() const { return device_facts().name; }

std::vector<std::pair<std::string, std::string>> GpuExec::facts() const {
  const DeviceFacts& f = device_facts();
  std::vector<std::pair<std::string, std::string>> facts = {
      {"gpu_compute_capability", fmt::format("{}.{}", f.cc_major, f.cc_minor)},
      {"gpu_code", fmt::format("{}.{}", code_capability() / 10, code_capability() % 10)},
      {"gpu_sms", fmt::format("{}", f.sms)},
      {"gpu_threads_per_sm", fmt::format("{}", f.max_threads_per_sm)},
      {"gpu_registers_per_sm", fmt::format("{}", f.registers_per_sm)},
      {"gpu_shared_bytes_per_sm", fmt::format("{}", f.shared_per_sm)},
      {"gpu_l2_bytes", fmt::format("{}", f.l2_bytes)},
      {"gpu_shared_bytes_per_block", fmt::format("{}", f.shared_per_block_optin)},
      {"gpu_memory_bytes", fmt::format("{}", f.memory_bytes)},
      {"gpu_driver", fmt::format("{}.{}", f.driver_version / 1000, f.driver_version % 1000 / 10)},
      {"gpu_runtime", fmt::format("{}.{}", f.runtime_version / 1000, f.runtime_version % 1000 / 10)},
      {"gpu_launch", launch_ == Launch::graph ? "graph" : "single"},
  };
  for (const char* const library : {"cusparse", "cublas"})
    if (const std::string version = version_of(library); !version.empty())
      facts.emplace_back(library, version);
  if (nvml_) {
    if (const std::string version = nvml_->driver(); !version.empty())
      facts.emplace_back("gpu_driver_version", version);
    if (const auto mhz = nvml_->most_clock_mhz())
      facts.emplace_back("gpu_most_clock_mhz", fmt::format("{:.0f}", *mhz));
    if (const auto watts = nvml_->limit_watts())
      facts.emplace_back("gpu_limit_watts", fmt::format("{:.0f}", *watts));
  }
  return facts;
}

DeviceState GpuExec::state(bool now) { return nvml_ ? nvml_->state(now) : Exec::state(now); }

bool GpuExec::simulated() const { return device_facts().simulated; }

double GpuExec::memory_limit() const { return 0.9 * static_cast<double>(free_device_bytes()); }

double GpuExec::time(const std::function<void()>& work) {
  synchronize();
  communicator().barrier();
  timer_.start(stream_);
  work();
  timer_.stop(stream_);
  const double seconds = timer_.seconds().value_or(0) + seconds_of_other_streams();
  collect_phases();
  return communicator().max(seconds);
}

std::vector<double> GpuExec::trace(const std::function<void()>& before, const std::function<void()>& work,
                                   const std::function<bool(const std::vector<double>&)>& enough) {
  if (simulated()) return {};
  std::vector<double> busy;
  DeviceTrace trace;
  while (communicator().max(trace.problem().empty() ? 0 : 1) == 0 && !enough(busy)) {
    before();
    synchronize();
    communicator().barrier();
    busy.push_back(communicator().max(trace.busy_seconds([&] {
      work();
      STAGES_CUDA(cudaDeviceSynchronize());
    })));
  }
  not_traced_ = trace.problem();
  if (communicator().max(not_traced_.empty() ? 0 : 1) > 0) busy.clear();
  return busy;
}

std::function<void()> GpuExec::slower(std::function<void()> run, [[maybe_unused]] double share) {
#if !STAGES_SIMULATED
  const auto least = [&](const std::function<void()>& work) {
    const auto enough = [](const std::vector<double>& busy) { return busy.size() >= 5; };
    const Summary times = summarize(trace([] {}, work, enough));
    if (times.samples.empty()) fail("STAGES_SLOWER: {}", not_traced_);
    return times.min;
  };
  constexpr long long kFew = 10'000, kMany = 110'000;
  const double few = least([&] { spin_on(stream_, kFew); }), many = least([&] { spin_on(stream_, kMany); });
  const double one = (many - few) / (kMany - kFew), beside = few - kFew * one;
  const auto cycles = static_cast<long long>(std::max(0.0, share * least(run) - beside) / one);
  run = [run = std::move(run), cycles, this] {
    run();
    spin_on(stream_, cycles);
  };
#endif
  return run;
}

std::function<void()> GpuExec::record(std::function<void()> run) {
  if (launch_ == Launch::graph) {
    auto graph = std::make_shared<Graph>(Graph::capture(stream_, run));
    run = [graph, this] { graph->replay(stream_); };
  }
  show_to_profiler(run, stream_);
  return run;
}

void GpuExec::flush_caches() {
#if !STAGES_SIMULATED
  // What a program had L2 keep would outlast the flush.
  static const int kept = [] {
    int device = 0, bytes = 0;
    STAGES_CUDA(cudaGetDevice(&device));
    STAGES_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxPersistingL2CacheSize, device));
    return bytes;
  }();
  STAGES_CUDA(cudaDeviceSynchronize());
  if (kept > 0) STAGES_CUDA(cudaCtxResetPersistingL2Cache());
#endif
  if (flush_area_.empty())
    flush_area_ = DeviceArray<unsigned char>(std::max<std::size_t>(1, 2 * device_facts().l2_bytes));
  flush_area_.zero(stream_);
}

void GpuExec::begin_phase(std::string_view name) {
  if (spare_.empty()) spare_.push_back(std::make_unique<OpenPhase>());
  auto phase = std::move(spare_.back());
  spare_.pop_back();
  phase->name = name;
  phase->timer.start(stream_);
  open_.push_back(std::move(phase));
}

void GpuExec::end_phase() {
  if (std::uncaught_exceptions() > 0) {  // the stream may be in no state to take an event
    open_.pop_back();
    return;
  }
  open_.back()->timer.stop(stream_);
  closed_.push_back(std::move(open_.back()));
  open_.pop_back();
}

void GpuExec::collect_phases() {
  for (auto& phase : closed_) add_phase_time(phase->name, phase->timer.seconds().value_or(0));
  reuse_closed();
}

void GpuExec::clear_phases() {
  Exec::clear_phases();
  reuse_closed();
}

void GpuExec::reuse_closed() {
  std::move(closed_.begin(), closed_.end(), std::back_inserter(spare_));
  closed_.clear();
}

double GpuExec::measure_copy_bandwidth() { return copy_bytes_per_second(); }

GpuExec& as_gpu(Exec& exec) {
  auto* const gpu = dynamic_cast<GpuExec*>(&exec);
  if (gpu == nullptr)
    fail("a GPU entry was prepared on '{}'; mark it .needs = {{.gpu = true}}", exec.device());
  return *gpu;
}

}  // namespace stages
