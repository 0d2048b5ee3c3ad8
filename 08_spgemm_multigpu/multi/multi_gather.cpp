// SpGEMM over several GPUs, as the original did it: rows dealt out one by one, everything gathered by rank 0.
//
// The idea: K processes with a GPU each. Row i of A goes to process i mod K, all of B to every process; each
// multiplies its rows on its GPU, copies them to its host, and sends them to rank 0: how many non-zeros, then
// the lengths of the rows, columns, and values. Rank 0 puts the rows back into their order.
//
// It is here twice. multi_gather_hash multiplies by the original's kernels, those of rung 2, and is the
// original as a whole. multi_gather multiplies by those of binned.cu, as multi_blocks.cpp does: so what this
// dealing and gathering cost can be told apart from how one GPU multiplies.
//
// What is made right: K need not divide the rows, and may be larger than their number; counts and messages
// have no limit at 2^31; columns are sorted; and rank 0 receives from all at once, where the original waited
// for one sender after another.
//
// What remains is the plan itself. Dealing out rows balances rows, not work: the longest of them, or a matrix
// whose heavy rows lie a multiple of K apart, decides. Neighbouring rows, which would read the same rows of B,
// go to different GPUs, whose caches then all hold the same. And all of C passes one process, through pageable
// memory, and is moved once more to be interleaved. The figures `imbalance`, `bytes_gathered` and the phases
// `to host`, `messages` and `interleave` show it.
//
// Input: any CSR matrices, any number of processes. Cost: the kernels', for rows / K; messages of nnz(B) from
// rank 0 to each process, of nnz(A) / K, and of nnz(C) / K from each process to rank 0; B on every GPU.

#include <algorithm>

#include "08_spgemm_multigpu/multi/multi_product.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "common/harness/registry.hpp"

namespace stages {
namespace {

/// Rows in the order of their processes: those of process 0, then those of process 1, ...
class DealtRows {
 public:
  DealtRows(Index rows, int processes) : processes_(processes), bounds_(1, 0) {
    for (Index p = 0; p < processes; ++p) {
      for (Offset i = p; i < rows; i += processes) order_.push_back(static_cast<Index>(i));
      bounds_.push_back(static_cast<Index>(order_.size()));
    }
  }
  const mpi::RowBounds& bounds() const { return bounds_; }
  const std::vector<Index>& order() const { return order_; }

  /// The largest sum of weights of a process over the mean sum; `before` as for mpi::deal.
  double imbalance(std::span<const Offset> before) const {
    if (before.back() == 0) return 1;
    std::vector<Offset> sums(static_cast<std::size_t>(processes_), 0);
    for (std::size_t i = 0; i + 1 < before.size(); ++i) sums[i % sums.size()] += before[i + 1] - before[i];
    const auto largest = static_cast<double>(*std::max_element(sums.begin(), sums.end()));
    return largest * processes_ / static_cast<double>(before.back());
  }

  /// The rows of `a` in that order.
  template <class T>
  Csr<T> deal(const Csr<T>& a) const {
    Csr<T> out(a.rows, a.cols);
    out.col_idx.reserve(a.col_idx.size());
    std::size_t row = 0;
    for (const Index i : order_) {
      const auto first = a.col_idx.begin() + a.row_ptr[static_cast<std::size_t>(i)];
      out.col_idx.insert(out.col_idx.end(), first, first + a.row_nnz(i));
      out.row_ptr[row + 1] = out.row_ptr[row] + a.row_nnz(i);
      ++row;
    }
    out.values.resize(out.col_idx.size());
    deal_values(a.view(), out);
    return out;
  }

  /// New values of `a`, into what deal() gave.
  template <class T>
  void deal_values(const CsrView<T>& a, Csr<T>& out) const {
    auto to = out.values.begin();
    for (const Index i : order_) to = std::copy(a.values + a.row_ptr[i], a.values + a.row_ptr[i + 1], to);
  }

  /// The other way: `c` has its rows in that order, the result has them in their own.
  template <class T>
  Csr<T> interleave(const Csr<T>& c) const {
    Csr<T> out(c.rows, c.cols);
    std::size_t row = 0;
    for (const Index i : order_) {
      out.row_ptr[static_cast<std::size_t>(i) + 1] = c.row_ptr[row + 1] - c.row_ptr[row];
      ++row;
    }
    for (std::size_t i = 0; i + 1 < out.row_ptr.size(); ++i) out.row_ptr[i + 1] += out.row_ptr[i];
    out.col_idx.resize(c.col_idx.size());
    out.values.resize(c.values.size());
    row = 0;
    for (const Index i : order_) {
      const Offset from = c.row_ptr[row], to = out.row_ptr[static_cast<std::size_t>(i)];
      const Offset length = c.row_ptr[row + 1] - from;
      std::copy_n(c.col_idx.begin() + from, length, out.col_idx.begin() + to);
      std::copy_n(c.values.begin() + from, length, out.values.begin() + to);
      ++row;
    }
    return out;
  }

 private:
  Index processes_;
  std::vector<Index> order_;
  mpi::RowBounds bounds_;
};

/// How a process multiplies its rows: as the original did.
template <class T>
struct ByHashing {
  using Plan = SpgemmPlan<T>;
  static constexpr bool kChains = false;
  static const Implementation<SpgemmProblem<T>>& entry() {
    static const Registry only = [] {
      Registry registry;
      add_hash_warp_per_row(registry);
      return registry;
    }();
    return only.entries().front().template on<SpgemmProblem<T>>();
  }
  static Cost cost(const SpgemmProblem<T>& problem) {
    Exec host;
    return entry().look(problem, host).cost(problem);
  }
  static double bytes_of_b(const SpgemmProblem<T>& problem) { return device_csr_bytes(*problem.b); }
  static std::unique_ptr<Plan> make(const SpgemmProblem<T>& problem, Exec& exec, const spgemm::Settings&) {
    return entry().prepare(problem, exec);
  }
};

template <class T, class Local>
class MultiGather final : public spgemm::MultiProduct<T, Local> {
 public:
  MultiGather(const SpgemmProblem<T>& problem, Exec& exec, const spgemm::Settings& settings)
      : spgemm::MultiProduct<T, Local>(problem, exec, settings),
        rows_(this->shape_.rows, this->ranks_.size()) {
    if (this->root()) {
      dealt_ = rows_.deal(*problem.a);
      this->set_imbalance(rows_.imbalance(mpi::products_before(*problem.a, *problem.b, 0)));
    }
    this->take_rows(dealt_.view(), rows_.bounds());
  }

  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec& exec) {
    if (problem.destination == Destination::one_gpu)
      return "cannot leave C on one GPU: it comes together on the host of rank 0";
    return mpi::needs_ranks(exec);
  }

 private:
  void place() override {
    if (this->root()) rows_.deal_values(this->a_, dealt_);
    this->place_a(dealt_.values.data());
    this->place_b();
    this->upload();
  }

  void collect() override {
    Csr<T> part;
    {
      Phase phase(this->exec_, "to host");
      part = this->product().fetch();
    }
    {
      Phase phase(this->exec_, "messages");
      receive(part);
    }
    Phase phase(this->exec_, "interleave");
    if (this->root()) c_ = rows_.interleave(dealt_c_);
  }

  /// Rank 0 gets the rows of all, in the order in which they were dealt.
  void receive(const Csr<T>& part) {
    const std::vector<Offset> places = mpi::all_bounds(part.nnz(), this->comm());
    const mpi::RowBounds& bounds = rows_.bounds();
    mpi::Transfers transfers(this->comm());
    if (this->root()) {
      dealt_c_ = Csr<T>(this->shape_.rows, this->shape_.cols);
      dealt_c_.col_idx.resize(static_cast<std::size_t>(places.back()));
      dealt_c_.values.resize(static_cast<std::size_t>(places.back()));
      for (std::size_t r = 0; r + 1 < bounds.size(); ++r) {
        const int from = static_cast<int>(r);
        const Offset entries = places[r + 1] - places[r];
        transfers.receive(dealt_c_.row_ptr.data() + bounds[r] + 1, bounds[r + 1] - bounds[r], from);
        transfers.receive(dealt_c_.col_idx.data() + places[r], entries, from);
        transfers.receive(dealt_c_.values.data() + places[r], entries, from);
      }
    }
    transfers.send(part.row_ptr.data() + 1, part.rows, 0);
    transfers.send(part.col_idx.data(), part.nnz(), 0);
    transfers.send(part.values.data(), part.nnz(), 0);
    transfers.wait();
    if (!this->root()) return;
    for (std::size_t r = 0; r + 1 < bounds.size(); ++r) {
      for (Index i = bounds[r]; i < bounds[r + 1]; ++i)
        dealt_c_.row_ptr[static_cast<std::size_t>(i) + 1] += places[r];
    }
  }

  void forget() override {
    c_ = Csr<T>();
    dealt_c_ = Csr<T>();
    this->product().reset();
  }
  Csr<T> result() const override { return c_; }

  DealtRows rows_;
  Csr<T> dealt_;        // rank 0: A, its rows as dealt
  Csr<T> dealt_c_, c_;  // rank 0
};

template <class T>
using GatherBinned = MultiGather<T, spgemm::ByBinned<T>>;
template <class T>
using GatherHash = MultiGather<T, ByHashing<T>>;

}  // namespace

void add_multi_gather(Registry& registry, const std::string& name, const spgemm::Settings& settings) {
  registry.add<GatherBinned>(
      {.name = name,
       .idea = "several GPUs: row i to process i mod K, B to all, rows of C sent to rank 0 and interleaved"},
      settings);
}

void add_multi_gather_hash(Registry& registry, const std::string& name) {
  registry.add<GatherHash>({.name = name,
                            .idea = "the course report's program: as multi_gather, with the kernels of "
                                    "hash_warp_per_row",
                            .claims = {.bitwise_reproducible = false}},
                           spgemm::Settings{});
}

}  // namespace stages
