#pragma once
// Programs that are not trusted: a student's, and the compiler that reads his file. They run without network,
// without the files of others, as a user of their own where the judge is root, within limits, and nothing of
// what they start stays behind.
//
// bubblewrap gives each an empty root directory with what it may see, and its own network, processes and
// users. Where it is not there, or may not make namespaces, the limits and the other user remain, and note()
// says what does not.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/matrix/descriptor.hpp"

namespace stages::judge {

/// How programs are confined here. Found out once, at the beginning. This process becomes the parent of
/// whatever they leave behind, and no debugger of theirs can look into it.
class Confinement {
 public:
  /// Throws Error where STAGES_BWRAP names what is not there.
  Confinement();
  ~Confinement();
  Confinement(const Confinement&) = delete;
  Confinement& operator=(const Confinement&) = delete;

  /// What is not kept from a student's program here; empty: nothing of what is said above.
  const std::string& note() const { return note_; }
  bool has_bwrap() const { return !bwrap_.empty(); }
  const std::string& bwrap() const { return bwrap_; }
  bool bwrap_sizes() const { return bwrap_sizes_; }

  /// The user that programs run as; where this process is not root its own.
  uid_t user() const { return user_; }
  bool other_user() const { return other_user_; }
  /// Lets that user have a file or directory of this process.
  void give(const std::filesystem::path& path) const;

  /// Ends everything that this process has started, and what that has started.
  void end_all() const;

 private:
  void take_user();
  void find_bwrap();

  uid_t user_ = 0;
  bool other_user_ = false;
  Descriptor user_lock_;  ///< a socket whose name says that the user is taken
  std::string bwrap_;
  bool bwrap_sizes_ = false;  ///< whether it can limit the size of what is written to memory
  std::string note_;
};

struct Limits {
  double memory = 0;         ///< bytes resident, of all its processes together; 0: any
  double address_space = 0;  ///< bytes, of each; 0: any
  double file = 256e6;       ///< bytes of each file that it writes
  double disk = 1e9;         ///< bytes that all its processes have written to a disk
  double output = 16e6;      ///< bytes on stdout and stderr
};

struct Command {
  std::vector<std::string> words;                                ///< the program and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  ///< all of it, but for PATH and HOME
  std::filesystem::path directory;                               ///< where it works
  std::vector<std::filesystem::path> reads;   ///< what it sees beside the system's programs
  std::vector<std::filesystem::path> writes;  ///< and may write
  std::filesystem::path home;  ///< where it may leave files without bubblewrap; with it they go to memory
  bool gpu = false;            ///< needs the devices of an NVIDIA GPU
  bool ours = false;  ///< no student's: it is watched and ended like one, and nothing is kept from it
  Limits limits;
};

/// A program at work, with all that it starts.
class Confined {
 public:
  /// Throws Error where it cannot be started.
  Confined(const Confinement& confinement, const Command& command);
  ~Confined();
  Confined(const Confined&) = delete;
  Confined& operator=(const Confined&) = delete;

  enum class Event { ready, ended, too_late, too_much_memory, too_much_disk, too_much_output };
  using Clock = std::chrono::steady_clock;

  /// Waits until `descriptor` is ready for `events` of poll(2) (-1: for nothing but its end), or something
  /// else happens.
  Event wait(int descriptor, short events, Clock::time_point until);

  /// Ends it, and all that it started.
  void end();

  /// After Event::ended: how. `signal` is 0 unless one ended it.
  int exit_code() const { return exit_code_; }
  int signal() const { return signal_; }
  /// The beginning and the end of what it said, at most a megabyte.
  const std::string& output() const { return output_; }

 private:
  void read_output();
  bool look();
  Event too_much();

  const Confinement& confinement_;
  Limits limits_;
  pid_t child_ = -1;
  Descriptor pipe_;
  bool ended_ = false;
  int exit_code_ = 0;
  int signal_ = 0;
  std::string output_;
  bool silent_ = false;            ///< nobody can say anything more
  double written_ = 0;             ///< bytes of output, those that were not kept among them
  std::map<pid_t, double> wrote_;  ///< bytes that each of its processes had written to a disk
  Clock::time_point looked_{};
};

/// The directory of bin/, lib/ and the rest that such a program belongs to; empty: it is the system's.
std::filesystem::path installed_in(const std::string& name);

}  // namespace stages::judge
