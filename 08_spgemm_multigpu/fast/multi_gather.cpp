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

#include "08_spgemm_multigpu/fast/multi_product.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "common/harness/registry.hpp"
#include "common/matrix/row_order.hpp"

namespace stages {
namespace {

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
      : spgemm::MultiProduct<T, Local>(problem, exec, settings) {
    const int processes = this->ranks_.size();
    for (int p = 0; p < processes; ++p) {
      for (Offset i = p; i < this->shape_.rows; i += processes) order_.push_back(static_cast<Index>(i));
      bounds_.push_back(static_cast<Index>(order_.size()));
    }
    auto a = std::make_shared<Csr<T>>(), b = std::make_shared<Csr<T>>();
    if (this->root()) dealt_ = with_rows(*problem.a, order_);
    mpi::scatter_rows(dealt_.view(), bounds_, this->shape_.inner, *a, this->comm());
    mpi::broadcast_matrix(this->b_, *b, this->comm());
    this->entries_ = mpi::all_bounds(a->nnz(), this->comm());
    const std::shared_ptr<const Csr<T>> all_b = this->root() ? problem.b : b;
    this->product_ = Local::make(
        make_spgemm_problem<T>("rows of one process", a, all_b, Destination::host, this->shape_.rounds),
        this->exec_, this->settings_);
  }

  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec& exec) {
    if (problem.destination == Destination::one_gpu)
      return "cannot leave C on one GPU: it comes together on the host of rank 0";
    return mpi::needs_ranks(exec);
  }

 private:
  void place() override {
    auto to = dealt_.values.begin();
    for (std::size_t k = 0; k < order_.size() && this->root(); ++k) {
      const Offset* const row = this->a_.row_ptr + order_[k];
      to = std::copy(this->a_.values + row[0], this->a_.values + row[1], to);
    }
    if (this->root()) this->values_.b_values.assign(this->b_.values, this->b_.values + this->shape_.nnz_b);
    mpi::broadcast(this->values_.b_values, 0, this->comm());
    this->place_values(dealt_.values.data());
  }

  double imbalance() const override {
    return mpi::imbalance(mpi::products_before(dealt_, *this->problem_.b, 0), bounds_);
  }

  void collect() override {
    Csr<T> part;
    {
      Phase phase(this->exec_, "to host");
      part = this->product_->fetch();
    }
    {
      Phase phase(this->exec_, "messages");
      dealt_c_.gather(part, bounds_, this->shape_.cols, this->comm());
    }
    Phase phase(this->exec_, "interleave");
    std::vector<Index> places(order_.size());
    for (std::size_t k = 0; k < order_.size(); ++k)
      places[static_cast<std::size_t>(order_[k])] = static_cast<Index>(k);
    if (this->root()) c_ = with_rows(dealt_c_.whole(), places);
  }

  void forget() override {
    c_ = Csr<T>();
    dealt_c_.forget();
    this->product_->reset();
  }
  Csr<T> result() const override { return c_; }

  std::vector<Index> order_;  // of the rows: those of process 0, then those of process 1, ...
  mpi::RowBounds bounds_ = {0};
  Csr<T> dealt_;  // rank 0: A, its rows as dealt
  mpi::GatheredRows<T> dealt_c_;
  Csr<T> c_;  // rank 0
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

void add_multi_gather_hash(Registry& registry) {
  registry.add<GatherHash>({.name = "08_spgemm_multigpu/multi_gather_hash",
                            .idea = "the course report's program: as multi_gather, with the kernels of "
                                    "hash_warp_per_row",
                            .claims = {.bitwise_reproducible = false}},
                           spgemm::Settings{});
}

}  // namespace stages
