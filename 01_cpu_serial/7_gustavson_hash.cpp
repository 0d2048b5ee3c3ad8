// Gustavson's algorithm with a hash table.
//
// The idea: where row i of C has far fewer non-zeros than the matrix has columns, a place for each column is
// wasteful. Instead there is a table of twice the row's products, rounded up to a power of two. A column's
// place is found by hashing and, where it is taken, by trying the next ones. A row of 20 products works in 64
// places, which stay in the first-level cache however wide the matrix is.
//
// The hash multiplies by a large odd number and keeps the upper bits. The lower bits of the column itself, as
// hash tables on GPUs often take, send columns at a distance of a power of two to the same place, and meshes
// are full of such columns.
//
// Each row's columns are listed as they first appear, sorted at the end, and their sums looked up in that
// order. It runs twice: first to count, which sizes C exactly, then to fill.
//
// Input: any CSR matrices. Cost: 2 x products probes and r log r for a row of r results; the table is at most
// half full, so a column is found in 1.5 tries on average, and a new one has its place in 2.5. Each pass also
// clears the row's table, 2 to 4 places a product. Memory: C exactly, and for the widest row a table of 2 to 4
// times its products (never more than 4 x columns).

#include <algorithm>
#include <bit>

#include "01_cpu_serial/stage.hpp"

namespace stages {
namespace {

constexpr Index kFree = -1;

/// Places for `entries` columns: a power of two that leaves at least half of them free.
std::size_t table_size(Offset entries) {
  return std::bit_ceil(2 * static_cast<std::size_t>(std::max<Offset>(entries, 4)));
}

/// The accumulator. All places are free between rows.
template <class T>
class HashTable {
 public:
  explicit HashTable(Offset most_entries) : keys_(table_size(most_entries), kFree), sums_(keys_.size()) {}

  /// Uses the first table_size(entries) places for the rows that follow. The table must be empty.
  void resize(Offset entries) {
    const std::size_t size = table_size(entries);
    mask_ = size - 1;
    shift_ = 64 - std::countr_zero(size);
  }

  /// Where `column` is, or else the free place that is meant for it.
  std::size_t find(Index column) const {
    std::size_t place = (static_cast<std::uint64_t>(column) * 0x9E3779B97F4A7C15u) >> shift_;
    while (keys_[place] != column && keys_[place] != kFree) place = (place + 1) & mask_;
    return place;
  }

  /// Enters `column` if it is new; true if it was.
  bool enter(Index column) {
    const std::size_t place = find(column);
    if (keys_[place] == column) return false;
    keys_[place] = column;
    return true;
  }

  /// Adds `product` to the sum of `column`; true if the column is new.
  bool add(Index column, T product) {
    const std::size_t place = find(column);
    if (keys_[place] == column) {
      sums_[place] += product;
      return false;
    }
    keys_[place] = column;
    sums_[place] = product;
    return true;
  }

  T sum(Index column) const { return sums_[find(column)]; }
  /// Frees all places of the row's table, whether they are in use or not.
  void clear() { std::fill_n(keys_.begin(), mask_ + 1, kFree); }

 private:
  Buffer<Index> keys_;
  Buffer<T> sums_;
  std::size_t mask_ = 0;
  int shift_ = 64;
};

/// Calls visit(position in A, position in B) for every product of row i of C.
template <class T, class Visit>
void for_each_product(const CsrView<T>& a, const CsrView<T>& b, Index i, Visit&& visit) {
  for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
    const Index k = a.col_idx[p];
    for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q) visit(p, q);
  }
}

template <class T>
class GustavsonHash final : public HostSpgemmPlan<T> {
 public:
  GustavsonHash(const SpgemmProblem<T>& problem, Exec& exec)
      : HostSpgemmPlan<T>(problem), exec_(exec), table_(widest_row(problem)) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    return problem_cost(problem)
        .with_work(2 * static_cast<double>(problem.products) + 2.0 * problem.a->rows)
        .plus_memory(static_cast<double>(table_size(widest_row(problem))) * (sizeof(Index) + sizeof(T)));
  }

  // In a chain A is the last C, whose widest row is another; a load begins with the first A again.
  void load(const SpgemmOperands<T>& operands) override {
    HostSpgemmPlan<T>::load(operands);
    table_ = HashTable<T>(widest_row(this->problem()));
  }
  void advance() override {
    HostSpgemmPlan<T>::advance();
    table_ = HashTable<T>(widest_row(this->problem()));
  }

  void run() override {
    const CsrView<T>&a = this->a(), &b = this->b();
    Csr<T>& c = this->c_;
    c = Csr<T>(a.rows, b.cols);
    {
      Phase phase(exec_, "symbolic");
      for (Index i = 0; i < a.rows; ++i) {
        const auto row = static_cast<std::size_t>(i);
        c.row_ptr[row + 1] = c.row_ptr[row] + count_row(a, b, i);
      }
      c.col_idx.resize(static_cast<std::size_t>(c.row_ptr.back()));
      c.values.resize(c.col_idx.size());
    }
    Phase phase(exec_, "numeric");
    for (Index i = 0; i < a.rows; ++i) {
      const Offset at = c.row_ptr[static_cast<std::size_t>(i)];
      fill_row(a, b, i, c.col_idx.data() + at, c.values.data() + at);
    }
  }

 private:
  static Offset widest_row(const SpgemmProblem<T>& problem) {
    return std::min(problem.max_row_products, Offset{problem.b->cols});
  }

  /// Fits the table to row i of C; false if the row has no products.
  bool fit_table(const CsrView<T>& a, const CsrView<T>& b, Index i) {
    Offset products = 0;
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p)
      products += b.row_ptr[a.col_idx[p] + 1] - b.row_ptr[a.col_idx[p]];
    if (products > 0) table_.resize(std::min(products, Offset{b.cols}));
    return products > 0;
  }

  Offset count_row(const CsrView<T>& a, const CsrView<T>& b, Index i) {
    if (!fit_table(a, b, i)) return 0;
    Offset count = 0;
    for_each_product(a, b, i, [&](Offset, Offset q) { count += table_.enter(b.col_idx[q]); });
    table_.clear();
    return count;
  }

  void fill_row(const CsrView<T>& a, const CsrView<T>& b, Index i, Index* columns, T* values) {
    if (!fit_table(a, b, i)) return;
    Index* end = columns;
    for_each_product(a, b, i, [&](Offset p, Offset q) {
      if (table_.add(b.col_idx[q], a.values[p] * b.values[q])) *end++ = b.col_idx[q];
    });
    std::sort(columns, end);
    for (const Index* column = columns; column < end; ++column) *values++ = table_.sum(*column);
    table_.clear();
  }

  Exec& exec_;
  HashTable<T> table_;
};

}  // namespace

void cpu_serial::add_gustavson_hash(Registry& registry) {
  registry.add<GustavsonHash>({.name = "01_cpu_serial/gustavson_hash",
                               .idea = "rows of B added into a hash table as large as the row",
                               .previous = "gustavson_dense"});
}

}  // namespace stages
