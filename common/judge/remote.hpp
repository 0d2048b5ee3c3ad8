#pragma once
// A student's process as the judge has it: a Plan like any other, whose calls go to the process and come back
// as bytes that are looked at. A process that ends, hangs, takes too much or talks nonsense is lost, with the
// reason; the judge goes on with a new one.

#include <memory>
#include <stdexcept>
#include <string>

#include "common/harness/registry.hpp"
#include "common/judge/confined.hpp"
#include "common/judge/student/messages.hpp"
#include "common/matrix/descriptor.hpp"

namespace stages::judge {

/// The process does not give what it is asked for: it does not answer any more, its code has thrown an
/// exception, or it refuses the problem. The text says which, and why.
struct Lost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Student {
 public:
  /// What it says of itself when it begins.
  struct Registered {
    std::uint32_t entries = 0;
    Op op = Op::spmv;  ///< of the first
  };

  /// Starts `command`, whose last word is the name of a socket in its directory. Throws Lost unless the
  /// process is ready within `seconds`. `file` is the name of the student's source.
  Student(const Confinement& confinement, const Command& command, std::string file, double seconds);
  Student(const Student&) = delete;
  Student& operator=(const Student&) = delete;

  const Registered& registered() const { return registered_; }

  /// It has so many seconds, from now on and for all answers together.
  void allow(double seconds);

  /// Asks, and returns what is answered: at most `most` bytes. Throws Lost.
  Bytes ask(Ask what, const Bytes& body = {}, std::uint32_t times = 0, std::uint64_t most = 0);
  /// Has the plan destroyed. Does not throw: whoever needs the process next hears of it.
  void end_plan() noexcept;
  /// Throws Lost, with the reason, where the process was lost before.
  void require_there() const;

 private:
  void listen_at(const std::filesystem::path& path);
  /// Receives all of these bytes (POLLIN), or sends them (POLLOUT).
  void transfer(void* data, std::size_t bytes, short events);
  void await(int descriptor, short events);
  [[noreturn]] void lose(Confined::Event event);

  double allowed_ = 0, left_ = 0;  ///< seconds
  double memory_;
  std::string file_;
  std::string lost_;  ///< why it cannot be asked any more; empty: it can
  Descriptor listener_, socket_;
  std::filesystem::path path_;
  std::unique_ptr<Confined> process_;
  Registered registered_;
};

/// When a plan sees the operands that it multiplies: loaded, or not before run(). A plan on the host that keeps
/// views of them (plan.hpp) needs no more; one on a GPU has to bring them there in load(), as has one of ranks
/// whose operands are where the result is to stay.
enum class Values { loaded, with_run };

/// An entry that runs in the student's process, held to what the reference claims.
Entry remote_entry(Student& student, const Entry& reference, Values values = Values::loaded);

}  // namespace stages::judge
