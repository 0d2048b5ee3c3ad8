#pragma once
// Files beside the results, which are to be gone when the program is: also where a signal ends it.

#include <string>

namespace stages {

/// The path of a new directory, NAME-XXXXXX, where temporary files go: in TMPDIR, or what stands for it.
/// Those of processes that were killed are removed first. Throws Error if it cannot be made.
std::string new_temporary_directory(const std::string& name);

/// A name of a file, or of a directory that is empty by then, which is removed with this object. While it
/// lives, remove_temporary_files removes it, too; so it comes before the file.
class TemporaryName {
 public:
  explicit TemporaryName(std::string path);
  ~TemporaryName();
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;

  const std::string& path() const { return path_; }

  /// What has this name stays: it is somebody else's.
  void forget();

 private:
  std::string path_;
  int slot_;  ///< in the list for signal handlers; -1: it was full
};

/// Removes what all TemporaryNames name, the newest first. May be called by a signal handler, and nothing
/// else may follow but the end of the process.
void remove_temporary_files();

}  // namespace stages
