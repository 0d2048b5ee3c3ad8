// For experts. SpGEMM for matrices with fewer non-zeros than rows: doubly compressed rows.
//
// The idea: with n = 10 million rows and 100 thousand non-zeros, CSR's row pointers alone are 80 MB, 99 % of
// them saying that a row is empty, and any loop over all rows costs more than the product. Doubly compressed
// rows (DCSR) keep the numbers of the rows that are not empty, and pointers for those only. A, B and C have
// that form here, and run looks at no empty row: its work follows nnz and products, not n. (prepare and fetch
// pass over all rows, outside the timed product.)
//
// Row k of B has to be searched for now: a hash table from row numbers to places, made in prepare, does it in
// one or two tries. An accumulator with a place for every column is out of the question too; a row's few
// products are written down with their columns, sorted by column, and those of one column added up, in the
// order of A's row.
//
// Input: any CSR matrices. Cost: nnz(A) searches, products x log(products of the row) steps. Memory: 12 bytes
// a row that is not empty, 16 to 32 a row of B for the table, 4 a non-zero of A, C at its bound. fetch expands
// C to CSR, which costs the 8 n bytes that run saved.
//
// Source: A. Buluc, J. R. Gilbert, "On the representation and multiplication of hypersparse matrices", 2008.

#include <algorithm>
#include <bit>

#include "01_cpu_serial/stage.hpp"

namespace stages {
namespace {

constexpr Index kNone = -1;

/// The rows of a CSR matrix that are not empty: row ids[s] holds positions row_ptr[s] .. row_ptr[s + 1] - 1
/// of the CSR matrix's columns and values, which are the same ones.
struct NonEmptyRows {
  Buffer<Index> ids;
  Buffer<Offset> row_ptr;
};

template <class T>
NonEmptyRows rows_of(const Csr<T>& a) {
  NonEmptyRows rows;
  for (Index i = 0; i < a.rows; ++i) {
    if (a.row_nnz(i) == 0) continue;
    rows.ids.push_back(i);
    rows.row_ptr.push_back(a.row_ptr[static_cast<std::size_t>(i)]);
  }
  rows.row_ptr.push_back(a.nnz());
  return rows;
}

/// Finds the place of a row number, by hashing.
class Places {
 public:
  explicit Places(const Buffer<Index>& ids)
      : slots_(std::bit_ceil(2 * ids.size() + 2)), shift_(64 - std::countr_zero(slots_.size())) {
    for (std::size_t s = 0; s < ids.size(); ++s) {
      std::size_t at = hash(ids[s]);
      while (slots_[at].id != kNone) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = {ids[s], static_cast<Index>(s)};
    }
  }

  /// The place of row `id`, or kNone if it is empty.
  Index find(Index id) const {
    std::size_t at = hash(id);
    while (slots_[at].id != id && slots_[at].id != kNone) at = (at + 1) & (slots_.size() - 1);
    return slots_[at].place;
  }

 private:
  struct Slot {
    Index id = kNone;
    Index place = kNone;
  };
  std::size_t hash(Index id) const {
    return (static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15u) >> shift_;
  }

  std::vector<Slot> slots_;
  int shift_;
};

/// A product on its way to its column.
template <class T>
struct Term {
  Index column;
  T value;
};

template <class T>
class Hypersparse final : public HostSpgemmPlan<T> {
 public:
  static constexpr bool kChains = false;  // C has another form than A
  Hypersparse(const SpgemmProblem<T>& problem, Exec& exec)
      : HostSpgemmPlan<T>(problem),
        exec_(exec),
        a_rows_(rows_of(*problem.a)),
        b_rows_(rows_of(*problem.b)),
        b_places_(b_rows_.ids),
        b_place_(problem.a->col_idx.size()) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    const double nnz_a = static_cast<double>(problem.a->nnz()), nnz_b = static_cast<double>(problem.b->nnz());
    const double log_row =
        static_cast<double>(std::bit_width(static_cast<std::uint64_t>(problem.max_row_products)));
    const double rows_a = std::min<double>(nnz_a, problem.a->rows);
    const double rows_b = std::min<double>(nnz_b, problem.b->rows);
    return problem_cost(problem)
        .with_work(nnz_a + static_cast<double>(problem.products) * std::max(log_row, 1.0))
        .plus_memory(24 * rows_a + (12 + 32) * rows_b + sizeof(Index) * nnz_a +
                     2.0 * sizeof(Term<T>) * static_cast<double>(problem.max_row_products));
  }

  void reset() override {
    c_rows_ = NonEmptyRows();
    HostSpgemmPlan<T>::reset();
  }

  void run() override {
    Csr<T>& c = this->c_;
    const Offset products = find_rows();
    c.col_idx.resize(static_cast<std::size_t>(products));
    c.values.resize(static_cast<std::size_t>(products));
    c_rows_.ids.clear();
    c_rows_.row_ptr.assign(1, 0);
    Offset count = 0;
    Phase phase(exec_, "numeric");
    for (std::size_t s = 0; s < a_rows_.ids.size(); ++s) {
      const Offset made = make_row(s, c.col_idx.data() + count, c.values.data() + count);
      if (made == 0) continue;
      count += made;
      c_rows_.ids.push_back(a_rows_.ids[s]);
      c_rows_.row_ptr.push_back(count);
    }
    c.col_idx.resize(static_cast<std::size_t>(count));
    c.values.resize(static_cast<std::size_t>(count));
  }

  Csr<T> fetch() override {
    Csr<T> c(this->a().rows, this->b().cols);
    for (std::size_t s = 0; s < c_rows_.ids.size(); ++s)
      c.row_ptr[static_cast<std::size_t>(c_rows_.ids[s]) + 1] = c_rows_.row_ptr[s + 1] - c_rows_.row_ptr[s];
    for (std::size_t i = 1; i < c.row_ptr.size(); ++i) c.row_ptr[i] += c.row_ptr[i - 1];
    c.col_idx = this->c_.col_idx;
    c.values = this->c_.values;
    return c;
  }

 private:
  /// Notes for each non-zero of A where its row of B is. Returns the number of products.
  Offset find_rows() {
    Phase phase(exec_, "find rows");
    Offset products = 0;
    for (std::size_t p = 0; p < b_place_.size(); ++p) {
      const Index place = b_places_.find(this->a().col_idx[p]);
      b_place_[p] = place;
      if (place != kNone) products += b_length(place);
    }
    return products;
  }

  Offset b_length(Index place) const {
    const auto s = static_cast<std::size_t>(place);
    return b_rows_.row_ptr[s + 1] - b_rows_.row_ptr[s];
  }

  /// The row of C for row s of A's list. Returns its length.
  Offset make_row(std::size_t s, Index* columns, T* values) {
    const CsrView<T>&a = this->a(), &b = this->b();
    products_.clear();
    for (Offset p = a_rows_.row_ptr[s]; p < a_rows_.row_ptr[s + 1]; ++p) {
      const Index place = b_place_[static_cast<std::size_t>(p)];
      if (place == kNone) continue;
      const Offset first = b_rows_.row_ptr[static_cast<std::size_t>(place)];
      for (Offset q = first; q < first + b_length(place); ++q)
        products_.push_back({b.col_idx[q], a.values[p] * b.values[q]});
    }
    if (products_.empty()) return 0;
    std::stable_sort(products_.begin(), products_.end(),
                     [](const Term<T>& u, const Term<T>& v) { return u.column < v.column; });
    Offset count = 0;
    for (const Term<T>& product : products_) {
      if (count > 0 && columns[count - 1] == product.column) {
        values[count - 1] += product.value;
        continue;
      }
      columns[count] = product.column;
      values[count++] = product.value;
    }
    return count;
  }

  Exec& exec_;
  NonEmptyRows a_rows_;
  NonEmptyRows b_rows_;
  NonEmptyRows c_rows_;  // of C: its columns and values are c_'s
  Places b_places_;
  Buffer<Index> b_place_;  // for each non-zero of A, the place of its row of B
  std::vector<Term<T>> products_;
};

}  // namespace

void cpu_serial::add_hypersparse(Registry& registry) {
  registry.add<Hypersparse>({.name = "01_cpu_serial/hypersparse",
                             .idea = "doubly compressed rows: run looks at no empty row",
                             .previous = "gustavson_hash"});
}

}  // namespace stages
