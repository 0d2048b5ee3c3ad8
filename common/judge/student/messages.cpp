#include "common/judge/student/messages.hpp"

#include "common/matrix/error.hpp"

namespace stages::judge {

std::span<const char> Reader::next(std::size_t bytes) {
  if (bytes > rest_.size()) fail("a message ends too early: {} bytes are left of {}", rest_.size(), bytes);
  const auto taken = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return taken;
}

void Reader::require(std::uint64_t count, std::size_t size) const {
  if (count > rest_.size() / size)
    fail("a message announces {} numbers and has {} bytes left", count, rest_.size());
}

void Reader::end() const {
  if (!rest_.empty()) fail("a message has {} bytes too many", rest_.size());
}

void Reader::fail_choice() { fail("a message names a kind that there is not"); }

ProblemKind take_kind(Reader& in) {
  ProblemKind kind;
  in.choice(kind.op, Op::spgemm);
  in.number(kind.single_precision);
  return kind;
}

}  // namespace stages::judge
