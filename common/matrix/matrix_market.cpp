// Reading Matrix Market: the entries of a file are collected as triplets, then sorted into rows (convert.hpp).

#include "common/matrix/matrix_market.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/matrix_market_entries.hpp"
#include "common/matrix/memory.hpp"

namespace stages {
namespace {

using namespace market;

std::size_t at(Offset k) { return static_cast<std::size_t>(k); }

/// Throws Error unless `result` and `besides` more bytes can be allocated; a limit of the caller's is for the
/// result alone. Asked before every large allocation: Linux promises memory that it does not have, and ends
/// the program when it is used.
void require_memory(const Lines& lines, const Header& header, const ReadOptions& options, double result,
                    double besides) {
  constexpr double kNotWorthAsking = 64e6;
  const bool limited = options.max_bytes > 0;
  const double bytes = limited ? result : result + besides;
  if (!limited && bytes < kNotWorthAsking) return;
  const auto most = static_cast<double>(limited ? options.max_bytes : available_memory());
  if (bytes > most)
    fail_at(lines.name(), header.size_line,
            "the {} x {} matrix takes {:.2f} GB, but only {:.2f} GB may be used; use a smaller matrix or a "
            "larger machine",
            header.rows, header.cols, bytes / 1e9, most / 1e9);
}

/// Runs `action`; where memory runs out all the same (a limit set by ulimit, for example) that is an Error.
template <class Action>
auto with_memory(const std::string& name, Action action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  fail_at(name, 1, "the matrix does not fit into memory; use a smaller one or a larger machine");
}

template <class T>
class Reader {
 public:
  Reader(ByteSource& source, const std::string& name, const ReadOptions& options)
      : options_(options), lines_(source, name) {
    if (options.index_base != 0 && options.index_base != 1)
      fail("index base {}: rows and columns can be counted from 0 or from 1", options.index_base);
    header_ = parse_header(lines_);
    report_.header = header_;
  }

  Csr<T> csr() {
    return with_memory(lines_.name(), [&] { return sorted_rows(); });
  }

  Dense<T> dense(Layout layout) {
    return with_memory(lines_.name(), [&] {
      if (header_.format == Format::array) return dense_of_array(layout);
      const Csr<T> sparse = sorted_rows();
      require_dense_memory();
      return to_dense(sparse, layout);
    });
  }

  const ReadReport& report() const { return report_; }

 private:
  /// Calls visit(row, col, value) for every entry of the file, as stored.
  template <class Visit>
  void read(Visit visit) {
    EntryReader<T> entries(lines_, header_, options_);
    if (header_.format == Format::array) {
      entries.array(visit);
    } else {
      entries.coordinates(visit);
    }
    report_.dropped = entries.dropped;
    report_.non_finite = entries.non_finite;
    report_.rounded = entries.rounded;
  }

  /// The same once more, from the start of the file.
  template <class Visit>
  void read_again(Visit visit) {
    lines_.rewind();
    if (parse_header(lines_) != header_) changed();
    read(visit);
  }

  [[noreturn]] void changed() const {
    fail_at(lines_.name(), 1, "the file was changed while it was being read; wait until it is complete");
  }

  T mirror_of(T value) const { return header_.symmetry == Symmetry::symmetric ? value : -value; }

  static constexpr double kTriplet = 2 * sizeof(Index) + sizeof(T);

  double row_bytes() const { return (header_.rows + 1.0) * sizeof(Offset); }
  void require_dense_memory() const {
    const double rows = header_.rows, cols = header_.cols;
    require_memory(lines_, header_, options_, rows * cols * sizeof(T), 0);
  }

  /// The rows, and `nnz` entries in them; a limit of the caller's is for both.
  void require_row_memory(Offset nnz) const {
    // A size line may name two thousand million rows for a handful of entries. A matrix of 100 million is one
    // that somebody may want; far beyond, it is a mistake or worse.
    constexpr Index kMany = 1 << 20;
    if (options_.max_bytes == 0 && header_.rows > kMany && header_.rows / 8 > nnz &&
        row_bytes() > kMostForEmptyLines) {
      fail_at(lines_.name(), header_.size_line,
              "{} rows for {} entries take {:.2f} GB, and the limit is {:.2f} GB where most rows are empty; "
              "leave out rows without entries",
              header_.rows, header_.stored, row_bytes() / 1e9, kMostForEmptyLines / 1e9);
    }
    const double entries = static_cast<double>(nnz) * (sizeof(Index) + sizeof(T));
    require_memory(lines_, header_, options_, entries + row_bytes(), 0);
  }

  /// Room for `more` triplets besides those that are there, which are moved then.
  void make_room(Coo<T>& triplets, Offset more) const {
    const std::size_t size = triplets.values.size() + at(more);
    require_memory(lines_, header_, options_, 0, kTriplet * static_cast<double>(size));
    triplets.row_idx.reserve(size);
    triplets.col_idx.reserve(size);
    triplets.values.reserve(size);
  }

  /// The entries of the whole matrix, those on the other side of a symmetric one too, in file order.
  Coo<T> triplets() {
    Coo<T> all{header_.rows, header_.cols, {}, {}, {}};
    // What a size line claims is not believed beyond what the file can hold: an entry takes a byte or more, and
    // of compressed text no length is known.
    const Offset believed = std::clamp<Offset>(lines_.packed_size(), 0, header_.stored);
    make_room(all, believed * (header_.mirrored() ? 2 : 1));
    const auto push = [&](Index row, Index col, T value) {
      if (all.values.size() == all.values.capacity()) make_room(all, all.nnz() + 1024);
      all.push(row, col, value);
    };
    const bool array = header_.format == Format::array;
    read([&](Index row, Index col, T value) {
      if (array && value == T{0}) return;
      push(row, col, value);
      if (!header_.mirrored()) return;
      if (row == col) {
        if (header_.symmetry == Symmetry::skew_symmetric && value != T{0}) diagonal_of_skew(row);
        return;
      }
      push(col, row, mirror_of(value));
      (row > col ? below_ : above_) = true;
    });
    return all;
  }

  Csr<T> sorted_rows() {
    Coo<T> all = triplets();
    const Offset read = all.nnz();
    require_row_memory(read);
    Csr<T> out = to_csr(std::move(all));
    report_.repeated = read - out.nnz();
    if (report_.repeated > 0 && below_ && above_) refuse_both_triangles();
    if (report_.repeated > 0 && !options_.allow_non_finite) require_finite_sums(out);
    lines_.rewind();  // which sees whether the file is still the same
    return out;
  }

  Dense<T> dense_of_array(Layout layout) {
    require_dense_memory();
    read([](auto&&...) {});  // checks the number of values before memory is taken for them
    Dense<T> out(header_.rows, header_.cols, layout);
    if (header_.symmetry == Symmetry::skew_symmetric) std::fill(out.data.begin(), out.data.end(), T{0});
    read_again([&](Index i, Index j, T value) {
      out(i, j) = value;
      if (header_.mirrored() && i != j) out(j, i) = mirror_of(value);
    });
    return out;
  }

  [[noreturn]] void diagonal_of_skew(Index row) const {
    fail_at(lines_.name(), lines_.line(),
            "the diagonal of a skew-symmetric matrix is zero, and the entry at row {} is not; correct it, or "
            "say 'general' in line 1",
            row + options_.index_base);
  }

  /// Repeated entries whose sum is no number any more are refused, with the line of the last of them.
  void require_finite_sums(const Csr<T>& a) {
    const auto found = std::ranges::find_if(a.values, [](T value) { return !std::isfinite(value); });
    if (found == a.values.end()) return;
    const Offset k = found - a.values.begin();
    const auto row = static_cast<Index>(std::ranges::upper_bound(a.row_ptr, k) - a.row_ptr.begin() - 1);
    const Index col = a.col_idx[at(k)];
    Offset last = 0;
    read_again([&](Index i, Index j, T) {
      if ((i == row && j == col) || (header_.mirrored() && i == col && j == row)) last = lines_.line();
    });
    if (last == 0) changed();
    fail_at(lines_.name(), last,
            "the entries at row {}, column {} add up to more than a {}-bit float holds; keep one of them, or "
            "scale the matrix",
            row + options_.index_base, col + options_.index_base, 8 * sizeof(T));
  }

  /// A symmetric file with a place in both triangles would come out doubled there. Looks for its line. Repeats
  /// within a triangle are added, as everywhere.
  void refuse_both_triangles() {
    std::vector<std::tuple<Index, Index, bool, Offset>> places;  // whether it is above the diagonal, the line
    read_again([&](Index i, Index j, T) {
      places.emplace_back(std::min(i, j), std::max(i, j), i < j, lines_.line());
    });
    std::ranges::sort(places);
    for (std::size_t k = 1; k < places.size(); ++k) {
      const auto& [row, col, above, line] = places[k];
      const auto& [same_row, same_col, above_before, line_before] = places[k - 1];
      if (row == same_row && col == same_col && above != above_before)
        fail_at(
            lines_.name(), line,
            "the entry at row {}, column {} is there below the diagonal, too: a symmetric file that stores "
            "both triangles; keep one of them, or say 'general' in line 1",
            row + options_.index_base, col + options_.index_base);
    }
  }

  ReadOptions options_;
  Lines lines_;
  Header header_;
  ReadReport report_;
  bool below_ = false, above_ = false;  ///< the triangles of a symmetric matrix that hold entries
};

}  // namespace

MatrixMarketHeader read_matrix_market_header(const std::string& path) {
  const auto source = open_unpacked(path);
  Lines lines(*source, path);
  return parse_header(lines);
}

template <class T>
Csr<T> read_matrix_market(ByteSource& source, const std::string& name, const ReadOptions& options,
                          ReadReport* report) {
  Reader<T> reader(source, name, options);
  Csr<T> out = reader.csr();
  if (report != nullptr) *report = reader.report();
  return out;
}

template <class T>
Dense<T> read_matrix_market_dense(ByteSource& source, const std::string& name, Layout layout,
                                  const ReadOptions& options, ReadReport* report) {
  Reader<T> reader(source, name, options);
  Dense<T> out = reader.dense(layout);
  if (report != nullptr) *report = reader.report();
  return out;
}

#define STAGES_INSTANTIATE(T)                                                                                \
  template Csr<T> read_matrix_market<T>(ByteSource&, const std::string&, const ReadOptions&, ReadReport*);   \
  template Dense<T> read_matrix_market_dense<T>(ByteSource&, const std::string&, Layout, const ReadOptions&, \
                                                ReadReport*);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)

}  // namespace stages
