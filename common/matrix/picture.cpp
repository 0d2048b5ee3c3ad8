#include "common/matrix/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace stages {
namespace {

constexpr std::size_t kMostBytes = 20000;
constexpr int kCell = 2, kLargestCell = 18;  // pixels, at first and at most; so large ones always fit
constexpr int kLevels = 4;
constexpr double kLeft = 70, kTop = 58, kSide = 400, kGap = 32, kBars = 180, kWidth = 704, kBelow = 40;

std::size_t at(Offset k) { return static_cast<std::size_t>(k); }

/// Indices from .. to - 1 in cells, all of one size but the last.
struct Axis {
  Axis(Index from_, Index to_, int most)
      : from(from_),
        to(to_),
        size(std::max(1, static_cast<Index>((Offset{to} - from + most - 1) / most))),
        cells(static_cast<Index>((Offset{to} - from + size - 1) / size)) {}

  Index from, to, size, cells;

  Index length() const { return std::max(to - from, 1); }
  Offset cell(Index i) const { return (i - from) / size; }
  double exact_cells() const { return static_cast<double>(length()) / size; }
};

struct Grid {
  Axis rows, cols;
  std::vector<Offset> count;    ///< non-zeros in each cell, line by line
  std::vector<Offset> longest;  ///< the longest row of each line
  std::vector<double> mean;     ///< the mean row of each line

  Grid(const Csr<double>& a, Axis rows_, Axis cols_)
      : rows(rows_),
        cols(cols_),
        count(at(Offset{rows.cells} * cols.cells)),
        longest(at(rows.cells)),
        mean(at(rows.cells)) {
    for (Index i = rows.from; i < rows.to; ++i) {
      const Offset line = rows.cell(i), begin = a.row_ptr[at(i)], end = a.row_ptr[at(i) + 1];
      longest[at(line)] = std::max(longest[at(line)], end - begin);
      mean[at(line)] += static_cast<double>(end - begin);
      for (Offset k = begin; k < end; ++k) ++count[at(line * cols.cells + cols.cell(a.col_idx[at(k)]))];
    }
    for (Offset line = 0; line < rows.cells; ++line)
      mean[at(line)] /=
          static_cast<double>(std::min<Offset>(rows.size, rows.to - rows.from - line * rows.size));
  }
};

/// The columns that rows use; all of them where they use none, or where the rows are all there are.
Axis used_columns(const Csr<double>& a, Index first, Index last, int most) {
  const auto begin = a.col_idx.begin() + a.row_ptr[at(first)], end = a.col_idx.begin() + a.row_ptr[at(last)];
  if (begin == end || (first == 0 && last == a.rows)) return {0, a.cols, most};
  const auto [low, high] = std::minmax_element(begin, end);
  return {*low, *high + 1, most};
}

/// "2M", "80k" where all numbers beside it are whole millions or thousands, too.
std::string short_number(Offset number, Offset step) {
  if (number != 0 && step % 1000000 == 0) return fmt::format("{}M", number / 1000000);
  return number != 0 && step % 1000 == 0 ? fmt::format("{}k", number / 1000) : fmt::format("{}", number);
}

class Drawing {
 public:
  explicit Drawing(const Grid& grid) : grid_(grid) {
    const double shape = static_cast<double>(grid.rows.length()) / grid.cols.length();
    if (shape >= 0.5 && shape <= 2) (shape > 1 ? wide_ : high_) *= shape > 1 ? 1 / shape : shape;
  }

  std::string svg(const std::string& title) {
    put(R"(<svg xmlns="http://www.w3.org/2000/svg" class="spy" role="img" viewBox="0 0 {} {:.0f}">
<title>{}</title>
<desc>Where the non-zeros lie, in {} x {} cells over columns {} to {}; beside them, for each line of cells, the longest row and
the mean row, on a logarithmic axis.</desc>
)",
        kWidth, kTop + high_ + kBelow, title, grid_.rows.cells, grid_.cols.cells, grid_.cols.from,
        grid_.cols.to - 1);
    text_ += kStyle;
    put(R"(<rect class="paper" width="{}" height="{:.0f}"/>
<text class="name" x="{}" y="18">{}</text>
)",
        kWidth, kTop + high_ + kBelow, kLeft, title);
    axes();
    cells();
    lengths();
    const Offset most = grid_.count.empty() ? 0 : *std::max_element(grid_.count.begin(), grid_.count.end());
    put("<text x=\"{}\" y=\"{:.0f}\">a cell: {} x {} places; the fullest: {} non-zero{}</text>\n</svg>\n",
        kLeft, kTop + high_ + 24, grid_.rows.size, grid_.cols.size, most, most == 1 ? "" : "s");
    return std::move(text_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  /// Calls mark(pixels from the start, words) at round numbers.
  template <class Mark>
  static void ticks(const Axis& axis, double pixels, Mark mark) {
    Offset step = 1;
    for (int k = 0; axis.length() / step > 5; ++k) step = step * (k % 3 == 1 ? 5 : 4) / 2;  // 1, 2, 5, 10
    for (Offset i = (axis.from + step - 1) / step * step; i <= axis.to; i += step)
      mark(pixels * static_cast<double>(i - axis.from) / axis.length(), short_number(i, step));
  }

  void axes() {
    ticks(grid_.rows, high_, [&](double y, const std::string& words) {
      put("<text class=\"row\" x=\"{}\" y=\"{:.1f}\">{}</text><path class=\"line\" d=\"M{} {:.1f}h-4\"/>\n",
          kLeft - 7, kTop + y + 4, words, kLeft, kTop + y);
    });
    ticks(grid_.cols, wide_, [&](double x, const std::string& words) {
      put("<text class=\"mid\" x=\"{:.1f}\" y=\"{}\">{}</text><path class=\"line\" d=\"M{:.1f} {}v-4\"/>\n",
          kLeft + x, kTop - 7, words, kLeft + x, kTop);
    });
    put("<path class=\"line\" d=\"M{} {}h{:.1f}v{:.1f}h-{:.1f}z\"/>\n", kLeft, kTop, wide_, high_, wide_);
  }

  /// Begins a frame of its own with so many units across and a unit for each line of cells, which cuts off the
  /// part of the last cells that is outside of the matrix.
  void box(double left, double pixels, double above, double across) {
    put(R"(<svg x="{:.1f}" y="{}" width="{:.1f}" height="{:.1f}" viewBox="0 {} {:.6g} {:.6g}" preserveAspectRatio="none">)",
        left, kTop, pixels, high_, above, across, grid_.rows.exact_cells());
    text_ += '\n';
  }

  int level(Offset count, double most) const {
    if (count == 0) return 0;
    return most == 1
               ? kLevels
               : 1 + static_cast<int>((kLevels - 1) * std::log(static_cast<double>(count)) / std::log(most));
  }

  /// Each level is painted over those below it, so that runs of cells are long.
  void cells() {
    const auto [rows, cols] = std::pair(grid_.rows.cells, grid_.cols.cells);
    box(kLeft, wide_, -0.5, grid_.cols.exact_cells());
    double most = 1;
    for (const Offset count : grid_.count) most = std::max(most, static_cast<double>(count));
    for (int shown = 1; shown <= kLevels; ++shown) {
      put("<path class=\"d{}\" d=\"", shown);
      for (Offset i = 0; i < rows; ++i) {
        Offset ended = -1;  // where the last run of this line ended
        for (Offset j = 0; j < cols; ++j) {
          const Offset begin = j;
          while (j < cols && level(grid_.count[at(i * cols + j)], most) >= shown) ++j;
          if (j == begin) continue;
          if (ended < 0) {
            put("M{} {}h{}", begin, i, j - begin);
          } else {
            put("m{} 0h{}", begin - ended, j - begin);
          }
          ended = j;
        }
      }
      text_ += "\"/>\n";
    }
    text_ += "</svg>\n";
  }

  void lengths() {
    const double left = kLeft + wide_ + kGap;
    const Offset most =
        grid_.longest.empty() ? 0 : *std::max_element(grid_.longest.begin(), grid_.longest.end());
    const auto pixels = [&](double length) {
      return kBars * std::log1p(length) / std::log1p(std::max<Offset>(most, 1));
    };
    put("<text x=\"{:.1f}\" y=\"{}\">row lengths: <tspan class=\"b1\">█</tspan> longest <tspan "
        "class=\"b2\">█</tspan> mean</text>\n",
        left, kTop - 23);
    double last = -kBars;
    for (Offset length = 0; length <= most; length = std::max<Offset>(1, 10 * length)) {
      const double x = pixels(static_cast<double>(length));
      if (x - last < 26) continue;
      last = x;
      put("<text class=\"mid\" x=\"{:.1f}\" y=\"{}\">{}</text><path class=\"line\" d=\"M{:.1f} "
          "{}v-4v{:.1f}\"/>\n",
          left + x, kTop - 7, short_number(length, std::max<Offset>(length, 1)), left + x, kTop, 4 + high_);
    }
    box(left, kBars, 0, kBars);
    bars("b1", grid_.longest, pixels);
    bars("b2", grid_.mean, pixels);
    text_ += "</svg>\n";
  }

  template <class Lengths, class Pixels>
  void bars(const char* name, const Lengths& lengths, Pixels pixels) {
    put("<path class=\"{}\" d=\"M0 0", name);
    for (const auto length : lengths) put("H{:.1f}v1", pixels(static_cast<double>(length)));
    text_ += "H0z\"/>\n";
  }

  static constexpr const char* kStyle = R"(<style>
.spy text { font: 11px system-ui, sans-serif; fill: #5b6570 } .spy .name { font-size: 13px; fill: #1c2127 }
.spy .row { text-anchor: end } .spy .mid { text-anchor: middle } .spy .paper { fill: #fff }
.spy path { fill: none; shape-rendering: crispEdges } .spy .line { stroke: #aab3bd }
.spy .d1 { stroke: #9dbfee } .spy .d2 { stroke: #5f94de } .spy .d3 { stroke: #1f5fbf } .spy .d4 { stroke: #0b2f6b }
.spy .b1 { fill: #9dbfee } .spy .b2 { fill: #1f5fbf }
@media screen and (prefers-color-scheme: dark) {
.spy text { fill: #a3adb8 } .spy .name { fill: #e6e9ed } .spy .paper { fill: #14171b } .spy .line { stroke: #5d6772 }
.spy .d1 { stroke: #2c4f83 } .spy .d2 { stroke: #4a7fca } .spy .d3 { stroke: #84b4ff } .spy .d4 { stroke: #e3eeff }
.spy .b1 { fill: #38639f } .spy .b2 { fill: #84b4ff } }
</style>
)";

  const Grid& grid_;
  double wide_ = kSide, high_ = kSide;
  std::string text_;
};

}  // namespace

std::string picture(const Csr<double>& a, Index first, Index last, const std::string& name) {
  const std::string size = first == 0 && last == a.rows
                               ? fmt::format("{} x {}", a.rows, a.cols)
                               : fmt::format("rows {} to {} of {}", first, last - 1, a.rows);
  for (int cell = kCell;; cell += (cell + 1) / 2) {
    const int most = static_cast<int>(kSide) / cell;
    const Grid grid(a, {first, last, most}, used_columns(a, first, last, most));
    std::string svg = Drawing(grid).svg(fmt::format("{}, {}", name, size));
    if (svg.size() <= kMostBytes || cell >= kLargestCell) return svg;
  }
}

}  // namespace stages
