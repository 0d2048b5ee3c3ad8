// The readers of Matrix Market files and of edge lists on arbitrary bytes (libFuzzer). Whatever they are given,
// they must either throw Error or return a canonical matrix, and what they return must survive being read by
// another road:
//  - as a stream of a few bytes at a time, it is the same matrix;
//  - as a dense matrix, where that is small, it has the same elements;
//  - with the dialect's options, it is a matrix or an Error;
//  - an undirected graph is symmetric.
// Start it with data/matrix_market/accept, data/matrix_market/reject and data/edge_lists as seeds.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "common/matrix/byte_source.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/edge_list.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/matrix_market.hpp"

namespace {

using namespace stages;

/// A few bytes at a time; how many follows from the bytes read so far.
class Trickle : public ByteSource {
 public:
  explicit Trickle(std::string_view bytes) : inner_(bytes) {}
  std::size_t read(std::span<char> to) override {
    step_ = step_ * 5 % 61 + 1;
    return inner_.read(to.first(std::min(step_, to.size())));
  }
  void rewind() override { inner_.rewind(); }
  Offset size() const override { return -1; }

 private:
  MemorySource inner_;
  std::size_t step_ = 7;
};

constexpr Offset kMostBytes = Offset{1} << 24;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// The matrix that `reader` returns, or nothing where it refuses the bytes, with a message as it must be.
template <class T, class Reader>
std::optional<Csr<T>> attempt(Reader reader) {
  try {
    Csr<T> a = reader();
    require_canonical(a, "the matrix");
    return a;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    require(message.starts_with("bytes:"), "an error without a place");
    require(message.find('\n') == std::string_view::npos, "an error of more than one line");
    return std::nullopt;
  }
}

/// A Matrix Market file.
template <class T>
std::optional<Csr<T>> read(ByteSource& bytes, ReadOptions options) {
  options.max_bytes = kMostBytes;
  return attempt<T>([&] {
    ReadReport report;
    Csr<T> a = read_matrix_market<T>(bytes, "bytes", options, &report);
    require(options.drop_out_of_range || report.dropped == 0, "entries were dropped unasked");
    return a;
  });
}

/// An edge list, as it is guessed, and with other options.
void read_edges(std::string_view bytes) {
  EdgeListOptions options{.nodes = 1 << 10};
  const auto edges = [&](ByteSource& source) {
    return attempt<double>([&] { return read_edge_list(source, "bytes", options); });
  };
  MemorySource source(bytes), again(bytes);
  Trickle trickle(bytes);
  const auto a = edges(source), b = edges(trickle);
  require(a.has_value() == b.has_value(), "a graph in one piece only, or in small pieces only");
  options.nodes.reset();
  options.undirected = options.compact = true;
  const auto both = edges(again);
  require(both || !a, "a graph that is none when it is undirected");
  if (!a) return;
  require(a->rows == a->cols && a->nnz() > 0 && a->nnz() == b->nnz(), "no square matrix with the edges");
  const Csr<double> mirrored = transpose(*both);
  require(mirrored.row_ptr == both->row_ptr && mirrored.col_idx == both->col_idx, "it is not symmetric");
  for (Index i = 0; i < both->rows; ++i) require(both->row_nnz(i) > 0, "a node without edges was kept");
}

template <class T>
bool same_values(const Buffer<T>& a, const Buffer<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// The same elements as a dense matrix, where that is small.
void compare_with_dense(std::string_view bytes, const Csr<double>& a) {
  if (static_cast<double>(a.rows) * a.cols > 1e5) return;
  MemorySource source(bytes);
  const Dense<double> dense =
      read_matrix_market_dense<double>(source, "bytes", Layout::row_major, {.max_bytes = kMostBytes});
  const Csr<double> back = to_csr(dense);
  Offset nonzeros = 0;
  for (Index i = 0; i < a.rows; ++i) {
    for (Offset k = a.row_ptr[static_cast<std::size_t>(i)]; k < a.row_ptr[static_cast<std::size_t>(i) + 1];
         ++k) {
      const double value = a.values[static_cast<std::size_t>(k)];
      if (value == 0) continue;
      ++nonzeros;
      const double other = dense(i, a.col_idx[static_cast<std::size_t>(k)]);
      require(value == other || (value != value && other != other), "the dense matrix has another value");
    }
  }
  require(back.nnz() == nonzeros, "the dense matrix has other non-zeros");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::unique_ptr<ByteSource> source;
  try {
    source = unpacked(std::make_unique<MemorySource>(bytes));
  } catch (const Error&) {
    return 0;
  }
  const auto a = read<double>(*source, {});
  if (bytes.starts_with("\x1f\x8b")) return 0;

  Trickle trickle(bytes);
  const auto b = read<double>(trickle, {});
  require(a.has_value() == b.has_value(), "accepted in one piece only, or in small pieces only");
  if (a) {
    require(a->row_ptr == b->row_ptr && a->col_idx == b->col_idx && same_values(a->values, b->values),
            "another matrix when read in small pieces");
    compare_with_dense(bytes, *a);
  }
  read_edges(bytes);
  MemorySource again(bytes);
  read<float>(again, {.index_base = 0, .drop_out_of_range = true, .allow_non_finite = false});
  return 0;
}
