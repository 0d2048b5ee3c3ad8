#include "common/cli/start_ranks.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "common/cli/last_words.hpp"
#include "common/cli/machines/child.hpp"
#include "common/cli/terminal.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/temporary_files.hpp"

namespace stages {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<pid_t> running = 0;  ///< mpirun; 0: it does not run

/// For mpirun, when it was told to end: rank 0 writes what was found out, and mpirun itself waits some 5 s.
constexpr auto kPatience = std::chrono::seconds(30);

/// The words that start ranks, without their number: those of STAGES_MPIRUN as they are, or mpirun. -q means
/// another thing to other programs (to srun a quality of service), so only our own choice gets it.
std::vector<std::string> mpirun() { return words_that_start_ranks({"mpirun", "-q"}); }

bool own_choice() { return std::getenv("STAGES_MPIRUN") == nullptr; }

/// Open MPI hangs where it has too few open files, or no room for its own ones: found by trying.
void require_room_to_start(int ranks, const std::string& place) {
  const auto limit = [](__rlimit_resource resource) {
    rlimit now{};
    return getrlimit(resource, &now) == 0 ? now.rlim_cur : RLIM_INFINITY;  // which is the largest
  };
  struct statvfs room {};
  constexpr rlim_t kFiles = 32, kFilesARank = 4, kRanksHere = 8, kLongest = 4 << 20;
  constexpr unsigned long kRoom = 16'000'000;
  const auto here = std::min(static_cast<rlim_t>(ranks), kRanksHere);  // others may be on other nodes
  if (limit(RLIMIT_NOFILE) < kFiles + kFilesARank * here || limit(RLIMIT_FSIZE) < kLongest ||
      (statvfs(place.c_str(), &room) == 0 && room.f_bavail < kRoom / room.f_frsize))
    fail(
        "--ranks: {} ranks do not start: MPI needs {} open files (`ulimit -n`), files of 4 MB (`ulimit -f`) "
        "and 16 MB of room in TMPDIR; raise what is low",
        ranks, kFiles + kFilesARank * here);
}

/// What Open MPI is told by its environment, so that other MPIs aren't given options that they don't know.
void prepare_environment(int ranks, const std::string& place) {
  bind_ranks(ranks);
  if (!wants_colour(stdout)) setenv("NO_COLOR", "1", 1);  // mpirun gives rank 0 a terminal
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  // What others start may take it to other machines.
  if (own_choice()) setenv("TMPDIR", place.c_str(), 1);
  // From SIGTERM to SIGKILL, in seconds: rank 0 writes what was found out, and a disk may take a while.
  setenv("OMPI_MCA_odls_base_sigkill_timeout", "3", 0);
  if (geteuid() == 0) {
    // Containers and rented machines: who could start this program as root could start mpirun as root.
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  }
}

/// In the child: becomes mpirun.
[[noreturn]] void become(const std::vector<std::string>& words, int ranks, bool shown, pid_t parent,
                         const std::string& place) {
  setpgid(0, 0);  // hears of Ctrl-C from us alone: two signals make mpirun leave things behind
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // it has ended already
  prepare_environment(ranks, place);
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nowhere, STDIN_FILENO);
  if (!shown) dup2(nowhere, STDOUT_FILENO);
  execvp(words[0].c_str(), pointers_to(words).data());
  print_stderr("cannot start {}: {}\n", words[0], std::strerror(errno));
  _exit(127);
}

/// Waits until a process has ended, unless the flags say WNOHANG; returns whether it has. How is for others to
/// ask.
bool wait_for(pid_t process, int flags = 0) {
  siginfo_t how{};
  while (waitid(P_PID, static_cast<id_t>(process), &how, WEXITED | WNOWAIT | flags) != 0)
    if (errno != EINTR) return true;
  return how.si_pid == process;
}

/// The exit code of mpirun. Where a signal ended a rank it is 128 + the signal, and nothing is said by mpirun.
int code_of(pid_t child, int ranks) {
  wait_for(child);
  running = 0;
  int status = 0;
  waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code > 128 && code - 128 < NSIG)
    fail("--ranks: the run on {} ranks was ended by {}{}", ranks, signal_text(code - 128),
         code - 128 == SIGKILL ? ", as the system does where memory runs out; take a smaller matrix, fewer "
                                 "ranks, or another node"
                               : "; see its message above, or report it with the command line");
  if (code != kGood && code != kWrongResult && code != kBadInput && code != kAllSkipped)
    fail("--ranks: the run on {} ranks ended with exit code {}; see its message above", ranks, code);
  return code;
}

/// Runs this program on so many ranks. `given`: a command and its options. `shown`: its output.
int run(const std::vector<std::string>& given, int ranks, bool shown) {
  std::vector<std::string> words = mpirun();
  words.insert(words.end(),
               {"-n", fmt::format("{}", ranks), std::filesystem::read_symlink("/proc/self/exe").string()});
  words.push_back(given.front());
  words.emplace_back("--ranks-started");  // so that what was started starts nothing
  words.insert(words.end(), given.begin() + 1, given.end());
  const TemporaryDirectory place("stages");  // for files of our own mpirun
  if (own_choice()) require_room_to_start(ranks, place.path());
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0)
    fail("cannot start {}: {}; close other programs, or raise `ulimit -u`", words[0], std::strerror(errno));
  if (child == 0) become(words, ranks, shown, parent, place.path());
  setpgid(child, child);
  running = child;
  return code_of(child, ranks);
}

}  // namespace

std::string mpirun_problem() {
  if (!Ranks::can_be_started())
    return "this build has no MPI; install it (Debian: libopenmpi-dev) and configure the build again";
  const std::string program = mpirun().front();
  if (found_on_path(program).empty())
    return fmt::format(
        "there is no program {}; install it (Debian: openmpi-bin), or name it in STAGES_MPIRUN", program);
  return {};
}

bool are_to_be_started(const Program& program, const std::vector<int>& wanted, bool are_started) {
  if (wanted.empty()) return false;
  const int ranks = wanted.front();
  if (wanted.size() > 1)
    fail("--ranks takes one number; tools/ranks.sh runs on several, and puts the results together");
  if (are_started && (!program.ranks.started() || program.ranks.size() != ranks))
    fail(
        "--ranks: {} started {} programs that did not find each other; it must be one for this build's MPI, "
        "as in STAGES_MPIRUN='srun --mpi=pmix'",
        mpirun().front(), ranks);
  if (program.ranks.started()) {
    if (program.ranks.size() != ranks)
      fail("--ranks {}: there are {} ranks already; leave it away under mpirun", ranks, program.ranks.size());
    return false;
  }
  if (const std::string problem = mpirun_problem(); !problem.empty()) fail("--ranks: {}", problem);
  return true;
}

int run_on_ranks(const Program& program, int ranks, const std::string& file) {
  const LastWords last_words([](const std::string&) { end_ranks(); });
  std::error_code none;
  const auto before = std::filesystem::last_write_time(file, none);
  const int code = run({program.arguments.begin() + 1, program.arguments.end()}, ranks, true);
  const bool is_old =
      std::filesystem::is_regular_file(file) && before == std::filesystem::last_write_time(file, none);
  if ((code == kGood || code == kAllSkipped) && !file.empty() && (is_old || !std::filesystem::exists(file)))
    fail(
        "--ranks: {} started no rank that left {}; name another program in STAGES_MPIRUN, or a place that "
        "rank 0 sees",
        mpirun().front(), file);
  return code;
}

Results results_on_ranks(std::vector<std::string> words, int ranks) {
  const TemporaryDirectory directory("stages");
  const TemporaryName file(directory.path() + "/results.json");
  words.insert(words.end(), {"--ranks", fmt::format("{}", ranks), "--ranks-only", "--json", file.path()});
  const int code = run(words, ranks, false);
  if (!std::filesystem::exists(file.path()))
    fail(
        "--ranks: the run on {} ranks left no results, and exit code {}; STAGES_MPIRUN names what starts "
        "them",
        ranks, code);
  return results_in(file.path());
}

void end_ranks() {
  const pid_t child = running;
  if (child == 0) return;
  kill(child, SIGTERM);
  for (const auto last = Clock::now() + kPatience; !wait_for(child, WNOHANG) && Clock::now() < last;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  kill(-child, SIGKILL);  // also what it has left behind
  wait_for(child);
}

}  // namespace stages
