#pragma once
// Files that are complete or not there.

#include <memory>
#include <string>
#include <string_view>

namespace stages {

/// A file that appears under its name only when it is complete: bytes go to a temporary file in the same
/// directory, which commit() syncs and renames; without commit(), or on an error, it is removed. A name that
/// ends in ".gz" is compressed. A name that is already there and is no regular file (a device, a pipe) is
/// written directly, and so is a stream of this process such as /dev/stdout. All members throw Error, which
/// names the path.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stages
