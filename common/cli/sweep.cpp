#include "common/cli/sweep.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <semaphore>
#include <set>
#include <thread>

#include "common/cli/last_words.hpp"
#include "common/cli/program.hpp"
#include "common/cli/terminal.hpp"
#include "common/machines/child.hpp"
#include "common/machines/ranks.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/temporary_files.hpp"

namespace stages {
namespace {

/// The words that start ranks, without their number: those of STAGES_MPIRUN as they are, or mpirun. -q means
/// another thing to other programs (to srun a quality of service), so only our own choice gets it.
std::vector<std::string> mpirun() {
  return words_that_start_ranks({"mpirun", "-q"});
}

/// Whether ranks are started by what we know.
bool own_choice() {
  return std::getenv("STAGES_MPIRUN") == nullptr;
}

// In the directory of a run on ranks.
constexpr const char* kStarted = "/started";
constexpr const char* kDone = "/done";
constexpr const char* kOfMpirun = "/mpirun";

/// What Open MPI is told by its environment, so that other MPIs aren't given options that they don't know.
void prepare_environment(int ranks, const std::string& directory) {
  bind_ranks(ranks);
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  // Where mpirun is killed its files are removed with ours. What others start may take it to other machines.
  if (own_choice()) setenv("TMPDIR", (directory + kOfMpirun).c_str(), 1);
  // From SIGTERM to SIGKILL, in seconds: rank 0 writes what was found out, and a disk may take more than the
  // usual one.
  setenv("OMPI_MCA_odls_base_sigkill_timeout", "3", 0);
  if (geteuid() == 0) {
    // Containers and rented machines: who could start this program as root could start mpirun as root.
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  }
}

using Clock = std::chrono::steady_clock;

/// For mpirun, when it was told to end: rank 0 writes what was found out, and mpirun itself waits some 5 s.
constexpr auto kPatience = std::chrono::seconds(20);
/// For the ranks, until they are there. Where Open MPI lacks something to start them it waits for ever.
constexpr auto kStart = std::chrono::seconds(30);
/// For ranks that STAGES_MPIRUN starts, until somebody is told what is waited for.
constexpr auto kQuiet = std::chrono::seconds(5);

std::atomic<bool> under_way = false;  ///< mpirun runs
std::atomic<bool> ending = false;
std::binary_semaphore taken{0};  ///< what it left, after `ending`

/// What ranks print on stdout is of no use where their results come in a file.
enum class Output { dropped, shown };

/// In the child: becomes mpirun.
[[noreturn]] void become(const std::vector<std::string>& words, int ranks, Output output, pid_t parent,
                         const std::string& directory) {
  end_with(parent);  // in a group of its own: two signals make mpirun leave things behind
  prepare_environment(ranks, directory);
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nowhere, STDIN_FILENO);
  if (output == Output::dropped) dup2(nowhere, STDOUT_FILENO);
  become_program(words);
  print_stderr("cannot start {}: {}\n", words[0], std::strerror(errno));
  _exit(127);
}

/// This program.
std::string own_path() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

/// Where rank 0 tells how far it is. When the directory is gone, because this process was ended, rank 0
/// leaves nothing behind.
class Report {
 public:
  Report() : started_(directory() + kStarted), done_(directory() + kDone), mpirun_(directory() + kOfMpirun) {}
  ~Report() {
    std::error_code none;
    for (const auto& left : std::filesystem::directory_iterator(directory(), none))
      std::filesystem::remove_all(left.path(), none);  // of an mpirun that was killed
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;
  const std::string& directory() const { return directory_.path(); }
  bool started() const { return std::filesystem::exists(started_.path()); }
  bool done() const { return std::filesystem::exists(done_.path()); }

 private:
  TemporaryName directory_{new_temporary_directory("stages")};
  TemporaryName started_, done_, mpirun_;
};

/// A limit of the process as `ulimit` shows it.
std::string limit_text(__rlimit_resource resource, rlim_t unit) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return fmt::format("{}", limit.rlim_cur / unit);
}

/// Bytes free where temporary files go.
double room_in(const Report& report) {
  struct statvfs facts {};
  if (statvfs(report.directory().c_str(), &facts) != 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(facts.f_bavail) * static_cast<double>(facts.f_frsize);
}

[[noreturn]] void fail_to_start(int ranks, const Report& report) {
  fail(
      "--ranks: {} ranks do not start; MPI needs open files (`ulimit -n` is {}), files of some MB (`ulimit "
      "-f` is {}) and room for them in TMPDIR ({} has {}): raise what is low",
      ranks, limit_text(RLIMIT_NOFILE, 1), limit_text(RLIMIT_FSIZE, 1024),
      std::filesystem::path(report.directory()).parent_path().string(), format_bytes(room_in(report)));
}

/// Open MPI hangs where it has too few open files, or no room for its own ones: found by trying.
void require_room_to_start(int ranks, const Report& report) {
  const auto below = [](__rlimit_resource resource, rlim_t least) {
    rlimit limit{};
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur < least;  // RLIM_INFINITY is the largest
  };
  constexpr rlim_t kFiles = 32, kFilesARank = 4, kRanksHere = 8, kLongest = 4 << 20;
  constexpr double kRoom = 16e6;
  const auto here = std::min<rlim_t>(static_cast<rlim_t>(ranks), kRanksHere);  // others may be on other nodes
  if (below(RLIMIT_NOFILE, kFiles + kFilesARank * here) || below(RLIMIT_FSIZE, kLongest) ||
      room_in(report) < kRoom)
    fail_to_start(ranks, report);
}

/// Waits for mpirun, and tells it to end where this program is to end or no rank comes.
int wait_for(pid_t child, int ranks, const Report& report) {
  const auto begin = Clock::now();
  const auto longest = kStart + std::chrono::milliseconds(500) * ranks;
  // What STAGES_MPIRUN starts may stand in a queue first: it gets a note in place of a limit.
  const bool limited = own_choice();
  bool waits = true, late = false, noted = limited;
  std::optional<Clock::time_point> killed;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno == ECHILD)) {
      if (late) fail_to_start(ranks, report);
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    const auto now = Clock::now();
    waits = waits && !report.started();
    if (!noted && waits && now - begin > kQuiet) {
      noted = true;
      print_stderr("note: --ranks: {} has started no rank yet; Ctrl-C ends the wait\n", mpirun().front());
    }
    if (!killed && !late && limited && waits && now - begin > longest) {
      late = true;
      kill(-child, SIGKILL);  // it has nothing to write, and may not hear anything else
    }
    if (!killed && ending) {
      killed = now + kPatience;
      kill(child, SIGTERM);
    }
    if (killed && now > *killed) kill(-child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

/// Starts this program under mpirun with the words given. The exit code; 128 + the signal where one ended it.
int start(const std::vector<std::string>& given, int ranks, Output output, const Report& report) {
  std::vector<std::string> words = mpirun();
  words.insert(words.end(), {"-n", fmt::format("{}", ranks), own_path()});
  const auto no_options = std::find(given.begin(), given.end(), "--");  // from there on words are files
  words.insert(words.end(), given.begin(), no_options);
  words.insert(words.end(), {"--report-to", report.directory()});
  words.insert(words.end(), no_options, given.end());
  if (own_choice()) require_room_to_start(ranks, report);
  const pid_t parent = getpid();
  under_way = true;
  const pid_t child = fork();
  if (child < 0)
    fail("cannot start {}: {}; close other programs, or raise `ulimit -u`", words[0], std::strerror(errno));
  if (child == 0) become(words, ranks, output, parent, report.directory());
  setpgid(child, child);
  return wait_for(child, ranks, report);
}

/// While the process is being ended what the ranks have left is kept, and nothing else is done.
void stop_if_ending(const std::function<void()>& keep) {
  under_way = false;
  if (!ending) return;
  keep();
  taken.release();
  for (;;) pause();
}

/// How a run on ranks ended that did not come to its end. What mpirun returns where a signal ended a rank is
/// 128 + the signal, and it says nothing then; 1 where one ended mpirun.
[[noreturn]] void fail_by(int code, int ranks) {
  if (code == kWrongResult)
    fail("--ranks: the run on {} ranks was ended before it was done, as by a signal to {}", ranks,
         mpirun().front());
  if (code <= 128)
    fail("--ranks: the run on {} ranks ended with exit code {}; see its message above", ranks, code);
  const int signal = code - 128;
  fail("--ranks: the run on {} ranks was ended by {}{}", ranks, signal_text(signal),
       signal == SIGKILL
           ? ", as the system does where memory runs out; take a smaller matrix, fewer ranks, or another node"
           : "; see its message above, or report it with the command line");
}

/// Of a run's context only what the number of ranks changes.
void take_context(const Results& from, int ranks, Results& to) {
  for (const auto& [key, value] : from.context) {
    for (const char* const wanted : {"copy_bandwidth_bytes_per_second", "gpu_copy_bandwidth_bytes_per_second",
                                     "gpu_to_host_bytes_per_second", "gpus", "mpi", "nodes", "cores",
                                     "threads_per_core", "ranks_per_core"}) {
      if (key == wanted) to.context.emplace_back(fmt::format("ranks={}: {}", ranks, key), value);
    }
  }
}

/// Whether the programs that were started found each other. What starts them has to speak to this MPI.
bool ran_together(const Results& part, int ranks) {
  const auto has = [&](const char* key, const std::string& value) {
    return std::any_of(part.context.begin(), part.context.end(), [&](const auto& fact) {
      return fact.first == key && (value.empty() || fact.second == value);
    });
  };
  return has("mpi", "") && has("ranks", fmt::format("{}", ranks));
}

/// Rows of one problem together, in the order in which the problems came first.
void group_by_problem(Results& results) {
  std::vector<ProblemFacts> problems;
  const auto place = [&](const ResultRow& row) {
    const auto found = std::find_if(problems.begin(), problems.end(),
                                    [&](const ProblemFacts& p) { return same_problem(p, row.problem); });
    if (found == problems.end()) problems.push_back(row.problem);
    return found - problems.begin();
  };
  for (const ResultRow& row : results.rows) place(row);
  std::stable_sort(results.rows.begin(), results.rows.end(),
                   [&](const ResultRow& a, const ResultRow& b) { return place(a) < place(b); });
}

/// The command line for `ranks` ranks: without what this process does itself, and in weak scaling with the
/// matrices made larger.
std::vector<std::string> on_ranks(const std::vector<std::string>& given, const ProblemOptions& problem,
                                  int ranks) {
  std::vector<std::string> words;
  bool scaled = false;
  for (std::size_t k = 0; k < given.size(); ++k) {
    const std::string& word = given[k];
    const std::string flag = word.substr(0, word.find('='));
    if (flag == "--weak") continue;
    if (flag == "--ranks" || flag == "--json" || flag == "--csv") {
      k += flag.size() == word.size();  // the value is the next word
      continue;
    }
    words.push_back(problem.weak ? scaled_spec(word, ranks, scaled) : word);
  }
  if (problem.weak && !scaled) {
    fail(
        "--weak: no size grows with the ranks; write xR behind the one that does, as in "
        "-m gen:uniform:rows=1e5xR,cols=1e5xR,per_row=8");
  }
  if (!problem.weak) words.push_back("--ranks-only");
  return words;
}

/// Weak scaling is about equal shares: says where they aren't. The problems of each number of ranks come in
/// the order of the command line.
void require_equal_shares(const Results& results) {
  std::map<int, std::vector<ProblemFacts>> problems;  // by ranks
  for (const ResultRow& row : results.rows) {
    auto& known = problems[row.ranks];
    const auto same = [&](const ProblemFacts& p) { return same_problem(p, row.problem); };
    if (row.mpi && std::none_of(known.begin(), known.end(), same)) known.push_back(row.problem);
  }
  const auto share = [](const ProblemFacts& p, int ranks) {
    return static_cast<double>(p.multiplications) / ranks;
  };
  const auto& [fewest, first] = *problems.begin();
  for (const auto& [ranks, known] : problems) {
    for (std::size_t k = 0; k < std::min(known.size(), first.size()); ++k) {
      const double here = share(known[k], ranks), before = share(first[k], fewest);
      if (std::abs(here - before) > 0.1 * before) {
        print_stderr("note: --weak: {} has {} products a rank, and {} has {}; they should be the same\n",
                     known[k].matrix, format_count(here), first[k].matrix, format_count(before));
      }
    }
  }
}

/// One run. Appends its rows, also where it ended before its end.
void run_on_ranks(const std::vector<std::string>& given, const ProblemOptions& problem, int ranks,
                  Results& results) {
  const Report report;
  const TemporaryName file(report.directory() + "/results.json");
  std::vector<std::string> words = on_ranks(given, problem, ranks);
  words.insert(words.end(), {"--json", file.path()});
  const int code = start(words, ranks, Output::dropped, report);
  bool ended = code == kGood || code == kWrongResult || code == kAllSkipped;
  std::ifstream text(file.path());
  Results part;
  try {
    part = results_from_json(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception&) {
    if (report.started()) fail_by(code, ranks);
    if (ended)
      fail(
          "--ranks: the run on {} ranks left no results in {}: either {} starts no ranks (name another in "
          "STAGES_MPIRUN), or rank 0 ran on another machine (set TMPDIR to a directory that both see)",
          ranks, file.path(), mpirun().front());
  }
  if (ended && !ran_together(part, ranks))
    fail(
        "--ranks: {} started {} programs that did not find each other; it must be one for this build's MPI, "
        "as "
        "in STAGES_MPIRUN='srun --mpi=pmix'",
        mpirun().front(), ranks);
  for (const auto& fact : part.context) {
    if (fact.first != "part") continue;
    ended = false;
    if (!ending) results.context.push_back(fact);
  }
  take_context(part, ranks, results);
  results.rows.insert(results.rows.end(), part.rows.begin(), part.rows.end());
  if (!ended) fail_by(code, ranks);
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

void end_ranks() {
  ending = true;
  if (under_way) taken.try_acquire_for(2 * kPatience);
}

void tell_started(const std::string& directory) {
  if (!directory.empty()) std::ofstream(directory + kStarted);
}

int multiply_on_ranks(const std::vector<std::string>& given, int ranks) {
  require_mpirun();
  std::vector<std::string> words;
  bool options = true;  // until --, from where on words are files
  for (std::size_t k = 0; k < given.size(); ++k) {
    options = options && given[k] != "--";
    if (options && given[k] == "--ranks")
      ++k;  // and its value
    else if (!options || !given[k].starts_with("--ranks="))
      words.push_back(given[k]);
  }
  const LastWords last_words([](const std::string&) { end_ranks(); });
  const Report report;
  int code = 0;
  try {
    code = start(words, ranks, Output::shown, report);
  } catch (const Error&) {
    stop_if_ending([] {});
    throw;
  }
  stop_if_ending([] {});
  if (code == kGood && !report.done())
    fail(
        "--ranks: {} started no rank that came to its end; name another program in STAGES_MPIRUN, or, where "
        "rank 0 "
        "ran on another machine, set TMPDIR to a directory that both see",
        mpirun().front());
  if (code > kBadInput || (code == kWrongResult && !report.done()) ||
      (code == kBadInput && !report.started()))
    fail_by(code, ranks);
  return code;
}

void tell_done(const std::string& directory) {
  if (!directory.empty()) std::ofstream(directory + kDone);
}

void require_mpirun() {
  if (const std::string problem = mpirun_problem(); !problem.empty()) fail("--ranks: {}", problem);
}

void sweep_ranks(const std::vector<std::string>& words, const ProblemOptions& problem, Results& results,
                 const std::function<void()>& after_each) {
  try {
    for (const int ranks : std::set<int>(problem.ranks.begin(), problem.ranks.end())) {
      run_on_ranks(words, problem, ranks, results);
      stop_if_ending(after_each);
      after_each();
    }
  } catch (const Error&) {
    group_by_problem(results);
    stop_if_ending(after_each);
    throw;
  }
  group_by_problem(results);
  if (problem.weak && !results.rows.empty()) require_equal_shares(results);
}

}  // namespace stages
