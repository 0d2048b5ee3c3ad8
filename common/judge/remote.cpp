#include "common/judge/remote.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/cli/machines/child.hpp"
#include "common/harness/seconds.hpp"
#include "common/judge/text.hpp"
#include "common/matrix/error.hpp"

namespace stages::judge {
namespace {

constexpr double kLeastToEnd = 2,
                 kMostToEnd = 10;               ///< seconds that a process has to end, once it has hung up
constexpr std::uint64_t kMostText = 1'000'000;  ///< bytes of a reason

/// Bytes of a result that is not absurd. What is wrong with one that is a little too long, the check says.
template <class T>
std::uint64_t most_bytes(const SpmvProblem<T>& p) {
  return static_cast<std::uint64_t>(
             Dense<T>::elements(p.a->rows, p.n_vectors, Layout::col_major, p.a->rows)) *
         sizeof(T);
}
template <class T>
std::uint64_t most_bytes(const SpmmProblem<T>& p) {
  return static_cast<std::uint64_t>(Dense<T>::elements(p.a->rows, p.n_cols, p.c_layout, p.ldc)) * sizeof(T);
}
template <class T>
std::uint64_t most_bytes(const SpgemmProblem<T>& p) {
  return static_cast<std::uint64_t>(p.a->rows + 1) * sizeof(Offset) +
         static_cast<std::uint64_t>(p.result_bound) * (sizeof(Index) + sizeof(T));
}

template <class Problem>
bool loads_where_it_stays(const Problem&) {
  return false;
}
template <class T>
bool loads_where_it_stays(const SpgemmProblem<T>& p) {
  return p.destination != Destination::host;
}

template <class ProblemType>
class RemotePlan final : public Plan<ProblemType> {
 public:
  using Problem = ProblemType;

  RemotePlan(Student& student, const Problem& problem, Values values)
      : student_(student),
        with_run_(values == Values::with_run && !loads_where_it_stays(problem)),
        most_(2 * most_bytes(problem) + kMostText) {
    Writer out;
    put_problem(out, problem);
    student_.ask(Ask::problem, out.take());
  }
  ~RemotePlan() override { student_.end_plan(); }

  void load(const typename Problem::Operands& operands) override {
    if (!with_run_) return ask_with(Ask::load, operands);
    operands_ = &operands;
    typename Problem::Operands shown = operands;
    forget(shown);
    ask_with(Ask::load, shown);
  }
  void reset() override { student_.ask(Ask::reset); }
  void run() override {
    if (with_run_) return ask_with(Ask::run, *operands_);
    student_.ask(Ask::run, {}, 1);
  }
  typename Problem::Result fetch() override {
    const Bytes answer = student_.ask(Ask::fetch, {}, 0, most_);
    typename Problem::Result result;
    try {
      Reader in(answer);
      take(in, result);
    } catch (const Error& error) {
      throw Lost(fmt::format("answers what is no result: {}", error.what()));
    }
    return result;
  }

 private:
  void ask_with(Ask what, const typename Problem::Operands& operands) {
    Writer out;
    put(out, operands);
    student_.ask(what, out.take(), 1);
  }

  Student& student_;
  bool with_run_;
  std::uint64_t most_;
  const typename Problem::Operands* operands_ = nullptr;  ///< those loaded last, for the next run
};

template <template <class> class ProblemOf>
Factory remote_plans(Student& student, Values values) {
  return looking<ProblemOf>([&student, values]<class Problem>(const Problem&, Exec&, const ParameterValues&) {
    return Offer<Problem>{
        [&student, values](const Problem& problem, Exec&) -> std::unique_ptr<Plan<Problem>> {
          return std::make_unique<RemotePlan<Problem>>(student, problem, values);
        }};
  });
}

}  // namespace

Student::Student(const Confinement& confinement, const Command& command, std::string file, double seconds)
    : memory_(command.limits.memory),
      file_(std::move(file)),
      path_(command.directory / command.words.back()) {
  listen_at(path_);
  confinement.give(path_);
  allow(seconds);
  process_ = std::make_unique<Confined>(confinement, command);
  await(listener_.get(), POLLIN);
  socket_.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket_.get() < 0) throw Lost("cannot be spoken to");
  Head head;
  transfer(&head, sizeof head, POLLIN);
  Bytes body(sizeof registered_.entries + sizeof(Op));
  if (head.kind != static_cast<std::uint32_t>(Say::ready) || head.bytes != body.size())
    throw Lost("answers what is no answer");
  transfer(body.data(), body.size(), POLLIN);
  try {
    Reader in(body);
    in.number(registered_.entries);
    in.choice(registered_.op, Op::spgemm);
  } catch (const Error&) {
    throw Lost("answers what is no answer");
  }
}

/// A socket's name is short, and the directory's may be long; so it is reached through a descriptor.
void Student::listen_at(const std::filesystem::path& path) {
  unlink(path.c_str());  // the one before
  const Descriptor directory(open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("/proc/self/fd/{}/{}", directory.get(), path.filename().string());
  std::memcpy(address.sun_path, name.data(), std::min(name.size(), sizeof address.sun_path - 1));
  const bool listens =
      directory.get() >= 0 && listener_.get() >= 0 &&
      bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(listener_.get(), 1) == 0;
  if (!listens)
    fail("{}: no socket can be had there: {}; name another place in TMPDIR", path.string(),
         std::strerror(errno));
}

void Student::allow(double seconds) { allowed_ = left_ = seconds; }

/// Why the process does not answer.
void Student::lose(Confined::Event event) {
  using Event = Confined::Event;
  if (event == Event::ready) {  // it has hung up; mostly because it ends
    const auto patience = std::chrono::duration<double>(std::clamp(allowed_, kLeastToEnd, kMostToEnd));
    event = process_->wait(
        -1, 0, Confined::Clock::now() + std::chrono::duration_cast<Confined::Clock::duration>(patience));
    if (event == Event::too_late) throw Lost("hangs up without ending");
  }
  if (event != Event::ended) process_->end();
  if (event == Event::too_late) throw Lost(fmt::format("hangs: no result after {:.3g} s", allowed_));
  const std::string& output = process_->output();
  // All processes together pass the limit here, or one of them passes it as AddressSanitizer sees it.
  if (event == Event::too_much_memory || (event == Event::ended && holds(output, "rss limit exhausted")))
    throw Lost(fmt::format("takes more than {:g} GB of memory", memory_ / 1e9));
  if (event == Event::too_much_disk) throw Lost("writes more than 1 GB to the disk");
  if (event == Event::too_much_output) throw Lost("writes more than 16 MB of text");
  if (const std::string said = sanitizer_text(output, file_); !said.empty()) throw Lost(said);
  if (process_->signal() != 0) throw Lost("crashes: " + signal_text(process_->signal()));
  if (const std::string said = last_words(output); !said.empty())
    throw Lost("ends the program: " + one_line(said));
  throw Lost(fmt::format("ends the program, with exit code {}", process_->exit_code()));
}

void Student::await(int descriptor, short events) {
  const auto start = Confined::Clock::now();
  const auto patience = std::chrono::duration<double>(left_);
  const auto event = process_->wait(descriptor, events,
                                    start + std::chrono::duration_cast<Confined::Clock::duration>(patience));
  left_ -= seconds_since(start);
  if (event != Confined::Event::ready) lose(event);
}

void Student::transfer(void* data, std::size_t bytes, short events) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t n =
        events == POLLOUT ? send(socket_.get(), at, bytes, MSG_NOSIGNAL) : recv(socket_.get(), at, bytes, 0);
    if (n > 0) {
      at += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      await(socket_.get(), events);
    } else {
      lose(Confined::Event::ready);
    }
  }
}

void Student::require_there() const {
  if (!lost_.empty()) throw Lost(lost_);
}

void Student::end_plan() noexcept {
  if (!lost_.empty()) return;
  try {
    ask(Ask::end);
  } catch (const std::exception& error) {
    if (lost_.empty()) return;
    lost_ = error.what();
    lost_.insert(std::min(lost_.find(':'), lost_.size()), " when it is destroyed");
  }
}

Bytes Student::ask(Ask what, const Bytes& body, std::uint32_t times, std::uint64_t most) {
  require_there();
  lost_ = "is lost";  // unless an answer comes that can be understood
  Head question{static_cast<std::uint32_t>(what), times, body.size()};
  transfer(&question, sizeof question, POLLOUT);
  transfer(const_cast<char*>(body.data()), body.size(), POLLOUT);
  Head head;
  transfer(&head, sizeof head, POLLIN);
  const auto say = static_cast<Say>(head.kind);
  const Say expected = what == Ask::fetch || what == Ask::count ? Say::result : Say::done;
  const bool text = say == Say::threw || (say == Say::refused && what == Ask::problem);
  if (say != expected && !text) throw Lost("answers what is no answer");
  if (head.bytes > (text ? kMostText : most))
    throw Lost(
        fmt::format("answers with {} bytes, where {} are the most", head.bytes, text ? kMostText : most));
  Bytes answer(head.bytes);
  transfer(answer.data(), answer.size(), POLLIN);
  lost_.clear();
  if (!text) return answer;
  const std::string said = thrown_text({answer.data(), answer.size()});
  throw Lost((say == Say::refused ? "refuses what it should run: " : "throws: ") + said);
}

Entry remote_entry(Student& student, const Entry& reference, Values values) {
  const auto made = reference.op == Op::spmv   ? remote_plans<SpmvProblem>
                    : reference.op == Op::spmm ? remote_plans<SpmmProblem>
                                               : remote_plans<SpgemmProblem>;
  return {{.name = "student/entry", .idea = {}, .claims = reference.claims, .needs = reference.needs},
          made(student, values)};
}

}  // namespace stages::judge
