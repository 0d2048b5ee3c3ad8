#include "08_spgemm_multigpu/fast/recorded.hpp"

#include "08_spgemm_multigpu/fast/dense_rows.hpp"
#include "08_spgemm_multigpu/fast/passes.hpp"
#include "08_spgemm_multigpu/fast/split_rows.hpp"

namespace stages::spgemm {
namespace {

template <class T, class Ptr>
class Recorded final : public HalvesPlan<T> {
 public:
  Recorded(const SpgemmProblem<T>& problem, Exec& exec, const Settings& settings, const RowsAsDense& dense)
      : exec_(as_gpu(exec)),
        bounds_(bounds_of(problem)),
        lanes_(lanes_for(problem.a->view(), longest_for_bins(dense))),
        a_(*problem.a),
        b_(*problem.b),
        passes_(exec_, bounds_.rows, bounds_.cols, true) {
    passes_.set_rules(settings.rules, settings.products > 0 ? settings.products : bounds_.products,
                      longest_for_bins(dense));
    if (!dense.rows.empty()) dense_ = DenseRows<T>(dense, bounds_.cols);
    if (has_words(problem, passes_.rules())) passes_.use_words(b_.rows, b_.col_idx.size());
    passes_.take_parts(most(Form::windows));
    c_ = NonZeros<T>(passes_.pool(), bounds_.results, exec_.stream());
    multiplying_ = Graph::capture(exec_.stream(), [this] { record_multiplying(); });
    whole_ = Graph::capture(exec_.stream(), [this] {
      record_counting();
      record_multiplying();
    });
  }

  void load(const SpgemmOperands<T>& operands) override {
    a_.values.upload(operands.a_values, exec_.stream());
    b_.values.upload(operands.b_values, exec_.stream());
    exec_.synchronize();
  }
  /// C's memory stays; NaN and columns below 0 show what no kernel has written since.
  void reset() override {
    STAGES_CUDA(cudaMemsetAsync(c_.col_idx.data(), 0xff, c_.col_idx.bytes(), exec_.stream()));
    STAGES_CUDA(cudaMemsetAsync(c_.values.data(), 0xff, c_.values.bytes(), exec_.stream()));
  }
  void count() override { record_counting(); }
  void multiply() override {
    Phase phase(exec_, "numeric");
    multiplying_.replay(exec_.stream());
  }
  void run() override {
    if (this->is_counted_) return multiply();
    Phase phase(exec_, "as one graph");
    whole_.replay(exec_.stream());
  }
  Csr<T> fetch() override {
    exec_.synchronize();
    return passes_.fetch(c_);
  }
  std::vector<Metric> metrics() const override {
    exec_.synchronize();
    std::array<Index, kForms> sizes = {}, launched = {};
    for (int k = 0; k < kForms; ++k) {
      sizes[static_cast<std::size_t>(k)] = passes_.told().sizes[k];
      launched[static_cast<std::size_t>(k)] = most(static_cast<Form>(k));
    }
    auto all = passes_.metrics(a_.col_idx.size() + b_.col_idx.size(), sizes, launched);
    all.push_back({"rows_dense", static_cast<double>(dense_.size()), ""});
    all.push_back({"rows_split", 0, ""});
    return all;
  }

 private:
  static Index longest_for_bins(const RowsAsDense& dense) {
    return dense.rows.empty() ? std::numeric_limits<Index>::max() : dense.longer_than;
  }
  Index most(Form form) const { return most_rows(passes_.rules(), bounds_, form); }
  Factors<T, Ptr> factors() const { return {a_.view(), b_.view()}; }

  /// Calls with(form, list, stream) for each form that a row may have.
  template <class IsPossible, class With>
  void over_possible_bins(Pass pass, IsPossible is_possible, With&& with) {
    const Rules& rules = passes_.rules();
    const auto blocks = static_cast<unsigned>(std::max(1, rules.recorded_blocks_a_sm * device_facts().sms));
    passes_.side().fork(exec_.stream(), kForms, SideStreams::kAll);
    for (int k = 0; k < static_cast<int>(Form::empty); ++k) {
      const auto bin = static_cast<Form>(k);
      const Index rows = is_possible(rules, bounds_, bin) ? most(bin) : 0;
      if (rows == 0) continue;
      const RowList list{passes_.list() + Offset{k} * bounds_.rows, rows, passes_.tally(pass) + k, blocks};
      with(passes_.form_of(bin, rows), list, passes_.side().next());
    }
    passes_.side().join();
  }

  void record_counting() {
    passes_.analyse(factors(), lanes_);
    passes_.fill(Pass::counting, 0, bounds_.rows);
    passes_.side().join();
    over_possible_bins(Pass::counting, is_counted_by, [this](Form form, RowList list, cudaStream_t stream) {
      passes_.count(factors(), form, list, stream);
    });
    dense_.count(factors().structures(), passes_.counts(), exec_.stream());
    passes_.add_up_counts();
    passes_.choose_multiplying(0, bounds_.rows);
    passes_.fill(Pass::multiplying, 0, bounds_.rows);
  }

  void record_multiplying() {
    const Output<T> c{passes_.row_ptr().data(), 0, c_.col_idx.data(), c_.values.data()};
    over_possible_bins(Pass::multiplying, is_multiplied_by,
                       [&](Form form, RowList list, cudaStream_t stream) {
                         passes_.multiply(factors(), form, list, c, stream);
                       });
    dense_.multiply(factors(), 0, bounds_.rows, c, exec_.stream());
  }

  GpuExec& exec_;
  Bounds bounds_;
  unsigned lanes_;
  DeviceCsr<T, Ptr> a_, b_;
  Passes<T, Ptr> passes_;
  DenseRows<T> dense_;
  NonZeros<T> c_;  ///< as many as there could be
  Graph whole_, multiplying_;
};

}  // namespace

template <class T>
std::unique_ptr<HalvesPlan<T>> make_recorded(const SpgemmProblem<T>& problem, Exec& exec,
                                             const Settings& settings) {
  // A chain has another A in each round; split rows are products whose sizes the host waits for.
  if (problem.rounds > 1 || settings.result_bytes > 0 ||
      !is_recorded(settings.rules, bounds_of(problem), device_facts().sms))
    return nullptr;
  const RowsAsDense dense = rows_as_dense(*problem.a, *problem.b, settings.rules);
  if (dense.rows.empty() && !rows_to_split(*problem.a, *problem.b, settings.rules).rows.empty())
    return nullptr;
  try {
    if (has_wide_pointers(problem, settings))
      return std::make_unique<Recorded<T, Offset>>(problem, exec, settings, dense);
    return std::make_unique<Recorded<T, std::int32_t>>(problem, exec, settings, dense);
  } catch (const OutOfDeviceMemory&) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
}

template std::unique_ptr<HalvesPlan<float>> make_recorded(const SpgemmProblem<float>&, Exec&,
                                                          const Settings&);
template std::unique_ptr<HalvesPlan<double>> make_recorded(const SpgemmProblem<double>&, Exec&,
                                                           const Settings&);

}  // namespace stages::spgemm
