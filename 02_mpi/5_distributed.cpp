// SpGEMM over processes whose A, B and C lie on the ranks by rows.
//
// The idea, a change of 3_balanced.cpp: rank r holds some rows of A and of B, and makes its rows of C. For
// these it needs row k of B wherever column k occurs in its rows of A, and nothing else. So the ranks tell
// each other which rows they need, send these, and multiply. On a mesh or a band each rank needs its own rows
// and a few of its neighbours'; on a random graph nearly everything, and then it is no better than a
// broadcast.
//
// Five exchanges (how many rows, which ones, how long they are, their columns, their values) replace the
// broadcast; in them rank 0 is like any other rank. This is the sparsity-aware 1D algorithm. C lies as A did,
// so it is the A of the next product where there is one: A <- A B, again and again (--mode chain), and then no
// matrix ever moves but the rows of B that a rank lacks.
//
// As an entry it begins where the others begin: rank 0 sends out the rows of A and B (place). With
// --destination distributed C then stays on the ranks; otherwise rank 0 gathers it (collect). Rows of A are
// dealt by products, corrected by the time that they take. A square A gives its deal to B too, because near
// the diagonal a row needs rows of its own rank; otherwise B is dealt by nnz.
//
// Input: any CSR matrices, any number of ranks. Cost: one step a product, over ranks; messages: the distinct
// rows of B that each rank's columns name and another rank owns; and a look at the list of all rows of B, on
// each rank. Memory on a rank: its rows of A, B and C, and the rows of B that it fetched, twice.
//
// Source: A. Buluc and J. R. Gilbert, "Parallel sparse matrix-matrix multiplication and indexing:
// implementation and experiments", SIAM J. Sci. Comput. 34 (2012), for the 1D algorithms and what is wrong
// with them at many ranks.

#include <numeric>

#include "02_mpi/requests.hpp"
#include "02_mpi/stage.hpp"
#include "common/kernels/spgemm_rows.hpp"
#include "common/mpi/clocks.hpp"
#include "common/mpi/session.hpp"
#include "common/mpi/spgemm_plan.hpp"

namespace stages {
namespace mpi {

NeededRows needed_rows(std::span<const Index> columns, Index rows) {
  Buffer<Index> place(static_cast<std::size_t>(rows), -1);
  for (const Index k : columns) place[static_cast<std::size_t>(k)] = 0;
  NeededRows needed;
  for (Index k = 0; k < rows; ++k) {
    if (place[static_cast<std::size_t>(k)] < 0) continue;
    place[static_cast<std::size_t>(k)] = static_cast<Index>(needed.rows.size());
    needed.rows.push_back(k);
  }
  needed.places.resize(columns.size());
  for (std::size_t q = 0; q < columns.size(); ++q)
    needed.places[q] = place[static_cast<std::size_t>(columns[q])];
  return needed;
}

Requests exchange_requests(std::span<const Index> needed, const RowBounds& owners, MpiCommunicator& ranks) {
  Requests requests{{0}, {0}, {}};
  std::vector<Offset> wanted;
  for (std::size_t r = 0; r + 1 < owners.size(); ++r) {
    requests.receive_bounds.push_back(std::ranges::lower_bound(needed, owners[r + 1]) - needed.begin());
    wanted.push_back(requests.receive_bounds[r + 1] - requests.receive_bounds[r]);
  }
  for (const Offset count : all_to_all(wanted, ranks.comm()))
    requests.send_bounds.push_back(requests.send_bounds.back() + count);
  requests.send_rows.resize(static_cast<std::size_t>(requests.send_bounds.back()));
  mpi::exchange(needed.data(), requests.receive_bounds, requests.send_rows.data(), requests.send_bounds,
                ranks);
  for (Index& row : requests.send_rows) row -= owners[static_cast<std::size_t>(ranks.rank())];
  return requests;
}

namespace {

/// Rank r holds rows bounds[r] .. bounds[r + 1] - 1, with global column numbers.
template <class T>
struct DistributedCsr {
  RowBounds bounds;  ///< the same on all ranks
  Csr<T> mine;       ///< row 0 is row bounds[rank]
};

/// The rows of B that `requests` asks for, as a matrix of these rows alone. Collective.
template <class T>
Csr<T> fetch_rows(const Csr<T>& mine, const Requests& requests, MpiCommunicator& ranks) {
  Buffer<Offset> lengths;
  Csr<T> packed;  // the rows of each rank, this one among them
  for (const Index row : requests.send_rows) {
    const Offset from = mine.row_ptr[static_cast<std::size_t>(row)], length = mine.row_nnz(row);
    lengths.push_back(length);
    packed.col_idx.insert(packed.col_idx.end(), mine.col_idx.begin() + from,
                          mine.col_idx.begin() + from + length);
    packed.values.insert(packed.values.end(), mine.values.begin() + from,
                         mine.values.begin() + from + length);
  }
  Csr<T> rows(static_cast<Index>(requests.receive_bounds.back()), mine.cols);
  exchange(lengths.data(), requests.send_bounds, rows.row_ptr.data() + 1, requests.receive_bounds, ranks);
  std::partial_sum(rows.row_ptr.begin(), rows.row_ptr.end(), rows.row_ptr.begin());
  packed.row_ptr.resize(lengths.size() + 1);
  std::partial_sum(lengths.begin(), lengths.end(), packed.row_ptr.begin() + 1);
  const auto entries = [](const Csr<T>& of, std::span<const Offset> row_bounds) {
    std::vector<Offset> bounds;
    for (const Offset row : row_bounds) bounds.push_back(of.row_ptr[static_cast<std::size_t>(row)]);
    return bounds;
  };
  const auto out = entries(packed, requests.send_bounds), in = entries(rows, requests.receive_bounds);
  rows.col_idx.resize(static_cast<std::size_t>(in.back()));
  rows.values.resize(rows.col_idx.size());
  exchange(packed.col_idx.data(), out, rows.col_idx.data(), in, ranks);
  exchange(packed.values.data(), out, rows.values.data(), in, ranks);
  return rows;
}

template <class T>
class Distributed final : public MpiSpgemmPlan<T> {
 public:
  static constexpr bool kChains = true;
  Distributed(const SpgemmProblem<T>& problem, Exec& exec)
      : MpiSpgemmPlan<T>(problem, exec), rows_(this->shape_.cols) {
    std::vector<Offset> before;
    if (this->root()) before = products_before(*problem.a, *problem.b, 1);
    if (this->shape_.rows != this->shape_.inner) {
      RowBounds bounds;
      if (this->root()) bounds = deal(problem.b->row_ptr, this->ranks_.size());
      b_part_.bounds = shared_bounds(std::move(bounds), this->comm());
    }
    this->deal_rows_by_time(std::move(before));
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    return problem_cost(problem).plus_memory(world_size() * kernels::spgemm_rows_bytes(*problem.b) +
                                             static_cast<double>(problem.result_bound) *
                                                 (sizeof(Index) + sizeof(T)));
  }

 private:
  void use(const RowBounds& bounds) override {
    a_part_.bounds = bounds;
    if (this->shape_.rows == this->shape_.inner) b_part_.bounds = bounds;
  }
  void place() override {
    scatter_rows(this->a_, a_part_.bounds, this->shape_.inner, a_part_.mine, this->comm());
    if (this->has_b()) return;
    scatter_rows(this->b_, b_part_.bounds, this->shape_.cols, b_part_.mine, this->comm());
  }
  void multiply() override {
    NeededRows needed;
    Csr<T> b;
    {
      Phase phase(this->exec_, "exchange");
      needed = needed_rows(a_part_.mine.col_idx, b_part_.bounds.back());
      b = fetch_rows(b_part_.mine, exchange_requests(needed.rows, b_part_.bounds, this->ranks_),
                     this->ranks_);
    }
    Phase phase(this->exec_, "compute");
    const auto start = std::chrono::steady_clock::now();
    CsrView<T> a = a_part_.mine.view();
    a.col_idx = needed.places.data();
    a.cols = b.rows;
    rows_.reserve(a, b.view(), c_part_.mine);
    rows_.fill(a, b.view(), c_part_.mine);
    c_part_.bounds = a_part_.bounds;
    this->add_compute_seconds(seconds_since(start));
  }
  void collect() override { c_.gather(c_part_.mine, c_part_.bounds, this->shape_.cols, this->comm()); }
  void forget() override {
    c_.forget();
    c_part_.mine = Csr<T>();
  }
  Csr<T> result() const override { return c_.whole(); }
  void take_result(Csr<T>& to) override { c_.exchange(to); }
  void keep_rows() override { std::swap(a_part_, c_part_); }

  DistributedCsr<T> a_part_, b_part_, c_part_;
  kernels::SpgemmRows<T> rows_;
  GatheredRows<T> c_;
};

}  // namespace
}  // namespace mpi

void add_mpi_distributed(Registry& registry) {
  registry.add<mpi::Distributed>(
      {.name = "02_mpi/distributed",
       .idea = "A, B and C stay on the ranks by rows; each fetches the rows of B it needs",
       .previous = "balanced"});
}

}  // namespace stages
