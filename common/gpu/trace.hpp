#pragma once
// For how long the GPU is busy: NVIDIA's library CUPTI tells of each kernel, copy and set when it began and
// ended on the device.

#include <functional>
#include <string>

namespace stages {

/// Tracing, as long as it lives, one at a time. A launch then takes longer: on an H200 5.5 us in place of 4.5,
/// and 4.5 again once it is gone.
class DeviceTrace {
 public:
  /// `library`: that of this name alone; empty: CUPTI where it mostly lies.
  explicit DeviceTrace(const std::string& library = "");
  ~DeviceTrace();
  DeviceTrace(const DeviceTrace&) = delete;
  DeviceTrace& operator=(const DeviceTrace&) = delete;

  /// Why nothing is traced; empty: it is.
  const std::string& problem() const { return problem_; }

  /// Seconds in which the device did at least one thing for `work`, which returns when all of them have ended.
  double busy_seconds(const std::function<void()>& work);

 private:
  /// Calls CUPTI's function of that name; a code that is not 0 becomes the problem.
  template <class... Arguments>
  void call(const char* name, Arguments... arguments);

  void* library_ = nullptr;
  std::string problem_;
};

}  // namespace stages
