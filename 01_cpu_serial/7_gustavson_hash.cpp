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
// Each row's columns are listed as they first appear and sorted at the end, as in 5_gustavson_sorted.cpp, and
// their sums looked up in that order.
//
// Input: any CSR matrices. Cost: a probe a product, and r log r for a row of r results; the table is at most
// half full, so a column is found in 1.5 tries on average, and a new one has its place in 2.5. Clearing the
// row's table costs 2 to 4 places a product. Memory: C, which grows, and for the widest row a table of 2 to 4
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

template <class T>
class GustavsonHash final : public HostSpgemmPlan<T> {
 public:
  GustavsonHash(const SpgemmProblem<T>& problem, Exec& /*exec*/)
      : HostSpgemmPlan<T>(problem), table_(widest_row(problem)) {}

  static Cost cost(const SpgemmProblem<T>& problem) {
    const double places = static_cast<double>(table_size(widest_row(problem)) + problem.result_bound);
    return problem_cost(problem).plus_memory(places * (sizeof(Index) + sizeof(T)));
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
    const CsrView<T>& a = this->a();
    Csr<T>& c = this->c_;
    c = Csr<T>(a.rows, this->b().cols);
    for (Index i = 0; i < a.rows; ++i) {
      add_row(i, c);
      c.row_ptr[static_cast<std::size_t>(i) + 1] = std::ssize(c.col_idx);
    }
  }

 private:
  static Offset widest_row(const SpgemmProblem<T>& problem) {
    return std::min(problem.max_row_products, Offset{problem.b->cols});
  }

  /// Makes row i of C, behind the rows that are there.
  void add_row(Index i, Csr<T>& c) {
    const CsrView<T>&a = this->a(), &b = this->b();
    Offset products = 0;
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p)
      products += b.row_ptr[a.col_idx[p] + 1] - b.row_ptr[a.col_idx[p]];
    if (products == 0) return;
    table_.resize(std::min(products, Offset{b.cols}));
    const std::ptrdiff_t first = std::ssize(c.col_idx);
    for (Offset p = a.row_ptr[i]; p < a.row_ptr[i + 1]; ++p) {
      const Index k = a.col_idx[p];
      for (Offset q = b.row_ptr[k]; q < b.row_ptr[k + 1]; ++q)
        if (table_.add(b.col_idx[q], a.values[p] * b.values[q])) c.col_idx.push_back(b.col_idx[q]);
    }
    std::sort(c.col_idx.begin() + first, c.col_idx.end());
    for (auto column = c.col_idx.begin() + first; column < c.col_idx.end(); ++column)
      c.values.push_back(table_.sum(*column));
    table_.clear();
  }

  HashTable<T> table_;
};

}  // namespace

void cpu_serial::add_gustavson_hash(Registry& registry) {
  registry.add<GustavsonHash>({.name = "01_cpu_serial/gustavson_hash",
                               .idea = "rows of B added into a hash table as large as the row",
                               .previous = "gustavson_dense"});
}

}  // namespace stages
