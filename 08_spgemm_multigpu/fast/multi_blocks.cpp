// SpGEMM over several GPUs: blocks of neighbouring rows of about equal work.
//
// The idea: K processes with a GPU each. The rows of A are cut into K blocks with about equally many products;
// as forms differ in what a product takes them, prepare multiplies, sees how long each process takes, and cuts
// again (common/mpi/spgemm_plan.cpp). Each process multiplies its block by the kernels of binned.cu, and its
// block of C is a contiguous part of the whole.
//
// Compared with multi_gather.cpp: a process gets work, not rows, so no GPU waits for another unless a single
// row is heavier than a share; neighbouring rows, which tend to read the same rows of B, share a cache; and a
// block of C needs no interleaving, only a place.
//
// All columns of A and B, once if A is B, go from rank 0 to its GPU and from there to the others, and row
// pointers to all hosts, while rank 0 counts products with all processors. To cut again then moves nothing.
//
// B's values come from rank 0, too. All of B to each GPU would pass over its bus K times. So each process gets
// a part, 1 / K, and takes it to its GPU; then the GPUs fetch from each other what they lack, all at once:
// between GPUs of one machine that is several times as fast as from the host. This belongs to load(). Between
// nodes, or where a process sees no other's GPU, all of it goes by messages.
//
// Where C must be on the host, it lies in memory that all processes of the node see, and each copies its block
// from its GPU to its place, all at once, each over its own bus. The place follows from one number of each
// process. Between nodes blocks go by messages. Where C must be on one GPU, each process writes its block
// straight to its place there.
//
// Input: any CSR matrices, any number of processes. Cost: binned.cu's, over K; B and A's columns on every GPU;
// C once in the shared window or on rank 0's GPU.

#include <chrono>
#include <future>
#include <limits>

#include "08_spgemm_multigpu/fast/multi_product.hpp"
#include "08_spgemm_multigpu/fast/multi_result.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "common/gpu/memory.hpp"
#include "common/harness/clock.hpp"
#include "common/mpi/check.hpp"
#include "common/multigpu/peer_memory.hpp"

namespace stages {
namespace {

/// What a row costs beside its products, in products, before anything was measured. On one H200 `hypersparse`
/// (a product a row) takes about 0.17 ns a row, and `uniform` (64 a row) 0.03 ns a product, a fifth of that.
/// 4 was right by an earlier record; where shares take a millisecond or more, the clock decides anyway.
constexpr Offset kRowWeight = 4;

template <class T>
class MultiBlocks final : public spgemm::MultiProduct<T> {
 public:
  MultiBlocks(const SpgemmProblem<T>& problem, Exec& exec, const spgemm::Settings& settings)
      : spgemm::MultiProduct<T>(problem, exec, settings),
        peers_(this->ranks_, this->shape_.nnz_b * Offset{sizeof(T) + sizeof(Index)} +
                                 (this->shape_.a_is_b ? 0 : this->shape_.nnz_a * Offset{sizeof(Index)})),
        window_(this->ranks_.node()),
        on_gpu_(this->ranks_) {
    auto weights = std::async(std::launch::async, [this, &problem] {
      return this->root() ? mpi::products_before(*problem.a, *problem.b, kRowWeight) : std::vector<Offset>();
    });
    if (to_one_gpu() && !peers_.reachable())
      fail(
          "C cannot be written to one GPU: the processes do not reach each other's; let each see all GPUs "
          "(CUDA_VISIBLE_DEVICES), or give --destination host");
    if (peers_.reachable()) share_out_b();
    bring_structures();
    if (exec.simulated() && settings.least_trial > 0) {
      this->deal_rows(weights.get());  // the executor's clock says nothing
    } else {
      this->deal_rows_by_time(weights.get(), settings.least_trial);
    }
  }

  static std::optional<std::string> refuse(const SpgemmProblem<T>& problem, Exec& exec) {
    if (const auto reason = mpi::needs_ranks(exec)) return reason;
    const int nodes = mpi::ranks_of(exec)->nodes();
    if (problem.destination == Destination::one_gpu && nodes > 1)
      return fmt::format("writes C to one GPU from the GPUs of 1 node, and there are {} nodes", nodes);
    return std::nullopt;
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    Cost cost = spgemm::MultiProduct<T>::cost(problem);
    if (problem.a != problem.b) cost.memory += sizeof(Index) * static_cast<double>(problem.a->nnz());
    if (problem.destination == Destination::one_gpu) {
      const double entries = (sizeof(Index) + sizeof(T)) * static_cast<double>(problem.result_bound);
      cost.memory += 1.25 * (entries + sizeof(Offset) * (problem.a->rows + 1.0));
    }
    return cost;
  }

 private:
  std::string own_note() const override {
    const std::string note = spgemm::MultiProduct<T>::own_note();
    if (!in_window() || nnz_ == 0 || window_.locked()) return note;
    return note + (note.empty() ? "" : "; ") + "C's memory could not be page-locked";
  }

  cudaStream_t stream() const { return as_gpu(this->exec_).stream(); }

  /// Columns to all GPUs, at byte `at` of peers_; row pointers to all hosts.
  CsrView<T> bring(const CsrView<T>& m, Shape shape, Offset entries, Offset at, Buffer<Offset>& copy) {
    if (!this->root()) copy.resize(static_cast<std::size_t>(shape.rows) + 1);
    const Offset* const row_ptr = this->root() ? m.row_ptr : copy.data();
    mpi::broadcast(const_cast<Offset*>(row_ptr), Offset{shape.rows} + 1, 0, this->comm());
    peers_.broadcast(at, m.col_idx, entries * Offset{sizeof(Index)}, stream());
    return {shape.rows, shape.cols, row_ptr, reinterpret_cast<const Index*>(peers_.data() + at)};
  }
  void bring_structures() {
    const mpi::ProductShape& s = this->shape_;
    const Offset columns_b = s.nnz_b * Offset{sizeof(T)},
                 columns_a = columns_b + s.nnz_b * Offset{sizeof(Index)};
    all_b_ = bring(this->b_, {s.inner, s.cols}, s.nnz_b, columns_b, b_row_ptr_);
    all_a_ = s.a_is_b ? all_b_ : bring(this->a_, {s.rows, s.inner}, s.nnz_a, columns_a, a_row_ptr_);
    all_b_.values = reinterpret_cast<const T*>(peers_.data());
    STAGES_CUDA(cudaMemsetAsync(peers_.data(), 0, static_cast<std::size_t>(columns_b), stream()));
    if (this->root()) facts_ = spgemm::facts_of(this->problem_, this->settings_);
    mpi::broadcast(&facts_, 1, 0, this->comm());
  }

  /// Nothing is sent: A's structure is everywhere.
  void use(const mpi::RowBounds& bounds) override {
    if (bounds == bounds_) return;
    bounds_ = bounds;
    this->entries_.clear();
    for (const Index row : bounds) this->entries_.push_back(all_a_.row_ptr[row]);
    CsrView<T> a = all_a_;
    a.rows = own_rows();
    a.row_ptr += bounds[this->me()];
    this->product_.reset();
    this->product_ = spgemm::make_binned(a, all_b_, facts_, this->exec_, this->settings_);
  }

  void place() override {
    this->place_values(this->a_.values);
    if (peers_.reachable()) return exchange_b();
    peers_.broadcast(0, this->b_.values, this->shape_.nnz_b * Offset{sizeof(T)}, stream());
  }

  /// B's values: a part to each process and to its GPU, from there to the others.
  void exchange_b() {
    mpi::scatter(reinterpret_cast<const std::byte*>(this->b_.values), b_part_.data(), b_bytes_, 0,
                 this->comm());
    const auto start = std::chrono::steady_clock::now();
    if (b_part_.size() > 0)
      STAGES_CUDA(cudaMemcpyAsync(peers_.data() + b_bytes_[this->me()], b_part_.data(), b_part_.size(),
                                  cudaMemcpyHostToDevice, stream()));
    this->exec_.synchronize();
    upload_seconds_ = mpi::seconds_since(start);
    mpi::check(MPI_Barrier(this->comm()), "waiting for all parts of B");
    const auto uploaded = std::chrono::steady_clock::now();
    peers_.share(b_bytes_, stream());
    exchange_seconds_ = mpi::seconds_since(uploaded);
  }

  /// B's part of each process, and how long the last load took to bring it to a GPU and to all others.
  std::vector<Metric> own_metrics() const override {
    double seconds[2] = {upload_seconds_, exchange_seconds_};
    mpi::max_over_ranks(seconds, this->comm());
    const bool unknown = this->exec_.simulated() || this->takes_turns() || !peers_.reachable();
    for (double& s : seconds) s = unknown ? std::numeric_limits<double>::quiet_NaN() : s;
    const double each = static_cast<double>(this->shape_.nnz_b) * sizeof(T) * (this->ranks_.size() - 1);
    std::vector<Metric> all = {{"upload_b_seconds", seconds[0], "s"},
                               {"exchange_b_seconds", seconds[1], "s"},
                               {"bytes_exchanged_b", peers_.reachable() ? each : 0, "B"}};
    if (in_window() && this->shape_.destination == Destination::host) add_to_host(all);
    return all;
  }

  /// With which share of the speed that all buses together have C comes to the host. The median: the first
  /// times make memory.
  void add_to_host(std::vector<Metric>& all) const {
    const double limit = as_gpu(this->exec_).to_host_bytes_per_second();
    std::vector<double> seconds = to_host_seconds_;
    mpi::max_over_ranks(seconds, this->comm());
    double bytes = static_cast<double>(to_host_bytes_);
    mpi::sum_over_ranks(std::span(&bytes, 1), this->comm());
    const double unknown = std::numeric_limits<double>::quiet_NaN();
    const bool says_nothing = this->exec_.simulated() || this->takes_turns() || seconds.empty();
    all.push_back({"to_host_share", says_nothing ? unknown : bytes / limit / summarize(seconds).median, ""});
  }

  void share_out_b() {
    const Offset nnz = this->shape_.nnz_b, processes = this->ranks_.size();
    for (Offset p = 0; p <= processes; ++p) b_bytes_.push_back(nnz * p / processes * Offset{sizeof(T)});
    b_part_ =
        PinnedArray<std::byte>(static_cast<std::size_t>(b_bytes_[this->me() + 1] - b_bytes_[this->me()]));
  }

  Index own_rows() const { return bounds_[this->me() + 1] - bounds_[this->me()]; }

  bool to_one_gpu() const { return this->shape_.destination == Destination::one_gpu; }
  bool in_window() const { return !to_one_gpu() && this->ranks_.nodes() == 1; }

  void collect() override {
    if (to_one_gpu()) return write_to_one_gpu();
    if (in_window()) return write_to_window();
    c_.gather(this->product_->fetch(), bounds_, this->shape_.cols, this->comm());
  }

  void write_to_window() {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Offset> places = mpi::all_bounds(this->product_->results(), this->comm());
    nnz_ = places.back();
    window_.reserve(this->shape_.rows, nnz_);
    const Offset first = places[this->me()];
    // The first row pointer is the last one of the block before.
    const std::size_t bytes = static_cast<std::size_t>(own_rows()) * sizeof(Offset);
    if (this->root()) window_.row_ptr()[0] = 0;
    if (bytes > 0)
      STAGES_CUDA(cudaMemcpyAsync(window_.row_ptr() + bounds_[this->me()] + 1,
                                  this->product_->row_ptr_from(first) + 1, bytes, cudaMemcpyDeviceToHost,
                                  stream()));
    this->product_->copy_to_host(window_.col_idx() + first, window_.values() + first);
    to_host_bytes_ =
        static_cast<Offset>(bytes) + (places[this->me() + 1] - first) * Offset{sizeof(Index) + sizeof(T)};
    mpi::add_traffic(to_host_bytes_);
    window_.fence();
    to_host_seconds_.push_back(mpi::seconds_since(start));
  }

  void write_to_one_gpu() {
    const std::vector<Offset> places = mpi::all_bounds(this->product_->results(), this->comm());
    const Offset first = places[this->me()], count = places[this->me() + 1] - first;
    nnz_ = places.back();
    on_gpu_.reserve(this->shape_.rows, nnz_);
    const auto block = this->product_->on_device();
    if (count > 0 && block.values == nullptr)
      fail("a block of C does not fit on its GPU, so all of C does not fit on one; give --destination host");
    on_gpu_.col_idx.write(first, block.col_idx, count, stream());
    on_gpu_.values.write(first, block.values, count, stream());
    // The last one is the first of the next block, which writes it; the whole's last is the last process's.
    const bool last = this->me() + 1 == static_cast<std::size_t>(this->ranks_.size());
    on_gpu_.row_ptr.write(bounds_[this->me()], this->product_->row_ptr_from(first),
                          own_rows() + (last ? 1 : 0), stream());
    on_gpu_.complete(stream());
  }

  void forget() override {
    if (this->root() && nnz_ > 0 && in_window()) window_.poison(nnz_);
    if (this->root() && nnz_ > 0 && to_one_gpu()) {
      on_gpu_.poison(nnz_, stream());
      this->exec_.synchronize();
    }
    nnz_ = 0;
    c_.forget();
    this->product_->reset();
  }

  Csr<T> result() const override {
    if (to_one_gpu()) return on_gpu_.read(this->shape_.rows, this->shape_.cols, nnz_);
    if (!in_window()) return c_.whole();
    return window_.read(this->shape_.rows, this->shape_.cols, nnz_);
  }

  mpi::RowBounds bounds_;
  spgemm::ProductFacts facts_;
  mpi::PeerMemory peers_;                 // B's values, 0 before load(), its columns, and A's unless A is B
  Buffer<Offset> a_row_ptr_, b_row_ptr_;  // not on rank 0
  CsrView<T> all_a_, all_b_;              // columns and values on the GPU
  std::vector<Offset> b_bytes_;           // where the part of each process begins in B's values
  PinnedArray<std::byte> b_part_;
  double upload_seconds_ = 0, exchange_seconds_ = 0;
  spgemm::WindowCsr<T> window_;
  spgemm::RootCsr<T> on_gpu_;
  std::vector<double> to_host_seconds_;  // of each time that C was brought into the window
  Offset to_host_bytes_ = 0;             // of this process's block
  Offset nnz_ = 0;                       // of C, where it is in the window or on one GPU
  mpi::GatheredRows<T> c_;               // where there are several nodes
};

}  // namespace

void add_multi_blocks(Registry& registry, const std::string& name, const spgemm::Settings& settings) {
  registry.add<MultiBlocks>({.name = name,
                             .idea = "several GPUs: blocks of neighbouring rows of equal work; C left there, "
                                     "or copied to its place by each"},
                            settings);
}

}  // namespace stages
