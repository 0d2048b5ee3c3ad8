#pragma once
// Exec is where a plan runs: which device, which ranks, how work is timed there. The harness owns one;
// common/gpu and common/mpi derive their own. A plan receives it in prepare and may keep the reference.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stages {

/// What a device is doing, as its driver tells it. What it does not tell is empty.
struct DeviceState {
  std::string unknown = "this device does not tell of it";  ///< why all below is empty; empty where it is not
  std::optional<double> clock_mhz;
  std::optional<std::string>
      held_back;  ///< what keeps the clock below what it could be, as "heat"; "": nothing

  bool is_held_back() const { return held_back && !held_back->empty(); }
};

/// The ranks that run together; this base class is a world of one (see common/mpi). Every call is collective.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  virtual void barrier() {}
  /// Copies the `bytes` bytes at `data` on rank 0 to `data` on every rank.
  virtual void broadcast(void* /*data*/, std::size_t /*bytes*/) {}
  /// Rank 0's value, which may be a text or a vector of bytes, on every rank.
  template <class T>
  T agreed(T value) {
    if constexpr (requires { value.resize(0); }) {
      value.resize(agreed(value.size()));
      broadcast(value.data(), value.size());
    } else {
      broadcast(&value, sizeof value);
    }
    return value;
  }
  /// The largest `value` of all ranks, on all ranks.
  virtual double max(double value) { return value; }
};

/// Seconds spent under one name, as Phase objects reported them.
struct PhaseTime {
  std::string name;
  double seconds = 0;
};

/// Adds to the phase of that name.
void add_phase(std::vector<PhaseTime>& phases, std::string_view name, double seconds);

/// The host's CPU, one thread; the base of every other Exec.
class Exec {
 public:
  Exec();
  virtual ~Exec();
  Exec(const Exec&) = delete;
  Exec& operator=(const Exec&) = delete;

  /// The world of one rank, unless a derived class has more.
  virtual Communicator& communicator() { return alone_; }

  /// One line that names the device, for people.
  virtual std::string device() const;
  /// What else results should carry about the device: names and values.
  virtual std::vector<std::pair<std::string, std::string>> facts() const { return {}; }
  /// True where kernels run on the executor of common/simt: their times mean nothing and are not taken.
  virtual bool simulated() const { return false; }
  /// On the executor: kernels that run longer than that from now on, in seconds, are stopped, and the plan
  /// gets an exception. Infinite: no limit.
  virtual void limit_time(double /*seconds*/) {}
  /// Whether one was, since limit_time was called.
  virtual bool was_stopped() const { return false; }
  /// What the device is doing, or was some milliseconds ago; `now`: as it is.
  virtual DeviceState state(bool /*now*/ = false) { return {}; }
  /// Bytes that a plan may take where the user sets no limit: half of what is free now.
  virtual double memory_limit() const;
  /// Returns when all work submitted so far has ended.
  virtual void synchronize() {}
  /// Seconds that `work` takes, by the device's own clock; with several ranks the maximum over them.
  virtual double time(const std::function<void()>& work);
  /// Seconds for which the device was busy with each of some times that `work` was done, after `before` each
  /// time, until `enough` says so: traced, which may slow the host down, so nothing else is timed by it. With
  /// several ranks the maximum over them. Empty: why_not_traced() says why.
  virtual std::vector<double> trace(const std::function<void()>& /*before*/,
                                    const std::function<void()>& /*work*/,
                                    const std::function<bool(const std::vector<double>&)>& /*enough*/) {
    return {};
  }
  virtual std::string why_not_traced() const { return {}; }
  /// `run`, and then something that keeps the device busy for that share of its time: for tests of comparisons.
  virtual std::function<void()> slower(std::function<void()> run, double /*share*/) { return run; }
  /// `run` in the form in which it will be timed: as it is, or (a GPU in graph mode) recorded and replayed.
  virtual std::function<void()> record(std::function<void()> run) { return run; }
  /// Evicts what the caches hold, so that the next run starts cold.
  virtual void flush_caches();
  /// Bytes a second, read plus written, of a large copy on this device by one plan's share of it (on the
  /// host: one thread). Measured at the first call, and at the first with
  /// `again`: then it is the larger of both.
  double copy_bandwidth(bool again = false);

  /// The phases reported since clear_phases(), in order of first use.
  const std::vector<PhaseTime>& phases() const { return phases_; }
  /// Forgets all phases that have ended, those that are only reported later (a GPU's) too.
  virtual void clear_phases() { phases_.clear(); }

 protected:
  friend class Phase;
  virtual void begin_phase(std::string_view name);
  virtual void end_phase();
  void add_phase_time(std::string_view name, double seconds) { add_phase(phases_, name, seconds); }
  virtual double measure_copy_bandwidth();

 private:
  Communicator alone_;
  std::vector<PhaseTime> phases_;
  std::vector<std::pair<std::string, double>> open_phases_;  ///< names, and when they began, in seconds
  double copy_bandwidth_ = 0;
  int copies_ = 0;
  std::vector<char> flush_area_;
};

/// Names a part of a plan's work while it is in scope: `Phase phase(exec, "symbolic");`
class Phase {
 public:
  Phase(Exec& exec, std::string_view name) : exec_(exec) { exec_.begin_phase(name); }
  ~Phase() { exec_.end_phase(); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  Exec& exec_;
};

}  // namespace stages
