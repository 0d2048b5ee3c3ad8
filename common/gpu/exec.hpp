#pragma once
// The GPU as a place where plans run: one stream, times by events, phases by events, graphs where asked for.
// Under the cpu preset the same class drives the executor, whose times mean nothing and are not taken.

#include <limits>
#include <memory>

#include "common/gpu/facts.hpp"
#include "common/gpu/memory.hpp"
#include "common/gpu/stream.hpp"
#include "common/harness/exec.hpp"

namespace stages {

/// How the kernels of a timed run reach the GPU.
enum class Launch {
  single,  ///< one by one, as the plan launches them
  graph,   ///< recorded once in a CUDA graph, which is then replayed
};

class Nvml;  // nvml.hpp

class GpuExec : public Exec {
 public:
  /// On the current device. Throws Error where no kernel can run; device_problem() tells beforehand.
  explicit GpuExec(Launch launch = Launch::single);
  ~GpuExec() override;

  /// The stream that all of a plan's work goes to.
  cudaStream_t stream() const { return stream_; }

  std::string device() const override;
  std::vector<std::pair<std::string, std::string>> facts() const override;
  bool simulated() const override;
  DeviceState state(bool now = false) override;
  /// 90 % of the device memory that is free now.
  double memory_limit() const override;
  void synchronize() override { stream_.synchronize(); }
  /// Seconds from event to event on the stream, the host's launching included, and until the other streams
  /// are done, too. 0 on the executor.
  double time(const std::function<void()>& work) override;
  std::vector<double> trace(const std::function<void()>& before, const std::function<void()>& work,
                            const std::function<bool(const std::vector<double>&)>& enough) override;
  std::string why_not_traced() const override { return not_traced_; }
  /// Of the time for which the device is busy with it; a kernel spins.
  std::function<void()> slower(std::function<void()> run, double share) override;
  /// In graph mode: captures `run`, and gives back its replay. Throws Error if `run` does what a capture
  /// cannot hold (allocation, synchronisation). Where STAGES_PROFILE is set, what comes out runs once at
  /// once, between cudaProfilerStart and cudaProfilerStop, so that a profiler can look at one run and at no
  /// more.
  std::function<void()> record(std::function<void()> run) override;
  /// Empties L2 of the operands by writing twice its size of other memory.
  void flush_caches() override;
  void clear_phases() override;

  /// Bytes a second that the GPUs of all processes together copy to page-locked memory, all at once; NaN
  /// where it was not measured.
  virtual double to_host_bytes_per_second() const { return std::numeric_limits<double>::quiet_NaN(); }

  /// Whether other processes work on this GPU too.
  virtual bool is_shared() const { return false; }
  /// Does `work` with the GPU to itself: processes that share one take turns, and return when all have had
  /// theirs. Collective over the processes.
  virtual void alone(const std::function<void()>& work) { work(); }

 protected:
  void begin_phase(std::string_view name) override;
  void end_phase() override;
  double measure_copy_bandwidth() override;
  /// Adds the phases that have ended; waits for their events.
  void collect_phases();

 private:
  struct OpenPhase {
    std::string name;
    EventTimer timer;
  };
  /// The events of all phases that have ended serve again.
  void reuse_closed();

  Launch launch_;
  Stream stream_;
  EventTimer timer_;
  DeviceArray<unsigned char> flush_area_;  ///< of flush_caches()
  std::string not_traced_;
  std::unique_ptr<Nvml> nvml_;                      ///< not on the executor
  std::vector<std::unique_ptr<OpenPhase>> open_;    ///< begun and not ended
  std::vector<std::unique_ptr<OpenPhase>> closed_;  ///< ended, not yet read
  std::vector<std::unique_ptr<OpenPhase>> spare_;   ///< their events serve again
};

/// The GpuExec behind an Exec that the harness hands to a plan of a GPU stage. Throws Error if it is none.
GpuExec& as_gpu(Exec& exec);

}  // namespace stages
