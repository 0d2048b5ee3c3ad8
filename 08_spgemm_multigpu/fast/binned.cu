// SpGEMM with rows in bins, each bin with the form that suits it: the plan that waits for the device.
//
// The idea: rows of C differ a thousandfold in work; one block shape and one table size fits few. So the device
// sorts the rows into bins, by the number of their products before counting, and by that of their results
// before multiplying (rules.hpp, analysis.cu, bins.cu). The bins are independent kernels on several streams: a
// handful of huge rows occupies a few SMs while the others do the rest. The host waits twice, for the sizes of
// the bins and of C, and as often for each of the two products that split rows are. Counting needs no room for
// C, so row pointers are exact before C is allocated. binned.md draws the flow, and has the rules.
//
// Columns come out ascending. Every sum runs in the order of A's non-zeros, or in one that the structures and
// the device decide (rows.hpp, ranked, split, merged and dense rows): the same bits in each run.
//
// Input: any CSR matrices. Cost: each product once when counting and once or twice when multiplying; memory: A,
// B, C, 38 bytes a row whatever the products (no row hashes in global memory), at most 256 more for a row that
// a large bitmap counts, and what recorded.hpp, split_rows.hpp and words.hpp say.
//
// Sources: two passes with bins by products and by results are Y. Nagasaka, A. Nukada and S. Matsuoka's
// ("High-performance and memory-saving sparse general matrix-matrix multiplication for NVIDIA Pascal GPU",
// ICPP 2017); choosing dense windows for dense rows is in M. Parger et al.'s spECK (PPoPP 2020).

#include "08_spgemm_multigpu/fast/binned.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "08_spgemm_multigpu/fast/batches.hpp"
#include "08_spgemm_multigpu/fast/dense_rows.hpp"
#include "08_spgemm_multigpu/fast/operand.hpp"
#include "08_spgemm_multigpu/fast/passes.hpp"
#include "08_spgemm_multigpu/fast/recorded.hpp"
#include "08_spgemm_multigpu/fast/split_rows.hpp"
#include "08_spgemm_multigpu/stage.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = 256;

__global__ void __launch_bounds__(kBlock) shift(const Offset* from, Offset count, Offset by, Offset* to) {
  const Offset i = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (i < count) to[i] = from[i] + by;
}

template <class T, class Ptr>
class Binned final : public BinnedPlan<T> {
  static constexpr bool kIsWide = std::is_same_v<Ptr, Offset>;  ///< as C's row pointers
  using OnDevice = typename BinnedPlan<T>::OnDevice;

 public:
  Binned(const SpgemmProblem<T>& problem, const ProductFacts& facts, Exec& exec, const Settings& settings)
      : Binned(Operand<T, Ptr>(*problem.a), Operand<T, Ptr>(*problem.b), facts, lanes_for(problem.a->view()),
               exec, settings) {
    if (const RowsAsDense rows = rows_as_dense(*problem.a, *problem.b, settings.rules); !rows.rows.empty()) {
      leave_out(*problem.a, rows.longer_than);
      dense_ = DenseRows<T>(rows, problem.b->cols);
      return;
    }
    const RowsToSplit long_rows = rows_to_split(*problem.a, *problem.b, settings.rules);
    if (long_rows.rows.empty()) return;
    leave_out(*problem.a, asked_rules_.long_row);
    split_ = std::make_unique<SplitRows<T>>(*problem.a, long_rows, b_.view(), exec, settings);
  }

  /// Without rows to split.
  Binned(Operand<T, Ptr> a, Operand<T, Ptr> b, const ProductFacts& facts, unsigned lanes, Exec& exec,
         const Settings& settings)
      : exec_(as_gpu(exec)),
        asked_rules_(settings.rules),
        products_(facts.products),
        most_bytes_(settings.result_bytes > 0 ? settings.result_bytes
                                              : std::numeric_limits<double>::infinity()),
        first_lanes_(lanes),
        lanes_(lanes),
        a_(std::move(a)),
        b_(std::move(b)),
        passes_(exec_, rows(), b_.view().cols, false) {
    passes_.set_rules(asked_rules_, products_);
    if (facts.has_words) passes_.use_words(b_.view().rows, b_.entries());
  }

  void load(const SpgemmOperands<T>& operands) override {
    if (std::exchange(kept_, {}).is_a) {  // a chain begins again
      passes_.set_rules(asked_rules_, products_);
      lanes_ = first_lanes_;
    }
    a_.load(operands.a_values, stream());
    b_.load(operands.b_values, stream());
    if (split_) split_->load(operands.a_values);
    exec_.synchronize();
  }
  void reset() override {
    drop_result();
    if (split_) split_->reset();
  }

  void count() override {
    is_whole_ = false;
    if (split_) split_->count();
    {
      Phase phase(exec_, "analysis");
      passes_.analyse(factors(), lanes_);
      wait_for_bins(Pass::counting, 0, rows());
      passes_.side().join();
    }
    passes_.take_parts(bins_.size_of(Form::windows));
    Phase phase(exec_, "symbolic");
    over_bins([this](Form form, RowList list, cudaStream_t stream) {
      passes_.count(factors(), form, list, stream);
    });
    dense_.count(factors().structures(), passes_.counts(), stream());
    if (split_) split_->put_counts(passes_.counts(), stream());
    passes_.add_up_counts();
    bin_for_multiplying(0, rows());
  }

  void multiply() override {
    drop_result();
    if (split_) split_->multiply();
    if (NonZeros<T>::kBytes * static_cast<double>(results()) <= most_bytes_ && try_whole()) return;
    batches_.make(passes_.row_ptr(), b_.view().cols, most_bytes_, passes_.pool(), exec_,
                  [this](Index first, Index end, const Output<T>& c) {
                    bin_again(first, end);
                    multiply_rows(first, end, c);
                  });
  }

  Offset results() const override { return passes_.told().results; }
  OnDevice on_device() const override { return {c_.col_idx.data(), c_.values.data()}; }

  const Offset* row_ptr_from(Offset first) override {
    const DeviceArray<Offset>& row_ptr = passes_.row_ptr();
    if (first == 0) return row_ptr.data();
    if (shifted_row_ptr_.empty()) shifted_row_ptr_ = DeviceArray<Offset>(row_ptr.size());
    launch(shift, {.grid = blocks_for(std::ssize(row_ptr), kBlock), .block = kBlock, .stream = stream()},
           row_ptr.data(), std::ssize(row_ptr), first, shifted_row_ptr_.data());
    return shifted_row_ptr_.data();
  }

  void copy_to_host(Index* col_idx, T* values) override {
    if (batches_.count() > 0) {
      std::copy(batches_.result().col_idx.begin(), batches_.result().col_idx.end(), col_idx);
      std::copy(batches_.result().values.begin(), batches_.result().values.end(), values);
    } else {
      c_.copy_to_host(results(), col_idx, values, stream());
    }
    exec_.synchronize();
  }
  Csr<T> fetch() override { return batches_.count() > 0 ? batches_.result() : passes_.fetch(c_); }

  void borrow_b(const OnDevice& b) override { b_.borrow(b.col_idx, b.values); }

  void advance_by(Offset results) override {
    if constexpr (kIsWide) {
      if (batches_.count() > 0)
        throw OutOfMemory(fmt::format(
            "C of the round before, {} non-zeros, does not fit on the GPU, where it is the next A", results));
      if (!kept_.is_a) kept_.row_ptr = DeviceArray<Offset>(passes_.row_ptr().size());
      kept_.is_a = true;
      kept_.entries = std::move(c_);
      std::swap(kept_.row_ptr, passes_.row_ptr());
      // What the host has looked up of the first A it can only guess of this one: rows alike, in A and in B.
      const auto mean = [](std::size_t entries, Index rows) {
        return static_cast<double>(entries) / std::max(rows, 1);
      };
      passes_.set_rules(asked_rules_, static_cast<Offset>(static_cast<double>(results) *
                                                          mean(b_.entries(), b_.view().rows)));
      lanes_ = std::bit_ceil(
          static_cast<unsigned>(std::clamp(mean(kept_.entries.col_idx.size(), rows()) / 4, 1.0, 32.0)));
      is_whole_ = false;
    }
  }

  std::string note() const override {
    if (batches_.count() == 0) return {};
    return fmt::format("C does not fit: made in {} batches of rows, and is on the host", batches_.count());
  }

  std::vector<Metric> metrics() const override {
    const std::size_t in_a = kept_.is_a ? kept_.entries.col_idx.size() : a_.entries();
    auto all = passes_.metrics(in_a + b_.entries(), sizes_whole_, sizes_whole_);
    all.push_back({"rows_dense", static_cast<double>(dense_.size()), ""});
    all.push_back({"rows_split", split_ ? static_cast<double>(split_->size()) : 0.0, ""});
    return all;
  }

 private:
  cudaStream_t stream() const { return exec_.stream(); }
  Index rows() const { return a_.view().rows; }
  Factors<T, Ptr> factors() const {
    if constexpr (kIsWide) {
      if (kept_.is_a)
        return {{rows(), a_.view().cols, kept_.row_ptr.data(), kept_.entries.col_idx.data(),
                 kept_.entries.values.data()},
                b_.view()};
    }
    return {a_.view(), b_.view()};
  }

  /// Rows of A with more non-zeros are not for the bins.
  void leave_out(const Csr<T>& a, Index long_row) {
    passes_.set_rules(asked_rules_, products_, long_row);
    lanes_ = lanes_for(a.view(), long_row);
  }

  void drop_result() {
    c_ = {};
    batches_.clear();
  }

  void wait_for_bins(Pass pass, Index first_row, Index end_row) {
    passes_.fill(pass, first_row, end_row);
    exec_.synchronize();
    std::copy_n(passes_.told().sizes, kForms, bins_.sizes.begin());
    bins_.rows = passes_.list();
  }

  /// The tallies are 0 the first time after analyse().
  void bin_for_multiplying(Index first_row, Index end_row) {
    passes_.choose_multiplying(first_row, end_row);
    wait_for_bins(Pass::multiplying, first_row, end_row);
    is_whole_ = first_row == 0 && end_row == rows();
    if (is_whole_) sizes_whole_ = bins_.sizes;
  }
  void bin_again(Index first_row, Index end_row) {
    passes_.clear_tallies();
    bin_for_multiplying(first_row, end_row);
  }

  /// Calls with(form, list, stream) for the bins, on streams of their own.
  template <class With>
  void over_bins(With&& with) {
    passes_.side().fork(stream(), bins_.count());
    bins_.for_each(
        [&](Form bin, RowList list) { with(passes_.form_of(bin, list.count), list, passes_.side().next()); });
    passes_.side().join();
  }

  /// False where C does not fit; what fits is then known.
  bool try_whole() {
    try {
      Phase phase(exec_, "allocation");
      c_ = NonZeros<T>(passes_.pool(), results(), stream());
    } catch (const OutOfDeviceMemory&) {
      static_cast<void>(cudaGetLastError());
      exec_.synchronize();
      passes_.pool().trim();
      most_bytes_ = 0.8 * static_cast<double>(free_device_bytes());
      return false;
    }
    Phase phase(exec_, "numeric");
    if (!is_whole_) bin_again(0, rows());
    multiply_rows(0, rows(), {passes_.row_ptr().data(), 0, c_.col_idx.data(), c_.values.data()});
    return true;
  }

  /// The bins are those of rows first_row .. end_row - 1.
  void multiply_rows(Index first_row, Index end_row, const Output<T>& c) {
    over_bins([&](Form form, RowList list, cudaStream_t stream) {
      passes_.multiply(factors(), form, list, c, stream);
    });
    dense_.multiply(factors(), first_row, end_row, c, stream());
    if (split_) split_->put_rows(first_row, end_row, c, stream());
  }

  /// In a chain: the C of the round before, which is A.
  struct Kept {
    bool is_a = false;
    DeviceArray<Offset> row_ptr;
    NonZeros<T> entries;
  };

  GpuExec& exec_;
  Rules asked_rules_;
  Offset products_;               ///< that the rules go by
  double most_bytes_;             ///< that C may take on the device; less once it did not fit
  unsigned first_lanes_, lanes_;  ///< of the first A, and of this one
  Operand<T, Ptr> a_, b_;
  Passes<T, Ptr> passes_;
  DenseRows<T> dense_;
  std::unique_ptr<SplitRows<T>> split_;
  Kept kept_;
  Bins bins_;
  std::array<Index, kForms> sizes_whole_ = {};
  bool is_whole_ = false;  ///< bins_ holds all rows, by multiplying form
  NonZeros<T> c_;
  Batches<T> batches_;
  DeviceArray<Offset> shifted_row_ptr_;
};

}  // namespace

template <class T>
ProductFacts facts_of(const SpgemmProblem<T>& problem, const Settings& settings) {
  SpgemmProblem<T> asked = problem;
  if (settings.products > 0) asked.products = settings.products;
  return {asked.products, problem.rounds > 1 || has_wide_pointers(problem, settings),
          has_words(asked, settings.rules)};
}

template <class T>
std::unique_ptr<BinnedPlan<T>> make_binned(const SpgemmProblem<T>& problem, Exec& exec,
                                           const Settings& settings) {
  Settings asked = settings;
  if (problem.rounds > 1) asked.rules.most_long_rows = 0;  // which are long is known of the first A only
  const ProductFacts facts = facts_of(problem, settings);
  if (facts.wide_pointers) return std::make_unique<Binned<T, Offset>>(problem, facts, exec, asked);
  return std::make_unique<Binned<T, std::int32_t>>(problem, facts, exec, asked);
}

template <class T, class Ptr>
std::unique_ptr<BinnedPlan<T>> make_binned(const Csr<T>& a, const CsrView<T, Ptr>& b, Offset products,
                                           Exec& exec, const Settings& settings) {
  return std::make_unique<Binned<T, Ptr>>(Operand<T, Ptr>(a), Operand<T, Ptr>(b), ProductFacts{products},
                                          lanes_for(a.view()), exec, settings);
}

template <class T>
std::unique_ptr<BinnedPlan<T>> make_binned(const CsrView<T>& a, const CsrView<T>& b,
                                           const ProductFacts& facts, Exec& exec, const Settings& settings) {
  const auto plan = [&]<class Ptr>(Ptr) -> std::unique_ptr<BinnedPlan<T>> {
    using OfPtr = Operand<T, Ptr>;
    return std::make_unique<Binned<T, Ptr>>(OfPtr::with_host_pointers(a), OfPtr::with_host_pointers(b), facts,
                                            lanes_for(a), exec, settings);
  };
  return facts.wide_pointers ? plan(Offset{}) : plan(std::int32_t{});
}

/// For the rows of C, and the parts of those that a bitmap may count.
template <class T>
double workspace_bytes(const SpgemmProblem<T>& problem) {
  constexpr int kManyMultiprocessors = 256;  // no GPU has more
  Rules rules;
  rules.window_columns = rules.window_columns * Index{sizeof(float)} / Index{sizeof(T)};
  const auto rows = static_cast<double>(problem.a->rows);
  const Index parts = parts_of(problem.b->cols, part_columns(rules, problem.b->cols));
  const Bounds bounds = bounds_of(problem);
  const bool recorded = is_recorded(rules, bounds, kManyMultiprocessors);
  const double lists = recorded ? sizeof(Index) * kForms * rows : 0;
  const double counted =
      recorded ? most_rows(rules, bounds, Form::windows)
               : std::min(rows, static_cast<double>(problem.products) / (rules.most_sorted + 1));
  return 38 * rows + lists + static_cast<double>(sizeof(Index)) * parts * counted;
}

template <class T>
double binned_bytes_of_b(const SpgemmProblem<T>& problem) {
  return device_csr_bytes(*problem.b) + words_bytes(problem);
}

template <class T>
Cost binned_cost(const SpgemmProblem<T>& problem) {
  Cost cost = problem_cost(problem);
  const Csr<T>&a = *problem.a, &b = *problem.b;
  cost.work += static_cast<double>(a.nnz()) + a.rows;
  // C as a whole up to 4 GiB; where there is less, and it turns out to be larger, it goes in batches, of
  // which the longest row is the least.
  constexpr double kWhole = 4.0 * (1U << 30);
  const double row =
      NonZeros<T>::kBytes * static_cast<double>(std::min<Offset>(problem.max_row_products, b.cols));
  const double result = NonZeros<T>::kBytes * static_cast<double>(problem.result_bound);
  cost.memory = device_csr_bytes(a) + binned_bytes_of_b(problem) + workspace_bytes(problem) +
                split_bytes(problem) + DenseRows<T>::bytes(rows_as_dense(a, b, Rules{}), b.cols) +
                std::max(row, std::min(result, kWhole));
  return cost;
}

Factory binned_plans(const Settings& settings, bool count_once) {
  Factory factory = looking<SpgemmProblem>([=]<class T>(const SpgemmProblem<T>&, Exec&,
                                                        const ParameterValues&) -> Offer<SpgemmProblem<T>> {
    return {.prepare = [=](const SpgemmProblem<T>& problem, Exec& exec) -> std::unique_ptr<SpgemmPlan<T>> {
              auto plan = make_recorded(problem, exec, settings);
              if (plan == nullptr) plan = make_binned(problem, exec, settings);
              if (count_once) plan->count_once();
              return plan;
            },
            .cost = binned_cost<T>};
  });
  factory.plan_needs = {.gpu = true};
  factory.chains = !count_once;  // structures change from round to round
  return factory;
}

#define STAGES_INSTANTIATE(T)                                                                           \
  template std::unique_ptr<BinnedPlan<T>> make_binned(const SpgemmProblem<T>&, Exec&, const Settings&); \
  template std::unique_ptr<BinnedPlan<T>> make_binned(const Csr<T>&, const CsrView<T, std::int32_t>&,   \
                                                      Offset, Exec&, const Settings&);                  \
  template std::unique_ptr<BinnedPlan<T>> make_binned(const Csr<T>&, const CsrView<T, Offset>&, Offset, \
                                                      Exec&, const Settings&);                          \
  template ProductFacts facts_of(const SpgemmProblem<T>&, const Settings&);                             \
  template std::unique_ptr<BinnedPlan<T>> make_binned(const CsrView<T>&, const CsrView<T>&,             \
                                                      const ProductFacts&, Exec&, const Settings&);     \
  template Cost binned_cost(const SpgemmProblem<T>&);                                                   \
  template double binned_bytes_of_b(const SpgemmProblem<T>&);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)

}  // namespace stages::spgemm

namespace stages {

void add_binned(Registry& registry, const std::string& name, const spgemm::Settings& settings) {
  registry.add(
      {.name = name,
       .idea = "rows in bins by products and results: copied, sorted, ranked by bitmaps, hashed, in windows",
       .previous = "bitmaps"},
      spgemm::binned_plans(settings));
}

}  // namespace stages
