// The sweep: sizes, widths and lengths one after another, for the borders that nobody thought of. All else that
// a problem has is drawn by hashing, so that each meets each in time.

#include <fmt/format.h>

#include <array>
#include <bit>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "common/battery/matrices.hpp"
#include "common/matrix/convert.hpp"
#include "common/matrix/random.hpp"
#include "tests/battery.hpp"

namespace stages::battery {
namespace {

using namespace matrices;

/// A number from `least` to `most` that belongs to a case and a purpose.
Index drawn(Index number, std::uint64_t purpose, Index least, Index most) {
  const auto word = random::Stream(purpose, static_cast<random::Word>(number)).next();
  return least + static_cast<Index>(random::scale(word, static_cast<random::Word>(most - least + 1)));
}

/// Rows of 0, 1, ... `most` - 1 non-zeros, in an order that has long ones beside short ones.
Matrix all_lengths(Index most, Index step) {
  std::vector<Index> lengths;
  for (Index i = 0; i < most; ++i) lengths.push_back(static_cast<Index>(Offset{i} * step % most));
  return with_row_lengths(lengths);
}

/// A small matrix of some kind with about so many rows and columns.
Matrix some(Index number, Index rows, Index cols) {
  switch (drawn(number, 1, 0, 7)) {
    case 0: return gaps(rows, cols);
    case 1: return dense_row(rows, cols, drawn(number, 2, 0, rows - 1));
    case 2: return equal_rows(rows, cols, drawn(number, 3, 0, std::min(cols, 40)));
    case 3: return diagonal(rows, cols);
    case 4: return dense_column(rows, cols, drawn(number, 4, 0, cols - 1));
    case 5: return rows * cols <= 2000 ? dense(rows, cols) : equal_rows(rows, cols, std::min(cols, 3));
    default: return uneven(rows, cols, drawn(number, 5, 1, 12));
  }
}

/// From 1 to `most`, and as likely to have few bits as many.
Index drawn_size(Index number, std::uint64_t purpose, Index most) {
  const Index bits =
      drawn(number, purpose, 0, static_cast<Index>(std::bit_width(static_cast<unsigned>(most))) - 1);
  return std::min(most, drawn(number, purpose + 100, Index{1} << bits, (Index{2} << bits) - 1));
}

/// Rows of all kinds side by side: most of some mean length, up to twenty as long as all others together; these
/// lie anywhere or side by side, and the non-zeros of each anywhere, at a stride, one behind another, or by the
/// diagonal. About `nnz` non-zeros, or twice that.
Matrix mixed(Index number, Index rows, Index cols, Index nnz) {
  random::Stream draw(51, static_cast<random::Word>(number));
  const auto below = [&](Index bound) {
    return static_cast<Index>(draw.below(static_cast<random::Word>(bound)));
  };
  const Index long_rows = below(21), kind = below(6), first_long = number % 2 == 0 ? -1 : below(rows);
  Offset of_short = nnz, of_long = nnz;
  Coo<double> a;
  a.rows = rows;
  a.cols = cols;
  for (Index i = 0; i < rows; ++i) {
    const bool is_long =
        first_long < 0 ? below(rows) < long_rows : i >= first_long && i - first_long < long_rows;
    Offset& left = is_long ? of_long : of_short;
    const Index wanted = is_long ? drawn_size(below(1 << 20), 52, nnz) : below(2 * (nnz / rows) + 2);
    const auto length = static_cast<Index>(std::min<Offset>({wanted, cols, left}));
    left -= length;
    if (length == 0) continue;
    const Index gap = cols / length, how = kind < 4 ? kind : below(4);
    const Index stride = how == 1 ? 1 + below(gap) : 1;
    const Index start = how == 3 ? std::min(cols - length, static_cast<Index>(Offset{i} * cols / rows))
                                 : below(cols - (length - 1) * stride);
    for (Index k = 0; k < length; ++k) {
      const Index j = how == 0 ? k * gap + below(gap) : start + k * stride;
      a.push(i, j, value_at(i, j));
    }
  }
  return to_csr(a);
}

/// 1 to `dense`, then steps of a prime up to 1024, and both sides of what kernels are cut by.
std::vector<Index> sizes(Index dense) {
  std::vector<Index> out(static_cast<std::size_t>(dense));
  std::iota(out.begin(), out.end(), 1);
  for (Index n = dense + 31; n <= 1024; n += 31) out.push_back(n);
  for (const Index n : {128, 160, 192, 256, 320, 384, 448, 512, 640, 768, 1024})
    if (n > dense) out.insert(out.end(), {n - 1, n, n + 1});
  return out;
}

constexpr Index kSteps[] = {1, 7, 101};  ///< prime to the lengths' number
constexpr const char* kSwept[] = {"rows", "inner", "columns"};

std::vector<Case> of_spmv() {
  std::vector<Case> out;
  const auto add = [&](const std::string& name, const std::function<Matrix()>& make, Mode mode = Mode::single,
                       Index products = 1) {
    out.push_back({.name = fmt::format("{}/{}_{}", name, to_string(mode), products),
                   .op = Op::spmv,
                   .a = make,
                   .mode = mode,
                   .products = products});
  };
  for (const Index n : sizes(140)) {
    const Index cols = drawn(n, 11, 1, 300);
    add(fmt::format("rows_{}x{}", n, cols), [=] { return some(n, n, cols); });
    add(fmt::format("columns_{}x{}", cols, n), [=] { return some(n + 1, cols, n); });
    add(fmt::format("{}x400_of_{}", 33, n), [=] { return equal_rows(33, 400, std::min<Index>(n, 400)); });
    if (n > 50) continue;
    const Index rows = drawn(n, 12, 1, 150);
    add(
        fmt::format("{}x{}", rows, cols), [=] { return some(n, rows, cols); }, Mode::stream, n);
    add(
        fmt::format("{}x{}", rows, rows), [=] { return uneven(rows, rows, 5); }, Mode::chain, n);
  }
  for (const Index n : {2048, 4096, 8192, 16384, 32768, 65536}) {
    for (const Index m : {n - 1, n, n + 1}) {
      if (n <= 8192) add(fmt::format("{}x3", m), [=] { return uneven(m, 3, 1); });
      add(fmt::format("3x{}", m), [=] { return strided(3, m, 128); });
    }
  }
  for (const Index step : kSteps)
    add(fmt::format("all_lengths_{}", step), [=] { return all_lengths(521, step); });
  for (Index k = 0; k < 64; ++k) {
    const Index rows = drawn_size(k, 61, 20'000), cols = drawn_size(k, 62, 70'000),
                nnz = drawn_size(k, 63, 60'000);
    add(fmt::format("mixed_{}_{}x{}_of_{}", k, rows, cols, nnz), [=] { return mixed(k, rows, cols, nnz); });
    const Index few = drawn_size(k, 64, 3000), width = drawn_size(k, 65, std::min(few, 300));
    const Mode mode = k % 3 == 0 ? Mode::single : k % 3 == 1 ? Mode::stream : Mode::chain;
    const Index most = std::min(400, 1 + 60'000 / (few * width));
    const Index products = mode == Mode::single ? 1
                           : k % 2 == 0         ? drawn_size(k, 66, most)
                                                : drawn(k, 66, 1, most);
    add(
        fmt::format("equal_{}_{}_of_{}", k, few, width), [=] { return equal_rows(few, few, width); }, mode,
        products);
  }
  return out;
}

std::vector<Case> of_spmm() {
  struct Scaling {
    double alpha, beta;
  };
  std::vector<Case> out;
  Index number = 0;
  for (const Index n : sizes(136)) {
    const Index most = n <= 72 ? 50 : 20;
    for (const auto& [alpha, beta] : {Scaling{1, 0}, {0, 3}, {3, -2}}) {
      ++number;
      const Index rows = drawn(number, 21, 1, most), cols = drawn(number, 22, 1, most);
      const auto layout = [&](std::uint64_t purpose) {
        return drawn(number, purpose, 0, 3) == 0 ? Layout::col_major : Layout::row_major;
      };
      const auto padding = [&](std::uint64_t purpose) {
        return Offset{std::max<Index>(0, drawn(number, purpose, -9, 9))};
      };
      Case c{.op = Op::spmm,
             .both_types = true,
             .a = [=] { return some(number, rows, cols); },
             .n_cols = n,
             .alpha = alpha,
             .beta = beta,
             .b_layout = layout(23),
             .c_layout = layout(24),
             .b_padding = padding(25),
             .c_padding = padding(26)};
      c.name = fmt::format("{}x{}/N={}/B{}+{}/C{}+{}/alpha={}/beta={}", rows, cols, n, to_string(c.b_layout),
                           c.b_padding, to_string(c.c_layout), c.c_padding, alpha, beta);
      out.push_back(std::move(c));
    }
  }
  for (Index k = 0; k < 64; ++k) {
    const Index rows = drawn_size(k, 71, 10'000), cols = drawn_size(k, 72, 20'000);
    const Index n = k % 2 == 0 ? drawn(k, 73, 1, 16) : drawn_size(k, 73, 300);
    const Index most = std::min(120'000, 1'200'000 / n);
    const Index nnz = k % 4 == 0 ? drawn(k, 74, most / 2, most) : drawn_size(k, 74, most);
    out.push_back({.name = fmt::format("mixed_{}_{}x{}_of_{}/N={}", k, rows, cols, nnz, n),
                   .op = Op::spmm,
                   .a = [=] { return mixed(k + 1000, rows, cols, nnz); },
                   .n_cols = n,
                   .beta = k % 3 == 2 ? 0.5 : 0.0});
  }
  return out;
}

std::vector<Case> of_spgemm() {
  std::vector<Case> out;
  const auto add = [&](const std::string& name, const std::function<Matrix()>& a,
                       const std::function<Matrix()>& b) {
    out.push_back({.name = name, .op = Op::spgemm, .a = a, .b = b});
  };
  // Each of the three sizes in turn; what is not swept is drawn.
  for (const Index n : sizes(70)) {
    for (Index place = 0; place < 3; ++place) {
      std::array<Index, 3> size{};
      for (Index k = 0; k < 3; ++k)
        size[static_cast<std::size_t>(k)] =
            k == place ? n : drawn(3 * n + place, 31 + static_cast<std::uint64_t>(k), 1, n <= 70 ? 60 : 24);
      const auto [rows, inner, cols] = size;
      add(
          fmt::format("{}x{}x{}", rows, inner, cols), [=] { return some(n, rows, inner); },
          [=] { return some(n + 1, inner, cols); });
    }
  }
  // Sparse rows of wide results: on both sides of what summaries of bitmaps and of hashes cover.
  for (const Index n : {2048, 4096, 6144, 8192, 12288, 16384, 32768, 65536, 131072}) {
    for (const Index cols : {n - 1, n, n + 1, n + 33, n + 64})
      add(
          fmt::format("60x50x{}", cols), [=] { return equal_rows(60, 50, 12); },
          [=] { return equal_rows(50, cols, drawn(cols, 41, 1, 3)); });
  }
  // Rows of each number of results, with a product for each, and with several.
  for (const Index step : kSteps) {
    const auto lengths = [=] { return all_lengths(521, step); };
    add(
        fmt::format("all_lengths_{}", step), [] { return identity(521); }, lengths);
    add(
        fmt::format("sums_of_all_lengths_{}", step), [] { return banded(521, 1); }, lengths);
  }
  // More long rows of B than any list of them holds.
  add(
      "long_rows_of_b", [] { return dense(1, 40); }, [] { return equal_rows(40, 20'000, 1300); });
  for (Index k = 0; k < 64; ++k) {
    const bool few = k % 4 == 3;  // rows, and long ones
    const Index rows = drawn_size(k, 81, few ? 40 : 5000), most = k % 8 == 3 ? 60'000 : 20'000;
    const Index inner = few ? drawn(k, 82, 5000, most) : drawn_size(k, 82, 5000);
    const Index cols = drawn_size(k, 83, k % 8 == 0 ? 1 << 26 : 100'000);
    const Index of_a = few ? drawn(k, 84, 2000, most) : drawn_size(k, 84, 20'000);
    const Offset products_a_row = Offset{20'000} * inner / of_a + 1;
    const Index of_b = drawn_size(k, 85, static_cast<Index>(std::min<Offset>(40'000, products_a_row)));
    add(
        fmt::format("mixed_{}_{}x{}x{}_of_{}_and_{}", k, rows, inner, cols, of_a, of_b),
        [=] { return mixed(k + 2000, rows, inner, of_a); },
        [=] { return mixed(k + 3000, inner, cols, of_b); });
  }
  return out;
}

}  // namespace

std::vector<Case> sweep(Op op) {
  // A process gives them to all entries, and makes each matrix once.
  static std::map<Op, std::vector<Case>> all;
  const auto [at, is_new] = all.try_emplace(op);
  if (!is_new) return at->second;
  at->second = op == Op::spmv ? of_spmv() : op == Op::spmm ? of_spmm() : of_spgemm();
  for (Case& c : at->second) {
    for (auto* const make : {&c.a, &c.b})
      if (*make)
        *make = [make = *make, made = std::make_shared<std::optional<Matrix>>()] {
          if (!*made) *made = make();
          return **made;
        };
  }
  return at->second;
}

}  // namespace stages::battery
