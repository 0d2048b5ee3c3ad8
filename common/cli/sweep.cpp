#include "common/cli/sweep.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/cli/program.hpp"
#include "common/matrix/error.hpp"

#ifdef STAGES_HAVE_MPI
#include "common/mpi/exec.hpp"
#endif

namespace stages {
namespace {

#ifdef STAGES_HAVE_MPI
constexpr bool kHaveMpi = true;
#else
constexpr bool kHaveMpi = false;
#endif

/// STAGES_MPIRUN, or mpirun from the PATH.
std::string mpirun() {
  const char* const chosen = std::getenv("STAGES_MPIRUN");
  return chosen != nullptr && *chosen != '\0' ? chosen : "mpirun";
}

bool can_be_found(const std::string& program) {
  if (program.find('/') != std::string::npos) return access(program.c_str(), X_OK) == 0;
  const char* const path = std::getenv("PATH");
  std::istringstream places(path != nullptr ? path : "");
  for (std::string place; std::getline(places, place, ':');) {
    if (access((place + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

/// What Open MPI is told by its environment, so that other MPIs aren't given options that they don't know.
void prepare_environment([[maybe_unused]] int ranks) {
#ifdef STAGES_HAVE_MPI
  // A rank a core where they suffice: a rank that moves loses its caches. Where they don't, ranks that wait
  // must give way, and bound ones could not spread.
  const mpi::Cores here = mpi::cores_here();
  const bool enough = ranks <= here.cores;
  setenv("OMPI_MCA_hwloc_base_binding_policy", enough ? "core" : "none", 0);
  setenv("OMPI_MCA_rmaps_base_mapping_policy", enough ? "core" : "slot", 0);
  if (!enough)
    setenv("OMPI_MCA_mpi_yield_when_idle", ranks > here.cores * here.threads_per_core ? "1" : "0", 0);
#endif
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  if (geteuid() == 0) {
    // Containers and rented machines: who could start this program as root could start mpirun as root.
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  }
}

/// In the child: becomes mpirun. What the ranks print on stdout is of no use, the results come in a file.
[[noreturn]] void become(std::vector<std::string> words, int ranks, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  prepare_environment(ranks);
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nowhere, STDIN_FILENO);
  dup2(nowhere, STDOUT_FILENO);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  fmt::print(stderr, "cannot start {}: {}\n", words[0], std::strerror(errno));
  _exit(127);
}

/// The exit code; 128 + the signal where one ended it.
int run_on_ranks(const std::vector<std::string>& words, int ranks) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) fail("cannot start {}: {}; close other programs", words[0], std::strerror(errno));
  if (child == 0) become(words, ranks, parent);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// A file that is gone at the end of the scope.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "stages-XXXXXX.json").string();
    const int file = mkstemps(pattern.data(), 5);
    if (file < 0) fail("{}: cannot create a file: {}; set TMPDIR", pattern, std::strerror(errno));
    close(file);
    path_ = pattern;
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

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

}  // namespace

void require_mpirun() {
  if (!kHaveMpi)
    fail("--ranks: this build has no MPI; install it (Debian: libopenmpi-dev) and configure the build again");
  if (!can_be_found(mpirun()))
    fail("--ranks: there is no {}; install it (Debian: openmpi-bin), or name it in STAGES_MPIRUN", mpirun());
}

void sweep(const Sweep& wanted, Results& results) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  for (std::size_t k = 0; k < wanted.ranks.size(); ++k) {
    const int ranks = wanted.ranks[k];
    const TemporaryFile file;
    std::vector<std::string> words = {mpirun(), "-q", "-n", fmt::format("{}", ranks), self};
    words.insert(words.end(), wanted.arguments[k].begin(), wanted.arguments[k].end());
    words.insert(words.end(), {"--json", file.path()});
    const int code = run_on_ranks(words, ranks);
    if (code != kGood && code != kWrongResult && code != kAllSkipped)
      fail("--ranks: the run on {} ranks ended with exit code {}; see its message above", ranks, code);
    std::ifstream text(file.path());
    Results part;
    try {
      part = results_from_json(nlohmann::json::parse(text));
    } catch (const nlohmann::json::exception& error) {
      fail("--ranks: the run on {} ranks left no results ({}); run it by mpirun to see more", ranks,
           error.what());
    }
    take_context(part, ranks, results);
    results.rows.insert(results.rows.end(), part.rows.begin(), part.rows.end());
  }
  group_by_problem(results);
}

std::string scaled_spec(const std::string& text, int ranks, bool& scaled) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    double value = 0;
    const bool begins = std::isdigit(static_cast<unsigned char>(text[at])) != 0 &&
                        (at == 0 || text[at - 1] == '=' || text[at - 1] == ':');
    const auto [end, error] = begins ? std::from_chars(text.data() + at, text.data() + text.size(), value)
                                     : std::from_chars_result{text.data() + at, std::errc::invalid_argument};
    const auto length = static_cast<std::size_t>(end - text.data()) - at;
    if (error == std::errc{} && text.compare(at + length, 2, "xR") == 0) {
      out += fmt::format("{:.0f}", value * ranks);
      at += length + 2;
      scaled = true;
    } else {
      out += text[at++];
    }
  }
  return out;
}

}  // namespace stages
