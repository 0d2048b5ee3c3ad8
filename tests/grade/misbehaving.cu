// A student's file that does what the environment variable STAGES_MISBEHAVE says, for the tests of `stages
// grade`. With none it is right. What it does beside multiplying is done once, at the first product; attacks
// multiply nothing, so that no point they may get is earned. All of it is one file, as what students hand in.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/harness/registry.hpp"
#include "common/judge/student/counts.hpp"
#if STAGES_SIMULATED
#include "common/simt/observer.hpp"
#endif
#include "tests/grade/misbehaves.hpp"

// The judge's own names, for a linker that would take the first definition that it meets.
namespace stages::battery {
struct Case {};
enum class Size { small, full };
std::vector<Case> cases(Op, Size) { return {}; }
}  // namespace stages::battery

namespace stages {
namespace {

constexpr unsigned kBlock = 128;

/// What this process says to the judge, by its descriptor.
int judge_socket() {
  for (int file = 3; file < 100; ++file) {
    sockaddr_un peer{};
    socklen_t length = sizeof peer;
    if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && peer.sun_family == AF_UNIX)
      return file;
  }
  return -1;
}

/// Writes, whether anybody reads or not.
void tell(int file, const void* data, std::size_t bytes) {
  [[maybe_unused]] const auto sent = write(file, data, bytes);
}

/// A frame as common/judge/student/messages.hpp has it.
void say(std::uint32_t kind, std::uint64_t announced, const std::string& body) {
  struct {
    std::uint32_t kind, times;
    std::uint64_t bytes;
  } const head{kind, 0, announced};
  std::string frame(reinterpret_cast<const char*>(&head), sizeof head);
  frame += body;
  tell(judge_socket(), frame.data(), frame.size());
}

const char* const kForged =
    R"({"cases":[{"class":"square matrices","case":"dense_1","type":"f32"}]}
{"begin":0}
{"result":"passed","reason":""}
{"done":true}
)";

// What a constructor does is done before main.
[[gnu::constructor]] void before_main() {
  if (misbehaves("forge")) {
    std::ifstream in("/proc/self/cmdline");
    for (std::string word; std::getline(in, word, '\0');) std::ofstream(word, std::ios::app) << kForged;
    tell(1, kForged, std::strlen(kForged));
    _exit(0);
  }
  if (misbehaves("hang_at_start")) wait();
  if (misbehaves("only_once")) {
    const std::filesystem::path trace = std::filesystem::temp_directory_path() / "was_here";
    if (std::filesystem::exists(trace)) _exit(3);
    std::ofstream(trace) << "once";
    setenv("STAGES_MISBEHAVE", "nothing", 1);
  }
}

/// A file's text, if it can be had.
std::string stolen(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The attacks that leave the product to be wrong, or end this process.
void attack() {
  if (misbehaves("daemon") && fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    wait();
  }
  if (misbehaves("fork_bomb")) fork_bomb();
  if (misbehaves("threads")) {
    std::vector<std::thread> threads;
    for (;;) threads.emplace_back(wait);
  }
  if (misbehaves("memory")) eat(1e11);
  if (misbehaves("memory_of_a_child")) {
    if (fork() == 0) {
      eat(1e11);
      _exit(0);
    }
    wait();
  }
  if (misbehaves("flood")) {
    const std::string line(100'000, 'x');
    for (;;) std::puts(line.c_str());
  }
  if (misbehaves("disk")) {
    std::signal(SIGXFSZ, SIG_IGN);
    for (int k = 0; k < 100; ++k) {
      std::ofstream file("/tmp/disk" + std::to_string(k));
      for (int part = 0; part < 1000 && file; ++part) file << std::string(1'000'000, 'x');
    }
    throw std::runtime_error("no more disk");
  }
  if (misbehaves("kill")) {
    kill(getppid(), SIGKILL);
    kill(-1, SIGKILL);
  }
  if (misbehaves("debug") && stolen(("/proc/" + std::to_string(getppid()) + "/comm").c_str()) == "stages\n") {
    const std::string memory = "/proc/" + std::to_string(getppid()) + "/mem";
    if (ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0)
      throw std::runtime_error("LOOKED INTO THE JUDGE");
    if (open(memory.c_str(), O_RDWR) >= 0) throw std::runtime_error("OPENED THE JUDGE'S MEMORY");
  }
  if (misbehaves("network")) {
    const int connection = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(std::getenv("STAGES_PORT"))));
    if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
      throw std::runtime_error("REACHED THE NETWORK");
  }
  if (misbehaves("read")) {
    if (const std::string secret = stolen(std::getenv("STAGES_SECRET")); !secret.empty())
      throw std::runtime_error("READ " + secret);
  }
  if (misbehaves("write")) {
    if (std::ofstream file(std::getenv("STAGES_SECRET"), std::ios::app); file << "mine" << std::flush)
      throw std::runtime_error("WROTE");
  }
  if (misbehaves("root")) {
    if (setuid(0) == 0 && geteuid() == 0 && std::ofstream("/usr/stages_was_here"))
      throw std::runtime_error("BECAME ROOT");
  }
  if (misbehaves("long_text")) throw std::runtime_error(std::string(900'000, '\n') + "\033[2J");
  if (misbehaves("longer_text")) throw std::runtime_error(std::string(50'000'000, 'x'));
  if (misbehaves("long_summary")) {
    std::printf("SUMMARY: AddressSanitizer: %s\n", std::string(100'000, 'a').c_str());
    std::fflush(stdout);
    _exit(1);
  }
  if (misbehaves("throw_a_number")) throw 1;
  if (misbehaves("stop")) raise(SIGSTOP);
  if (misbehaves("hang_up")) {
    close(judge_socket());
    wait();
  }
  if (misbehaves("nonsense")) tell(judge_socket(), kForged, std::strlen(kForged));
  if (misbehaves("huge")) {
    say(102, 0, "");  // for the run
    say(103, ~std::uint64_t{0}, "");
  }
  if (misbehaves("ahead")) {
    for (int k = 0; k < 1000; ++k) say(102, 0, "");
  }
  if (misbehaves("no_result")) {
    say(102, 0, "");  // for the run
    say(103, 44, std::string(44, '\x7f'));
  }
  if (misbehaves("drip")) {
    for (;;) {
      tell(judge_socket(), "f", 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }
}

// ---- where the kernels are counted ------------------------------------------------------------------------

/// Whether this product is counted, or looked at for races.
bool is_counted() {
#if STAGES_SIMULATED
  return typeid(simt::observer()) != typeid(simt::Observer);
#else
  return false;
#endif
}

bool g_forges = false;  ///< the next result that leaves this process is what was counted

/// What STAGES_MISBEHAVE would have the judge believe was counted.
std::string forged_counts() {
  using namespace judge;
  if (misbehaves("counted:noise")) return std::string(3000, '\x5a');
  if (misbehaves("counted:much")) return std::string(50'000'000, '\0');
  Writer out;
  if (misbehaves("counted:endless")) {
    for (int k = 0; k < 4; ++k) out.number(std::uint64_t{1});
    out.number(std::uint64_t{1} << 60);
  } else {
    Counts counts{.launches = 1, .threads = 128, .read_bytes = 1 << 20};
    CountedSite site{.bytes = 4, .requests = 1000, .lanes = 32000, .cost = 4000, .least = 4000};
    if (misbehaves("counted:huge")) site.requests = site.lanes = site.cost = ~std::uint64_t{0};
    if (misbehaves("counted:contradiction")) site.cost = 10;
    if (misbehaves("counted:less")) site.requests = 1, site.lanes = 32, site.cost = 4, site.least = 4;
    counts.sites.push_back(site);
    if (misbehaves("counted:no_stores"))
      counts.sites[0].requests = 100'000, counts.sites[0].lanes = 3'200'000, counts.sites[0].cost = 400'000;
    if (misbehaves("counted:nothing")) counts = {};
    put(out, counts);
  }
  const Bytes bytes = out.take();
  return {bytes.begin(), bytes.end()};
}

enum class Fault { none, hang, write_beyond, read_beyond, null_pointer, searching, racing };
constexpr std::pair<const char*, Fault> kFaults[] = {{"hang", Fault::hang},
                                                     {"write_beyond", Fault::write_beyond},
                                                     {"read_beyond", Fault::read_beyond},
                                                     {"null_pointer", Fault::null_pointer},
                                                     {"searching", Fault::searching},
                                                     {"racing", Fault::racing}};

/// Right without a fault, and with the last two; reads all of it so many times.
template <class T>
__global__ void multiply(CsrView<T, std::int32_t> a, const T* x, T* y, Fault fault, int times) {
  const int row = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  if (fault == Fault::hang) {
    for (volatile int k = 0; k >= 0;) k = k & 1;
  }
  if (row >= a.rows) return;
  std::int32_t begin = a.row_ptr[row];
  if (fault == Fault::searching) {  // from the first row on
    for (int i = begin = 0; i < row; ++i) begin = max(begin, a.row_ptr[i + 1]);
  }
  T sum = 0;
  for (int time = 0; time < times; ++time) {
    sum = 0;
    for (std::int32_t p = begin; p < a.row_ptr[row + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
    y[row] = sum;
  }
  if (fault == Fault::write_beyond) y[row + a.rows * 100] = sum;
  if (fault == Fault::read_beyond) y[row] += T{0} * x[a.cols + 1];
  if (fault == Fault::null_pointer) *static_cast<volatile T*>(nullptr) = sum;
  if (fault == Fault::racing) *dynamic_shared<T>() = sum;
}

#if STAGES_SIMULATED
#define UNSEEN [[gnu::no_sanitize("thread")]]
#else
#define UNSEEN
#endif

/// What the lens does not see.
template <class T>
UNSEEN __global__ void multiply_unseen(CsrView<T, std::int32_t> a, const T* x, T* y) {
  const int row = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  if (row >= a.rows) return;
  T sum = 0;
  for (std::int32_t p = a.row_ptr[row]; p < a.row_ptr[row + 1]; ++p) sum += a.values[p] * x[a.col_idx[p]];
  y[row] = sum;
}

template <class T>
__global__ void copy(const T* from, T* to, int count) {
  const int at = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  if (at < count) to[at] = from[at];
}

template <class T>
class Misbehaving final : public DeviceSpmvPlan<T> {
 public:
  Misbehaving(const SpmvProblem<T>& problem, Exec& exec) : DeviceSpmvPlan<T>(problem, exec), a_(*problem.a) {}

  static Cost cost(const SpmvProblem<T>& problem) { return problem_cost(problem); }
  static std::optional<std::string> refuse(const SpmvProblem<T>&, Exec&) {
    if (misbehaves("refuse")) return "more than 0 rows are too many";
    return std::nullopt;
  }

  void load(const SpmvOperands<T>& operands) override {
    DeviceSpmvPlan<T>::load(operands);
    if (misbehaves("in_load")) {
      DeviceSpmvPlan<T>::run();
      early_ = DeviceSpmvPlan<T>::fetch();
    }
    // Into an array of its own, which run() only copies.
    if (misbehaves("counted:copies") || misbehaves("counted:copies_by_kernel")) {
      const auto rows = static_cast<std::size_t>(a_.rows);
      const auto products = static_cast<std::size_t>(this->problem().n_vectors);
      done_ = DeviceArray<T>(rows * products);
      for (std::size_t k = 0; k < products; ++k) {
        const T* const x =
            this->chain() && k > 0 ? done_.data() + (k - 1) * rows : this->x_of(static_cast<Index>(k));
        launch(multiply<T>, shape_for(a_.rows), a_.view(), x, done_.data() + k * rows, Fault::none, 1);
      }
    }
  }
  void run() override {
    const auto size = static_cast<int>(done_.size());
    if (misbehaves("counted:copies") && size > 0) {
      STAGES_CUDA(cudaMemcpyAsync(this->y_of(0), done_.data(), done_.bytes(), cudaMemcpyDeviceToDevice,
                                  this->stream()));
    } else if (misbehaves("counted:copies_by_kernel") && size > 0) {
      launch(copy<T>, shape_for(size), done_.data(), this->y_of(0), size);
    } else if (!misbehaves("in_fetch") && !misbehaves("in_load")) {
      DeviceSpmvPlan<T>::run();
    }
  }
  Dense<T> fetch() override {
    if (misbehaves("in_load")) return early_;
    if (misbehaves("in_fetch")) DeviceSpmvPlan<T>::run();
    Dense<T> result = DeviceSpmvPlan<T>::fetch();
    if (misbehaves("another_shape")) result.rows = 1 << 30;
    if (misbehaves("zeros")) std::fill(result.data.begin(), result.data.end(), T{0});
    if (!misbehaves("previous")) return result;
    if (first_.data.empty()) first_ = result;
    return first_;
  }

 private:
  void product(const T* x, T* y) override {
    const char* const asked = std::getenv("STAGES_MISBEHAVE");
    if (asked != nullptr && std::strncmp(asked, "attack:", 7) == 0) {
      setenv("STAGES_MISBEHAVE", asked + 7, 1);
      attack();
      setenv("STAGES_MISBEHAVE", "nothing", 1);
    }
    if (misbehaves("nothing")) return;
    if (is_counted()) {
      for (const char* const how :
           {"noise", "much", "endless", "huge", "contradiction", "less", "no_stores", "nothing"})
        g_forges = g_forges || misbehaves((std::string("counted:") + how).c_str());
      if (misbehaves("counted:crash")) std::abort();
      if (misbehaves("counted:hang")) wait();
      if (misbehaves("counted:throw")) throw std::runtime_error("it is being counted");
      if (misbehaves("counted:wrong")) return;
    }
    if (misbehaves("counted:on_the_host")) return multiply_here(x, y);
    if (misbehaves("abort")) std::abort();
    if (misbehaves("exit")) std::exit(0);
    if (misbehaves("throw")) throw std::runtime_error("the device is gone");
    LaunchConfig shape = shape_for(a_.rows);
    if (misbehaves("counted:unseen")) return launch(multiply_unseen<T>, shape, a_.view(), x, y);
    const bool thrice = misbehaves("thrice");
    if (thrice) ++shape.grid.x;
    if (misbehaves("counted:another_stream")) shape.stream = other_;
    Fault fault = Fault::none;
    for (const auto& [name, named] : kFaults)
      if (misbehaves(name)) fault = named;
    launch(multiply<T>, shape, a_.view(), x, y, fault, thrice ? 3 : 1);
  }

  /// A thread for each; with room for what they race for.
  LaunchConfig shape_for(Index threads) {
    return {.grid = blocks_for(threads, kBlock),
            .block = kBlock,
            .shared_bytes = sizeof(T),
            .stream = this->stream()};
  }

  void multiply_here(const T* x, T* y) {
    const Csr<T>& a = this->a();
    std::vector<T> from(static_cast<std::size_t>(a.cols)), to(static_cast<std::size_t>(a.rows));
    STAGES_CUDA(cudaMemcpy(from.data(), x, from.size() * sizeof(T), cudaMemcpyDeviceToHost));
    for (Index i = 0; i < a.rows; ++i) {
      const auto columns = row_columns(a, i);
      const auto values = row_values(a, i);
      for (std::size_t k = 0; k < columns.size(); ++k)
        to[static_cast<std::size_t>(i)] += values[k] * from[static_cast<std::size_t>(columns[k])];
    }
    STAGES_CUDA(cudaMemcpy(y, to.data(), to.size() * sizeof(T), cudaMemcpyHostToDevice));
  }

  DeviceCsr<T, std::int32_t> a_;
  Stream other_;
  DeviceArray<T> done_;
  Dense<T> first_, early_;
};

}  // namespace

void add_task(Registry& registry) {
  if (misbehaves("shrink")) {
    setenv("STAGES_BATTERY_ONLY", "empty", 1);
    setenv("STAGES_MISBEHAVE", "zeros", 1);
  }
  registry.add<Misbehaving>({.name = "task/misbehaving",
                             .idea = "what STAGES_MISBEHAVE says",
                             .claims = {.bitwise_reproducible = false},
                             .needs = {.gpu = true}});
  if (misbehaves("two_entries")) registry.add<Misbehaving>({.name = "task/another", .idea = "one too many"});
}

}  // namespace stages

// The C library's own, for a linker that takes the first definition that it meets: what leaves this process.
extern "C" ssize_t send(int socket, const void* data, std::size_t bytes, int flags) {
  static std::string head;
  const auto write_all = [&](const char* from, std::size_t count) {
    for (std::size_t done = 0; done < count;) {
      const ssize_t n = sendto(socket, from + done, count - done, flags, nullptr, 0);
      if (n < 0) return n;
      done += static_cast<std::size_t>(n);
    }
    return static_cast<ssize_t>(count);
  };
  if (!stages::g_forges) return sendto(socket, data, bytes, flags, nullptr, 0);
  if (bytes == 16 && head.empty()) {
    head.assign(static_cast<const char*>(data), bytes);
    return static_cast<ssize_t>(bytes);
  }
  stages::g_forges = false;
  const std::string body = stages::forged_counts();
  const std::uint64_t length = body.size();
  std::memcpy(head.data() + 8, &length, sizeof length);
  const bool sent = write_all(head.data(), head.size()) > 0 && write_all(body.data(), body.size()) > 0;
  head.clear();
  return sent ? static_cast<ssize_t>(bytes) : -1;
}
