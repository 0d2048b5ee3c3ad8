#pragma once
// MPI for as long as an object lives, and the one way out when something fails.

#include <mpi.h>

#include <atomic>
#include <string>
#include <string_view>

namespace stages::mpi {

/// Starts MPI, and ends it. One per process. While an exception leaves the scope of a Session, its ranks
/// would wait for this one for ever; so the destructor then ends all of them.
class Session {
 public:
  /// Throws Error if MPI cannot be started, or was started before.
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Why the ranks of this node share no memory: then nothing but abort() may follow. Empty: they do.
  const std::string& problem() const { return problem_; }

  /// Ends all ranks with exit code `code`. `message` goes to stderr as it is; if several ranks of a node fail
  /// at once (all of them read the same bad argument), only the first one's does.
  [[noreturn]] void abort(std::string_view message, int code);

 private:
  bool first_to_speak();

  int rank_ = 0, size_ = 1;
  int exceptions_at_start_;
  MPI_Comm node_ = MPI_COMM_NULL;
  std::string problem_;
  MPI_Win speaker_window_ = MPI_WIN_NULL;
  std::atomic<int>* speaker_ = nullptr;  ///< shared by the ranks of a node: how many have failed
};

/// Ranks of MPI_COMM_WORLD; 1 while MPI is not running.
int world_size();

}  // namespace stages::mpi
