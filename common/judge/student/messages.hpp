#pragma once
// What the judge and a student's process say to each other, over a socket: frames of a head and as many bytes
// as it announces. The judge asks, and the student's process answers each question once, after it has said
// that it is ready.
//
//   judge     problem   the problem, whole; ends the plan of the one before. Answered by done, refused, threw
//             load      operands
//             reset, fetch, end
//             run         how often, and perhaps operands: they come into the arrays of those loaded last, and
//                         are gone after it (the result's C0 stays). So load() and fetch() of a host's plan,
//                         which nobody times, never see what is multiplied
//             count     runs once, and says what its kernels did (counts.hpp); times: kCount or kRaces
//   student   ready     how many entries the file registers, and for which operation
//             done, result (of fetch and count), refused, threw (both with a text)
//
// Either side takes what it gets for any bytes: a Reader throws where they end too early or too late, or
// announce more than there are.

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "common/harness/plan.hpp"

namespace stages::judge {

enum class Ask : std::uint32_t { problem = 1, load, reset, run, fetch, end, count };
enum class Say : std::uint32_t { ready = 101, done, result, refused, threw };

struct Head {
  std::uint32_t kind = 0;
  std::uint32_t times = 0;  ///< run: how often
  std::uint64_t bytes = 0;  ///< that follow
};

using Bytes = std::vector<char>;

/// Puts values one behind the other.
class Writer {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    append(&value, sizeof value);
  }
  /// As Reader has it; what stands here is one of those.
  template <class T>
  void choice(T value, T /*last*/) {
    number(value);
  }
  template <class Array>
  void array(const Array& values) {
    number(static_cast<std::uint64_t>(values.size()));
    append(values.data(), values.size() * sizeof(*values.data()));
  }
  Bytes take() { return std::move(bytes_); }

 private:
  void append(const void* data, std::size_t bytes) {
    if (bytes == 0) return;
    const std::size_t before = bytes_.size();
    bytes_.resize(before + bytes);
    std::memcpy(bytes_.data() + before, data, bytes);
  }
  Bytes bytes_;
};

/// Takes them off again.
class Reader {
 public:
  explicit Reader(std::span<const char> bytes) : rest_(bytes) {}

  template <class T>
  void number(T& value) {
    static_assert(std::is_arithmetic_v<T>);
    if constexpr (std::is_same_v<T, bool>) {  // any byte but 0 is true
      value = next(1).front() != 0;
    } else {
      std::memcpy(&value, next(sizeof value).data(), sizeof value);
    }
  }
  /// An enumeration with the values 0 .. last.
  template <class T>
  void choice(T& value, T last) {
    std::underlying_type_t<T> read{};
    number(read);
    if (read < 0 || read > static_cast<std::underlying_type_t<T>>(last)) fail_choice();
    value = static_cast<T>(read);
  }
  template <class Array>
  void array(Array& values) {
    std::uint64_t count = 0;
    number(count);
    require(count, sizeof(*values.data()));
    values.resize(count);
    const auto bytes = next(count * sizeof(*values.data()));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  /// Throws Error unless all has been taken.
  void end() const;

 private:
  std::span<const char> next(std::size_t bytes);
  void require(std::uint64_t count, std::size_t size) const;
  [[noreturn]] static void fail_choice();

  std::span<const char> rest_;
};

/// What a message holds, in its order: io is a Writer or a Reader. Of a problem all but its matrices.
template <class Io, class Of>
void pass(Io& io, Of& of) {
  if constexpr (requires { of.ld; }) {  // Dense
    io.number(of.rows);
    io.number(of.cols);
    io.number(of.ld);
    io.choice(of.layout, Layout::col_major);
    io.array(of.data);
  } else if constexpr (requires { of.row_ptr; }) {  // Csr
    io.number(of.rows);
    io.number(of.cols);
    io.array(of.row_ptr);
    io.array(of.col_idx);
    io.array(of.values);
  } else if constexpr (requires { of.x; }) {  // operands
    pass(io, of.x);
  } else if constexpr (requires { of.c0; }) {
    pass(io, of.b);
    pass(io, of.c0);
  } else if constexpr (requires { of.a_values; }) {
    io.array(of.a_values);
    io.array(of.b_values);
  } else if constexpr (Of::kOp == Op::spmv) {
    io.array(of.name);
    io.choice(of.mode, Mode::chain);
    io.number(of.n_vectors);
  } else if constexpr (Of::kOp == Op::spmm) {
    io.array(of.name);
    io.number(of.n_cols);
    io.number(of.alpha);
    io.number(of.beta);
    io.choice(of.b_layout, Layout::col_major);
    io.choice(of.c_layout, Layout::col_major);
    io.number(of.ldb);
    io.number(of.ldc);
  } else {
    io.array(of.name);
    io.choice(of.destination, Destination::one_gpu);
    io.number(of.products);
    io.number(of.max_row_products);
    io.number(of.result_bound);
  }
}

/// Operands, results and counts.
template <class Of>
void put(Writer& out, const Of& of) {
  pass(out, of);
}
/// Throws Error where the bytes are none.
template <class Of>
void take(Reader& in, Of& of) {
  pass(in, of);
  in.end();
}

template <class Problem>
void put_problem(Writer& out, const Problem& problem) {
  out.number(Problem::kOp);
  out.number(std::is_same_v<typename Problem::Value, float>);
  pass(out, problem);
  pass(out, *problem.a);
  if constexpr (Problem::kOp == Op::spgemm) pass(out, *problem.b);
}

/// The operation and the type of value that put_problem() has begun with.
struct ProblemKind {
  Op op = Op::spmv;
  bool single_precision = true;
};
ProblemKind take_kind(Reader& in);

/// What put_problem() has written after the kind.
template <class Problem>
void take_problem(Reader& in, Problem& problem) {
  const auto matrix = [&] {
    auto taken = std::make_shared<Csr<typename Problem::Value>>();
    pass(in, *taken);
    return taken;
  };
  pass(in, problem);
  problem.a = matrix();
  if constexpr (Problem::kOp == Op::spgemm) problem.b = matrix();
  in.end();
}

/// Fills what is multiplied with NaN.
template <class Operands>
void forget(Operands& operands) {
  if constexpr (requires { operands.x; }) {
    poison(operands.x.data);
  } else if constexpr (requires { operands.b; }) {
    poison(operands.b.data);
  } else {
    poison(operands.a_values);
    poison(operands.b_values);
  }
}

}  // namespace stages::judge
