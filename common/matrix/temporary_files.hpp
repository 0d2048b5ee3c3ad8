#pragma once
// Files beside the results, which are to be gone when the program is: also where a signal ends it.

#include <string>

namespace stages {

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

/// A new directory, NAME-XXXXXX, where temporary files go: in TMPDIR, or what stands for it. It is removed with
/// this object, and with all that is in it.
class TemporaryDirectory {
 public:
  /// Removes those of processes that were killed first. Throws Error if it cannot be made.
  explicit TemporaryDirectory(const std::string& name);
  ~TemporaryDirectory() { clear(); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return name_.path(); }
  /// Removes what is in it.
  void clear() const;

 private:
  TemporaryName name_;
};

/// Removes what all TemporaryNames name, the newest first. May be called by a signal handler, and nothing
/// else may follow but the end of the process.
void remove_temporary_files();

}  // namespace stages
