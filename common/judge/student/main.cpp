// A student's program: his file, what an entry needs, and this loop, which does what the judge asks for
// (common/judge). There is no step in it, no battery and no result: whatever his code does here, it can only
// answer.
//
//   student SOCKET       SOCKET: where the judge listens
//
// Under mpirun rank 0 speaks with the judge, and leads the others.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/cli/machines/devices.hpp"
#include "common/cli/machines/ranks.hpp"
#include "common/cli/orders.hpp"
#include "common/harness/registry.hpp"
#include "common/judge/student/counting.hpp"
#include "common/judge/student/messages.hpp"
#include "common/matrix/descriptor.hpp"
#include "common/matrix/error.hpp"

namespace stages {

/// What a student's file defines: it registers one entry.
void add_task(Registry& registry);

namespace judge {
namespace {

/// The judge, as rank 0 hears it.
class Judge {
 public:
  explicit Judge(const char* path) : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (std::strlen(path) >= sizeof address.sun_path) fail("{}: too long for the name of a socket", path);
    std::strcpy(address.sun_path, path);
    if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      fail("{}: nobody listens: {}; `stages grade` starts this program", path, std::strerror(errno));
  }

  /// The next question. The judge ends the line when it has no more: then this program ends.
  Head ask(Bytes& body) const {
    Head head;
    all(reinterpret_cast<char*>(&head), sizeof head, read);
    body.resize(head.bytes);
    all(body.data(), body.size(), read);
    return head;
  }
  void say(Say what, const Bytes& body = {}) const {
    const Head head{static_cast<std::uint32_t>(what), 0, body.size()};
    const auto send_some = [](int to, const char* from, std::size_t n) {
      return send(to, from, n, MSG_NOSIGNAL);
    };
    all(reinterpret_cast<const char*>(&head), sizeof head, send_some);
    all(body.data(), body.size(), send_some);
  }
  void say(Say what, const std::string& text) const { say(what, Bytes(text.begin(), text.end())); }

 private:
  /// Has `some`, which reads or writes as many bytes as it likes, do it with all of them.
  template <class Byte, class Some>
  void all(Byte* at, std::size_t bytes, Some&& some) const {
    while (bytes > 0) {
      const ssize_t n = some(socket_.get(), at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) _exit(0);
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }

  Descriptor socket_;
};

class Server {
 public:
  Server(Ranks& ranks, Exec& exec, const Entry& entry, const Judge* judge)
      : alone_(!ranks.started()), exec_(exec), entry_(entry), judge_(judge) {}

  /// Collective: answers until the judge has no more questions.
  [[noreturn]] void serve() {
    for (;;) {
      while (next() != Ask::problem) answer([] { return Say::done; });  // the plan of a problem that threw
      Reader in(body_);
      ProblemKind kind;
      if (judge_ != nullptr) kind = take_kind(in);
      kind = exec_.communicator().agreed(kind);
      if (kind.op == Op::spmv)
        kind.single_precision ? work<SpmvProblem<float>>(in) : work<SpmvProblem<double>>(in);
      if (kind.op == Op::spmm)
        kind.single_precision ? work<SpmmProblem<float>>(in) : work<SpmmProblem<double>>(in);
      if (kind.op == Op::spgemm)
        kind.single_precision ? work<SpgemmProblem<float>>(in) : work<SpgemmProblem<double>>(in);
    }
  }

 private:
  /// Rank 0's next question, on all ranks. Its body is rank 0's.
  Ask next() {
    if (judge_ != nullptr) head_ = judge_->ask(body_);
    head_ = exec_.communicator().agreed(head_);
    return static_cast<Ask>(head_.kind);
  }

  /// Does `work`, which says how to answer. An exception is the answer where no other rank waits meanwhile.
  template <class Work>
  bool answer(Work&& work) {
    reply_.clear();
    if (!alone_) {
      const Say what = work();
      if (judge_ != nullptr) judge_->say(what, reply_);
      return true;
    }
    std::string thrown;
    try {
      judge_->say(work(), reply_);
      return true;
    } catch (const std::exception& error) {
      thrown = error.what();
    } catch (...) {
      thrown = "something that is no std::exception";
    }
    judge_->say(Say::threw, thrown);
    return false;
  }

  /// The operands of the question, on rank 0. Those of a run take the places of those loaded.
  template <class Operands>
  void take_operands(Operands& to) {
    if (judge_ == nullptr) return;
    Reader from(body_);
    take(from, to);
    clear();
  }
  /// Nothing of the question stays where a plan could read it.
  void clear() {
    std::fill(body_.begin(), body_.end(), '\0');
    body_.clear();
  }

  /// The problem, of which rank 0 tells the others.
  template <class Problem>
  Problem shared(Reader& in) {
    Problem problem;
    if (judge_ != nullptr) take_problem(in, problem);
    const Order order = exec_.communicator().agreed(order_for(problem));
    return judge_ != nullptr ? problem : ordered<Problem>(order);
  }

  template <class Problem>
  void work(Reader& in) {
    Problem problem;
    std::unique_ptr<Plan<Problem>> plan;
    const bool prepared = answer([&] {
      problem = shared<Problem>(in);
      const Offer<Problem> offer = entry_.on<Problem>().look(problem, exec_);
      if (alone_) {
        if (const auto refused = offer.refuse(problem, exec_)) {
          reply_.assign(refused->begin(), refused->end());
          return Say::refused;
        }
      }
      plan = offer.prepare(problem, exec_);
      return Say::done;
    });
    if (!prepared || !plan) return;
    typename Problem::Operands operands[2];  // a plan may keep views of those loaded last
    std::size_t place = 0;
    for (Ask ask = next(); ask != Ask::end; ask = next()) {
      answer([&] {
        if (ask == Ask::load) {
          place = 1 - place;
          take_operands(operands[place]);
          plan->load(operands[place]);
        } else if (ask == Ask::reset) {
          plan->reset();
        } else if (ask == Ask::run) {
          if (head_.bytes > 0) take_operands(operands[place]);
          // The judge takes the time; what time() waits for is all that a run may leave behind.
          exec_.time([&] {
            for (std::uint32_t k = 0; k < head_.times; ++k) plan->run();
          });
          if (head_.bytes > 0) forget(operands[place]);
        } else if (ask == Ask::fetch) {
          Writer out;
          put(out, plan->fetch());
          reply_ = out.take();
          return Say::result;
        } else if (ask == Ask::count && alone_) {
          Writer out;
          if (head_.times == kRaces) {
            put(out, look_for_races(*plan, exec_));
          } else {
            put(out, count(*plan, exec_, problem, operands[place]));
          }
          reply_ = out.take();
          return Say::result;
        }
        return Say::done;
      });
    }
    answer([&] {
      plan.reset();
      return Say::done;
    });
  }

  bool alone_;
  Exec& exec_;
  const Entry& entry_;
  const Judge* judge_;  ///< null: not rank 0
  Head head_;
  Bytes body_, reply_;
};

int run(Ranks& ranks, const char* path) {
  const std::unique_ptr<Judge> judge = ranks.root() ? std::make_unique<Judge>(path) : nullptr;
  Registry registry;
  add_task(registry);
  const auto entries = registry.entries();
  if (judge) {
    Writer out;
    out.number(static_cast<std::uint32_t>(entries.size()));
    out.number(entries.empty() ? Op::spmv : entries[0].op);
    judge->say(Say::ready, out.take());
  }
  if (entries.empty()) return 0;
  const Devices devices;
  Server(ranks, ranks.started() ? ranks.exec() : devices.machine().of(entries[0]), entries[0], judge.get())
      .serve();
}

}  // namespace
}  // namespace judge
}  // namespace stages

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: student SOCKET; `stages grade` starts this program\n");
    return 2;
  }
  stages::Ranks ranks;
  try {
    return stages::judge::run(ranks, argv[1]);
  } catch (const std::exception& error) {
    const std::string what = fmt::format("rank {}: {}\n", ranks.rank(), error.what());
    if (ranks.size() > 1) ranks.abort(what, 2);
    fmt::print(stderr, "{}", what);
    return 2;
  }
}
