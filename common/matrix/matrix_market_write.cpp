// Writing Matrix Market files.

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "common/matrix/atomic_file.hpp"
#include "common/matrix/matrix_market.hpp"

namespace stages {
namespace {

/// Collects lines and hands them on in large pieces.
class LineWriter {
 public:
  explicit LineWriter(const std::string& path) : file_(path) {}

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_.push_back('\n');
    if (text_.size() >= kPiece) hand_on();
  }
  void commit() {
    hand_on();
    file_.commit();
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 18;

  void hand_on() {
    file_.write({text_.data(), text_.size()});
    text_.clear();
  }

  AtomicFile file_;
  fmt::memory_buffer text_;
};

/// A value for `{}`, which writes the fewest digits that read back as the same bits; but not `-nan`, which not
/// every reader takes.
template <class T>
T writable(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

}  // namespace

template <class T>
void write_matrix_market(const std::string& path, const Csr<T>& a, bool pattern) {
  LineWriter out(path);
  out.line("%%MatrixMarket matrix coordinate {} general", pattern ? "pattern" : "real");
  out.line("{} {} {}", a.rows, a.cols, a.nnz());
  for (Index i = 0; i < a.rows; ++i) {
    const auto columns = row_columns(a, i);
    const auto values = row_values(a, i);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      if (pattern) {
        out.line("{} {}", i + 1, columns[k] + 1);
      } else {
        out.line("{} {} {}", i + 1, columns[k] + 1, writable(values[k]));
      }
    }
  }
  out.commit();
}

template <class T>
void write_matrix_market(const std::string& path, const Dense<T>& a) {
  LineWriter out(path);
  out.line("%%MatrixMarket matrix array real general");
  out.line("{} {}", a.rows, a.cols);
  for (Index j = 0; j < a.cols; ++j)
    for (Index i = 0; i < a.rows; ++i) out.line("{}", writable(a(i, j)));
  out.commit();
}

#define STAGES_INSTANTIATE(T)                                                    \
  template void write_matrix_market<T>(const std::string&, const Csr<T>&, bool); \
  template void write_matrix_market<T>(const std::string&, const Dense<T>&);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)

}  // namespace stages
