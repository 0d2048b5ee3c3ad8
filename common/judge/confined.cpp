#include "common/judge/confined.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/cli/machines/child.hpp"
#include "common/judge/processes.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/processors.hpp"

namespace stages::judge {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr uid_t kFirstUser = 61000, kUsers = 400;  ///< free for use by programs on Debian and its kin
constexpr std::size_t kMostOutput = 1'000'000;
constexpr auto kLook = milliseconds(100);  ///< at what all processes take
constexpr int kMostProcesses = 256;        ///< and threads, beyond eight for each processor

/// Removes what a user has left where everybody may leave files.
void remove_files_of(uid_t user) {
  for (const char* const place : {"/tmp", "/var/tmp", "/dev/shm"}) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(place, none)) {
      struct stat status {};
      if (lstat(entry.path().c_str(), &status) == 0 && status.st_uid == user)
        fs::remove_all(entry.path(), none);
    }
  }
}

void set_limit(int resource, double most) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return;
  const auto wanted = static_cast<rlim_t>(most);
  limit.rlim_max = std::min(limit.rlim_max, wanted);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
}

/// Becomes that user for good, with no group but its own.
bool become_user(uid_t user) {
  return setgroups(0, nullptr) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
}

/// Has a child do `work` that has become the user. Returns whether it could.
template <class Work>
bool as_user(uid_t user, Work work) {
  const pid_t child = fork();
  if (child == 0) {
    if (!become_user(user)) _exit(1);
    work();
    _exit(0);
  }
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0;
}

/// The directories that a program of the system needs.
std::vector<std::string> system_directories() {
  std::vector<std::string> words;
  for (const char* const name : {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}) {
    std::error_code none;
    if (fs::is_symlink(name, none)) {
      words.insert(words.end(), {"--symlink", fs::read_symlink(name, none).string(), name});
    } else if (fs::exists(name, none)) {
      words.insert(words.end(), {"--ro-bind", name, name});
    }
  }
  words.insert(words.end(), {"--ro-bind", "/usr", "/usr"});
  for (const char* const name :
       {"/opt", "/nix", "/gnu", "/sys", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
        "/etc/alternatives", "/etc/openmpi", "/etc/mpich", "/etc/libibverbs.d"})
    words.insert(words.end(), {"--ro-bind-try", name, name});
  return words;
}

/// The words before those of a command that make bubblewrap confine it.
std::vector<std::string> bwrap_words(const std::string& bwrap, bool sizes, const Command& command) {
  std::vector<std::string> words = {bwrap,           "--unshare-all", "--die-with-parent",
                                    "--new-session", "--cap-drop",    "ALL"};
  const std::vector<std::string> system = system_directories();
  words.insert(words.end(), system.begin(), system.end());
  words.insert(words.end(), {"--proc", "/proc", "--dev", "/dev"});
  for (const char* const place : {"/dev/shm", "/tmp"}) {
    if (sizes) words.insert(words.end(), {"--size", fmt::format("{:.0f}", command.limits.file)});
    words.insert(words.end(), {"--tmpfs", place});
  }
  if (command.gpu) {
    std::error_code none;
    for (const auto& device : fs::directory_iterator("/dev", none)) {
      if (const std::string name = device.path().filename(); name.starts_with("nvidia") || name == "dxg")
        words.insert(words.end(), {"--dev-bind", device.path().string(), device.path().string()});
    }
  }
  std::vector<fs::path> reads = command.reads;
  for (const auto& [name, value] : command.environment) {
    std::istringstream places(name == "LD_LIBRARY_PATH" ? value : "");
    for (std::string place; std::getline(places, place, ':');)
      if (place.starts_with('/')) reads.push_back(place);
  }
  for (const fs::path& path : reads)
    words.insert(words.end(), {"--ro-bind-try", path.string(), path.string()});
  for (const fs::path& path : command.writes)
    words.insert(words.end(), {"--bind", path.string(), path.string()});
  words.insert(words.end(), {"--chdir", command.directory.string(), "--"});
  return words;
}

/// Whether root is somebody else in truth, as in `unshare -r` and in containers of those who are not root.
bool root_by_name_only() {
  std::ifstream map("/proc/self/uid_map");
  unsigned inside = 0, outside = 0;
  return map >> inside >> outside && outside != 0;
}

}  // namespace

std::filesystem::path installed_in(const std::string& name) {
  const fs::path program = found_on_path(name);
  const fs::path place = program.parent_path().parent_path();
  return place.has_relative_path() && place != "/usr" ? place : fs::path();
}

Confinement::Confinement() : user_(geteuid()) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_DUMPABLE, 0);
  if (user_ == 0) take_user();
  find_bwrap();
}

Confinement::~Confinement() { end_all(); }

/// A user that nobody else is, so that all of its processes can be ended.
void Confinement::take_user() {
  for (uid_t user = kFirstUser; user < kFirstUser + kUsers; ++user) {
    user_lock_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (user_lock_.get() < 0) fail("no socket can be had: {}; close other programs", std::strerror(errno));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = fmt::format("stages-grade-{}", user);  // behind a 0: no file, gone with us
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const auto* const name_of_it = reinterpret_cast<const sockaddr*>(&address);
    if (bind(user_lock_.get(), name_of_it, length) != 0 || tasks_of(user) > 0) continue;
    const bool can = as_user(user, [] {});
    if (!can && root_by_name_only()) return;
    if (!can)
      fail(
          "root cannot become user {} here, and runs no student's program itself: give the container the "
          "capabilities "
          "SETUID and SETGID, or grade as another user",
          user);
    user_ = user;
    other_user_ = true;
    return;
  }
  fail("the users {} to {} are all taken; end other graders", kFirstUser, kFirstUser + kUsers - 1);
}

void Confinement::find_bwrap() {
  const char* const wanted = std::getenv("STAGES_BWRAP");
  const std::string name = wanted != nullptr ? wanted : "bwrap";
  std::string why = "bubblewrap (bwrap) is not installed";
  if (name == "none") {
    why = "STAGES_BWRAP is none";
  } else if (const std::string path = found_on_path(name); !path.empty()) {
    Command command{.words = {path, "--help"}, .directory = "/"};
    const auto soon = [] { return Confined::Clock::now() + std::chrono::seconds(10); };
    {
      Confined help(*this, command);
      if (help.wait(-1, 0, soon()) == Confined::Event::ended)
        bwrap_sizes_ = help.output().find("--size") != std::string::npos;
    }
    command.words = bwrap_words(path, bwrap_sizes_, command);
    command.words.push_back("/bin/true");
    Confined trial(*this, command);
    if (trial.wait(-1, 0, soon()) == Confined::Event::ended && trial.exit_code() == 0 &&
        trial.signal() == 0) {
      bwrap_ = path;
      return;
    }
    const std::string& said = trial.output();
    why = fmt::format("bubblewrap cannot work here ({})", said.substr(0, said.find('\n')));
  } else if (wanted != nullptr) {
    fail("STAGES_BWRAP={}: there is no such program; name bubblewrap's, or none", name);
  }
  note_ = fmt::format("{}: students' programs have a network, and may read and write what {} may", why,
                      other_user_ ? fmt::format("user {}, as whom they run,", user_) : "you");
}

void Confinement::give(const fs::path& path) const {
  if (other_user_ && lchown(path.c_str(), user_, user_) != 0)
    fail("{}: cannot be given to user {}: {}", path.string(), user_, std::strerror(errno));
}

void Confinement::end_all() const {
  const auto until = Confined::Clock::now() + std::chrono::seconds(10);
  for (;;) {
    // All of its processes at once: between two looks at a list of them they could start others.
    if (other_user_) as_user(user_, [] { kill(-1, SIGKILL); });
    bool left = false;
    for (const Process& process : descendants()) {
      if (process.state == 'Z') continue;
      kill(process.id, SIGKILL);
      left = true;
    }
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (!left || Confined::Clock::now() > until) break;
    std::this_thread::sleep_for(milliseconds(5));
  }
  if (other_user_ && !has_bwrap()) remove_files_of(user_);
}

Confined::Confined(const Confinement& confinement, const Command& command)
    : confinement_(confinement), limits_(command.limits) {
  // Everything is ready before the fork: there may be other threads, and a child of theirs may not allocate.
  std::vector<std::string> words;
  const bool bwrap = confinement.has_bwrap() && !command.ours;
  const bool other_user = confinement.other_user() && !command.ours;
  if (bwrap) words = bwrap_words(confinement.bwrap(), confinement.bwrap_sizes(), command);
  words.insert(words.end(), command.words.begin(), command.words.end());
  const std::string program = found_on_path(words.front());
  if (program.empty()) fail("{}: there is no such program; install it, or put it on PATH", words.front());
  std::vector<std::string> environment;
  for (const auto& [name, value] : command.environment) environment.push_back(name + "=" + value);
  if (command.ours) {
    for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
  } else {
    const char* const path = std::getenv("PATH");
    const std::string home = bwrap || command.home.empty() ? "/tmp" : command.home.string();
    environment.push_back(fmt::format("PATH={}", path != nullptr ? path : "/usr/bin:/bin"));
    environment.push_back("HOME=" + home);
    environment.push_back("TMPDIR=" + home);
  }
  const auto arguments = pointers_to(words);
  const auto variables = pointers_to(environment);
  const std::string directory = bwrap ? "/" : command.directory.string();
  const double processes =
      static_cast<double>(tasks_of(confinement.user())) + kMostProcesses + 8.0 * available_processors();

  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    fail("no pipe can be had: {}; close other programs", std::strerror(errno));
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t parent = getpid();
  child_ = fork();
  if (child_ == 0) {
    setpgid(0, 0);
    dup2(nothing, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (!command.ours) {
      set_limit(RLIMIT_CORE, 0);
      set_limit(RLIMIT_FSIZE, limits_.file);
      set_limit(RLIMIT_NPROC, processes);
    }
    if (limits_.address_space > 0) set_limit(RLIMIT_AS, limits_.address_space);
    if (other_user && !become_user(confinement.user())) _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);  // it has ended already
    if (!bwrap && !command.ours) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (chdir(directory.c_str()) == 0) execve(program.c_str(), arguments.data(), variables.data());
    dprintf(STDERR_FILENO, "%s: cannot be run: %s\n", program.c_str(), std::strerror(errno));
    _exit(126);
  }
  close(ends[1]);
  close(nothing);
  pipe_.reset(ends[0]);
  fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  if (child_ < 0)
    fail("{}: cannot be started: {}; close other programs, or raise `ulimit -u`", program,
         std::strerror(errno));
}

Confined::~Confined() { end(); }

void Confined::end() {
  if (!ended_) kill(-child_, SIGKILL);
  confinement_.end_all();
  ended_ = true;
  read_output();
}

void Confined::read_output() {
  std::vector<char> part(65536);  // where the stack may be small
  ssize_t n = -1;
  while (written_ <= limits_.output && (n = read(pipe_.get(), part.data(), part.size())) > 0) {
    written_ += static_cast<double>(n);
    output_.append(part.data(), static_cast<std::size_t>(n));
    // A sanitizer speaks at the end, a compiler at the beginning: what is between is left out.
    if (output_.size() > kMostOutput)
      output_ =
          output_.substr(0, kMostOutput / 4) + "\n...\n" + output_.substr(output_.size() - kMostOutput / 2);
  }
  silent_ = n == 0;
}

/// Whether it has ended.
bool Confined::look() {
  int status = 0;
  if (!ended_ && waitpid(child_, &status, WNOHANG) == child_) {
    ended_ = true;
    if (WIFSIGNALED(status)) {
      signal_ = WTERMSIG(status);
    } else if (WEXITSTATUS(status) > 128 && WEXITSTATUS(status) < 128 + 65) {
      signal_ = WEXITSTATUS(status) - 128;  // as bubblewrap and mpirun say it
    } else {
      exit_code_ = WEXITSTATUS(status);
    }
    read_output();
  }
  return ended_;
}

/// Whether a limit is broken of what all of its processes take together; Event::ready: none is.
Confined::Event Confined::too_much() {
  const auto now = Clock::now();
  if (limits_.memory <= 0 || now - looked_ < kLook) return Event::ready;
  looked_ = now;
  double resident = 0, written = 0;
  for (const Process& process : descendants()) {
    resident += process.resident;
    wrote_[process.id] = written_by(process.id);  // what has ended has written it all the same
  }
  for (const auto& [process, bytes] : wrote_) written += bytes;
  if (resident > limits_.memory) return Event::too_much_memory;
  return written > limits_.disk ? Event::too_much_disk : Event::ready;
}

Confined::Event Confined::wait(int descriptor, short events, Clock::time_point until) {
  for (;;) {
    std::array<pollfd, 2> polled = {{{descriptor, events, 0}, {silent_ ? -1 : pipe_.get(), POLLIN, 0}}};
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
    const int patience = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 20));
    const int count = poll(polled.data(), polled.size(), patience);
    if (polled[1].revents != 0) read_output();
    if (written_ > limits_.output) return Event::too_much_output;
    if (count > 0 && polled[0].revents != 0) return Event::ready;
    if (look()) return Event::ended;
    if (const Event broken = too_much(); broken != Event::ready) return broken;
    if (left.count() <= 0) return Event::too_late;
  }
}

}  // namespace stages::judge
