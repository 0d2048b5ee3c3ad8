// SpGEMM with rows in bins, each bin with the form that suits it.
//
// The idea: rows of C differ a thousandfold in work; one block shape and one table size fits few. So the
// device sorts the rows into bins, by the number of their products before counting, and by that of their
// results before multiplying. The rule is in rules.hpp, the kernels that bin are in analysis.cu and bins.cu;
// the forms are
//
//   copied_rows.cu   one row of B, scaled
//   thread_rows.cu   up to 32 products: a thread sorts them in its registers
//   sorted_rows.cu   up to 256 products: sorted in registers, by 8 or 16 lanes
//   narrow_rows.cu   columns close together (bands, stencils): a warp, a bitmap that knows ranks
//   table_rows.cu    hash tables in shared memory: of a warp, of a block, the largest that fits a block
//   ranked_rows.cu   long rows: a block, a bitmap that knows ranks; huge ones: a span of columns at a time
//   window_rows.cu   the rest, nearly dense: a block, dense windows that move along the row
//
// No row hashes in global memory. The workspace is 38 bytes a row whatever the products, at most 256 more for
// a row that a large bitmap counts, and what recorded.hpp, split_rows.hpp and words.hpp say. A few rows with
// tens of thousands of entries of A are cut into sections before, rows of a product of their own
// (split_rows.cu).
//
// Columns come out ascending. Every sum runs in the order of A's entries, or in one that the structures and
// the device decide (rows.hpp, ranked_rows.cu, split_rows.cu): the same bits in each run. The steps of a
// product:
//
//   analysis    products of each row; where there are many, also the range of their columns; its bin
//   symbolic    the results of each row, by the bin's form; their prefix sum: C's row pointers; new bins
//   allocation  C, from a pool
//   numeric     columns and values, by the bin's form; sorting is part of that
//
// The bins are independent kernels on several streams: a handful of huge rows occupies a few SMs while the
// others do the rest. The host waits twice, for the sizes of the bins and of C, and as often for each of the
// two products that split rows are; a small product is recorded as a graph, and waits for nothing
// (recorded.hpp). If C does not fit, rows are computed in batches that do, and each is copied to the host,
// where C then is. Counting needs no room for C, so row pointers are exact by then; the least that must fit is
// the longest row.
//
// Input: any CSR matrices. Cost: each product once when counting and once or twice when multiplying; memory:
// A, B, C and the workspace.
//
// Sources: two passes with bins by products and by results are Y. Nagasaka, A. Nukada and S. Matsuoka's
// ("High-performance and memory-saving sparse general matrix-matrix multiplication for NVIDIA Pascal GPU",
// ICPP 2017); choosing dense windows for dense rows is in M. Parger et al.'s spECK (PPoPP 2020).

#include "08_spgemm_multigpu/fast/binned.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "08_spgemm_multigpu/fast/bins.hpp"
#include "08_spgemm_multigpu/fast/forms.hpp"
#include "08_spgemm_multigpu/fast/gather.hpp"
#include "08_spgemm_multigpu/fast/recorded.hpp"
#include "08_spgemm_multigpu/fast/side_streams.hpp"
#include "08_spgemm_multigpu/fast/split_rows.hpp"
#include "08_spgemm_multigpu/fast/words.hpp"
#include "08_spgemm_multigpu/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"
#include "common/gpu/pool.hpp"
#include "common/gpu/scan.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = 256;

__global__ void __launch_bounds__(kBlock) shift(const Offset* from, Offset count, Offset by, Offset* to) {
  const Offset i = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (i < count) to[i] = from[i] + by;
}

/// What a row of that form has at most.
Index most_products(Form form) { return form == Form::sort_256 ? 256 : form == Form::sort_128 ? 128 : 64; }

/// These rules with what is one warp's work when there are `products` in all: a warp that has much more than
/// its share would be busy when the others are done.
template <class T>
Rules fitted(Rules rules, Offset products) {
  constexpr Offset kBusyWarps = 16;     // of an SM
  constexpr Index kEntryProducts = 32;  // what an entry of A costs at most
  const Offset share = std::max<Offset>(1024, products / (kBusyWarps * device_facts().sms));
  rules.warp_products = static_cast<Index>(std::min<Offset>(rules.warp_products, share));
  rules.warp_rows_of_b =
      std::min(rules.warp_rows_of_b, std::max<Index>(64, rules.warp_products / kEntryProducts));
  return fitted_to_memory<T>(rules, {device_facts().shared_per_block_optin, device_facts().shared_per_sm});
}

template <class T, class Ptr>
class Binned final : public BinnedPlan<T> {
  static constexpr bool kIsWide = std::is_same_v<Ptr, Offset>;  ///< as C's row pointers

 public:
  Binned(const SpgemmProblem<T>& problem, Exec& exec, const Settings& settings)
      : Binned(*problem.a, DeviceCsr<T, Ptr>(*problem.b), problem.products, exec, settings) {
    b_ = own_b_.view();
    if (has_words(problem, rules_)) {
      words_ = DeviceArray<uint2>(own_b_.col_idx.size());
      word_ends_ = DeviceArray<Ptr>(static_cast<std::size_t>(b_.rows));
    }
    bounds_ = {a_.rows, b_.cols, problem.products, problem.max_row_products, problem.result_bound};
    const RowsToSplit long_rows = rows_to_split(*problem.a, *problem.b, settings.rules);
    if (!long_rows.rows.empty()) {
      rules_.long_row = settings.rules.long_row;
      lanes_ = lanes_for(*problem.a, rules_.long_row);
      split_ = std::make_unique<SplitRows<T>>(*problem.a, long_rows, b_, exec, settings);
    } else if (settings.result_bytes == 0 && is_recorded(rules_, bounds_, device_facts().sms)) {
      record();
    }
    if (count_once_) count();
  }

  Binned(const Csr<T>& a, const CsrView<T, Ptr>& b, Offset products, Exec& exec, const Settings& settings)
      : Binned(a, DeviceCsr<T, Ptr>(), products, exec, settings) {
    b_ = b;
  }

  void load(const SpgemmOperands<T>& operands) override {
    if (std::exchange(kept_, {}).is_a) {  // a chain begins again
      rules_ = rules_for(products_for_rules_);
      lanes_ = first_lanes_;
    }
    a_.values.upload(operands.a_values, stream());
    if (!own_b_.values.empty()) own_b_.values.upload(operands.b_values, stream());
    if (split_) split_->load(operands.a_values);
    exec_.synchronize();
  }
  void reset() override {
    if (recorded_) poison();
    drop_result();
    if (split_) split_->reset();
  }

  void advance_by(Offset results) override {
    if constexpr (kIsWide) {
      if (in_batches_ > 0)
        throw OutOfMemory(fmt::format(
            "C of the round before, {} non-zeros, does not fit on the GPU, where it is the next A", results));
      if (!kept_.is_a) kept_.row_ptr = DeviceArray<Offset>(rows() + 1);
      kept_.is_a = true;
      kept_.col_idx = std::move(c_columns_);
      kept_.values = std::move(c_values_);
      std::swap(kept_.row_ptr, row_ptr_);
      // What the host has looked up of the first A it can only guess of this one: rows alike, in A and in B.
      const auto mean = [](std::size_t entries, Index rows) {
        return static_cast<double>(entries) / std::max(rows, 1);
      };
      rules_ =
          rules_for(static_cast<Offset>(static_cast<double>(results) * mean(own_b_.col_idx.size(), b_.rows)));
      lanes_ = std::bit_ceil(
          static_cast<unsigned>(std::clamp(mean(kept_.col_idx.size(), a_.rows) / 4, 1.0, 32.0)));
      counted_ = false;
    }
  }

  typename BinnedPlan<T>::OnDevice on_device() const override {
    return {c_columns_.data(), c_values_.data()};
  }

  const Offset* row_ptr_from(Offset first) override {
    if (first == 0) return row_ptr_.data();
    if (shifted_row_ptr_.empty()) shifted_row_ptr_ = DeviceArray<Offset>(rows() + 1);
    launch(shift,
           {.grid = blocks_for(std::ssize(shifted_row_ptr_), kBlock), .block = kBlock, .stream = stream()},
           row_ptr_.data(), std::ssize(shifted_row_ptr_), first, shifted_row_ptr_.data());
    return shifted_row_ptr_.data();
  }

  void borrow_b(const typename BinnedPlan<T>::OnDevice& b) override {
    if (b.col_idx != nullptr) b_.col_idx = b.col_idx;
    b_.values = b.values;
    own_b_.values = {};
    stop_recorded();
    if (split_) split_->borrow_b(b);
  }

  void run() override {
    if (count_once_) return multiply();
    if (!recorded_) return BinnedPlan<T>::run();
    Phase phase(exec_, "as one graph");
    graph_.replay(stream());
  }

  void count() override {
    if (recorded_) {
      Phase phase(exec_, "analysis and symbolic");
      counting_graph_.replay(stream());
      return;
    }
    counted_ = false;
    if (split_) split_->count();
    {
      Phase phase(exec_, "analysis");
      analyse();
      bins_ = fill(0, a_.rows, counting_.data(), counting_tally(), nullptr);
      side_.join();
    }
    parts_before_ = {};
    parts_before_ = PooledArray<Index>(
        pool_,
        static_cast<std::size_t>(bins_.size_of(Form::windows)) * static_cast<std::size_t>(parts().most),
        stream());
    Phase phase(exec_, "symbolic");
    over_bins([this](Form form, RowList list, cudaStream_t stream) { count_bin(form, list, stream); });
    if (split_) split_->put_counts(counts_.data(), stream());
    scan_.run(counts_.data(), row_ptr_.data(), a_.rows, stream());
    bin_for_multiplying(0, a_.rows);
  }

  void multiply() override {
    if (recorded_) {
      Phase phase(exec_, "numeric");
      return multiplying_graph_.replay(stream());
    }
    drop_result();
    if (split_) split_->multiply();
    if (bytes(results()) <= most_bytes_ && try_whole()) return;
    multiply_in_batches();
  }

  Offset results() const override {
    if (recorded_) exec_.synchronize();
    return told_.data()->results;
  }

  void copy_to_host(Index* col_idx, T* values) override {
    if (in_batches_ > 0) {
      std::copy(on_host_.col_idx.begin(), on_host_.col_idx.end(), col_idx);
      std::copy(on_host_.values.begin(), on_host_.values.end(), values);
    } else {
      const auto entries = static_cast<std::size_t>(results());
      download(c_columns_, col_idx, entries);
      download(c_values_, values, entries);
    }
    exec_.synchronize();
  }

  Csr<T> fetch() override {
    if (in_batches_ > 0) return on_host_;
    Csr<T> c(a_.rows, b_.cols);
    c.col_idx.resize(static_cast<std::size_t>(results()));
    c.values.resize(c.col_idx.size());
    row_ptr_.download(c.row_ptr, stream());
    copy_to_host(c.col_idx.data(), c.values.data());
    return c;
  }

  std::string note() const override {
    if (in_batches_ == 0) return {};
    return fmt::format("C does not fit: made in {} batches of rows, and is on the host", in_batches_);
  }

  std::vector<Metric> metrics() const override {
    const double entry = sizeof(Index) + sizeof(T),
                 products = kept_.is_a ? std::numeric_limits<double>::quiet_NaN()
                                       : static_cast<double>(products_in_all_),
                 results = static_cast<double>(this->results()),
                 in_a = static_cast<double>(kept_.is_a ? kept_.col_idx.size() : a_.col_idx.size()),
                 in_b = static_cast<double>(own_b_.col_idx.size());
    std::vector<Metric> all = {
        {"results", results, ""},
        {"products_a_result", products / std::max(results, 1.0), ""},
        {"memory_bytes_at_least", entry * (in_a + in_b + results) + 20.0 * (a_.rows + 1.0), "B"},
        {"l2_bytes_at_least", entry * products + 64.0 * in_a, "B"},
        {"gather_bytes_per_second",
         gather_bytes_per_second().value_or(std::numeric_limits<double>::quiet_NaN()), "B"}};
    std::array<Index, kForms> rows = {};
    for (std::size_t k = 0; k < kFormNames.size(); ++k) {
      const Form bin = static_cast<Form>(k);
      const Index size = recorded_ ? told_.data()->sizes[k] : sizes_whole_[k];
      const Index launched = recorded_ ? most_rows(rules_, bounds_, bin) : size;
      rows[static_cast<std::size_t>(form_of(bin, launched))] += size;
    }
    for (std::size_t k = 0; k < kFormNames.size(); ++k)
      all.push_back({fmt::format("rows_{}", kFormNames[k]), static_cast<double>(rows[k]), ""});
    all.push_back({"rows_split", split_ ? static_cast<double>(split_->size()) : 0.0, ""});
    return all;
  }

 private:
  /// All but B, and without rows to split.
  Binned(const Csr<T>& a, DeviceCsr<T, Ptr> own_b, Offset products, Exec& exec, const Settings& settings)
      : exec_(as_gpu(exec)),
        asked_rules_(settings.rules),
        products_for_rules_(settings.products > 0 ? settings.products : products),
        rules_(rules_for(products_for_rules_)),
        most_bytes_(settings.result_bytes > 0 ? settings.result_bytes
                                              : std::numeric_limits<double>::infinity()),
        count_once_(settings.count_once),
        products_in_all_(products),
        first_lanes_(lanes_for(a, std::numeric_limits<Index>::max())),
        lanes_(first_lanes_),
        a_(a),
        own_b_(std::move(own_b)),
        products_(rows()),
        first_(rows()),
        width_(rows()),
        counting_(rows()),
        multiplying_(rows()),
        slot_(rows()),
        counts_(rows()),
        list_(rows()),
        row_ptr_(rows() + 1),
        tallies_(4 * kForms),
        told_(1) {
    told_.data()[0] = {};
    scan_.reserve(a_.rows);
  }

  std::size_t rows() const { return static_cast<std::size_t>(a_.rows); }
  cudaStream_t stream() const { return exec_.stream(); }
  static double bytes(Offset entries) {
    return static_cast<double>(sizeof(Index) + sizeof(T)) * static_cast<double>(entries);
  }
  Factors<T, Ptr> factors() const {
    if constexpr (kIsWide) {
      if (kept_.is_a)
        return {{a_.rows, a_.cols, kept_.row_ptr.data(), kept_.col_idx.data(), kept_.values.data()}, b_};
    }
    return {a_.view(), b_};
  }
  Rules rules_for(Offset products) const {
    Rules rules = fitted<T>(asked_rules_, products);
    rules.long_row = std::numeric_limits<Index>::max();
    return rules;
  }
  Structures<Ptr> structures() const { return factors().structures(); }
  Facts facts() {
    return {products_.data(), first_.data(), width_.data(), counting_.data(), counts_.data(), slot_.data()};
  }
  Parts parts() {
    const Index columns = part_columns(rules_, b_.cols);
    return {columns,
            parts_of(b_.cols, columns),
            slot_.data(),
            parts_before_.data(),
            rules_.ranked_bytes,
            rules_.span_blocks_an_sm * device_facts().sms,
            rules_.value_bytes};
  }

  void drop_result() {
    if (recorded_) return;
    c_columns_ = {};
    c_values_ = {};
    on_host_ = {};
    in_batches_ = 0;
  }

  /// Fills the list from forms and their tally, before the cursors, and waits for what the kernel tells.
  Bins fill(Index first_row, Index end_row, const Form* forms, Index* tally, const Offset* results) {
    fill_lists(first_row, end_row, forms, tally, tally + kForms, list_.data(), 0, results, told_.data(),
               stream());
    exec_.synchronize();
    Bins bins;
    std::copy_n(told_.data()->sizes, kForms, bins.sizes.begin());
    bins.rows = list_.data();
    return bins;
  }

  Index* counting_tally() { return tallies_.data() + 2 * kForms; }
  Index* multiplying_tally() { return tallies_.data(); }

  /// C's memory stays; NaN and columns below 0 show what no kernel has written since.
  void poison() {
    const auto fill = [this](void* p, std::size_t bytes) {
      STAGES_CUDA(cudaMemsetAsync(p, 0xff, bytes, stream()));
    };
    fill(c_columns_.data(), c_columns_.size() * sizeof(Index));
    fill(c_values_.data(), c_values_.size() * sizeof(T));
  }

  /// Until side_.join(), words are still being made.
  void analyse() {
    tallies_.zero(stream());
    side_.fork(stream(), words_.empty() ? 1 : 2);
    analyse_rows(structures(), rules_, lanes_, facts(), counting_tally(), side_.next());
    if (!words_.empty()) make_words(structures().b, words_.data(), word_ends_.data(), side_.next());
  }
  Words<Ptr> words() const {
    return words_.empty() ? Words<Ptr>{} : Words<Ptr>{words_.data(), word_ends_.data()};
  }

  /// What a recorded product may need.
  void take_room_to_record() {
    const auto long_rows = static_cast<std::size_t>(most_rows(rules_, bounds_, Form::windows));
    parts_before_ = PooledArray<Index>(pool_, long_rows * static_cast<std::size_t>(parts().most), stream());
    c_columns_ = PooledArray<Index>(pool_, static_cast<std::size_t>(bounds_.results), stream());
    c_values_ = PooledArray<T>(pool_, static_cast<std::size_t>(bounds_.results), stream());
    list_ = DeviceArray<Index>(kForms * rows());
  }

  /// The product as a graph, and each half of it as one for those who want them apart. Where that does not fit,
  /// nothing is recorded, and nothing taken.
  void record() {
    try {
      take_room_to_record();
      counting_graph_ = Graph::capture(stream(), [this] { record_counting(); });
      multiplying_graph_ = Graph::capture(stream(), [this] { record_multiplying(); });
      graph_ = Graph::capture(stream(), [this] {
        record_counting();
        record_multiplying();
      });
      recorded_ = true;
    } catch (const OutOfDeviceMemory&) {
      static_cast<void>(cudaGetLastError());
      parts_before_ = {};
      drop_result();
      exec_.synchronize();
      pool_.trim();
    }
  }

  void record_counting() {
    analyse();
    fill_apart(counting_.data(), counting_tally(), nullptr);
    side_.join();
    over_possible_bins(counting_tally(), is_counted_by, [this](Form form, RowList list, cudaStream_t stream) {
      count_bin(form, list, stream);
    });
    scan_.run(counts_.data(), row_ptr_.data(), a_.rows, stream());
    choose_multiplying_forms(rules_, facts(), parts(), 0, a_.rows, multiplying_.data(), multiplying_tally(),
                             stream());
    fill_apart(multiplying_.data(), multiplying_tally(), row_ptr_.data() + a_.rows);
  }

  void record_multiplying() {
    const Output<T> c{row_ptr_.data(), 0, c_columns_.data(), c_values_.data()};
    over_possible_bins(
        multiplying_tally(), is_multiplied_by,
        [&](Form form, RowList list, cudaStream_t stream) { multiply_bin(form, list, c, stream); });
  }

  void fill_apart(const Form* forms, Index* tally, const Offset* results) {
    fill_lists(0, a_.rows, forms, tally, tally + kForms, list_.data(), a_.rows, results, told_.data(),
               stream());
  }

  /// Calls with(form, list, stream) for each form that a row may have.
  template <class IsPossible, class With>
  void over_possible_bins(const Index* tally, IsPossible is_possible, With&& with) {
    const auto blocks = static_cast<unsigned>(std::max(1, rules_.recorded_blocks_a_sm * device_facts().sms));
    side_.fork(stream(), kForms, SideStreams::kAll);
    for (int k = 0; k < static_cast<int>(Form::none); ++k) {
      const auto bin = static_cast<Form>(k);
      const Index most = is_possible(rules_, bounds_, bin) ? most_rows(rules_, bounds_, bin) : 0;
      if (most == 0) continue;
      const RowList list{list_.data() + static_cast<std::size_t>(k) * rows(), most, tally + k, blocks};
      with(form_of(bin, most), list, side_.next());
    }
    side_.join();
  }

  /// The graphs have the addresses of before.
  void stop_recorded() {
    if (!std::exchange(recorded_, false)) return;
    exec_.synchronize();
    drop_result();
  }

  /// The tallies are 0 the first time after count().
  void bin_for_multiplying(Index first_row, Index end_row) {
    choose_multiplying_forms(rules_, facts(), parts(), first_row, end_row, multiplying_.data(),
                             multiplying_tally(), stream());
    bins_ = fill(first_row, end_row, multiplying_.data(), multiplying_tally(), row_ptr_.data() + a_.rows);
    counted_ = first_row == 0 && end_row == a_.rows;
    if (counted_) sizes_whole_ = bins_.sizes;
  }

  void bin_again(Index first_row, Index end_row) {
    tallies_.zero(stream());
    bin_for_multiplying(first_row, end_row);
  }

  Form form_of(Form bin, Index rows) const { return form_for_so_many(rules_, bin, rows, device_facts().sms); }

  /// Calls with(form, list, stream) for the bins, on streams of their own.
  template <class With>
  void over_bins(With&& with) {
    side_.fork(stream(), bins_.count());
    bins_.for_each([&](Form bin, RowList list) { with(form_of(bin, list.count), list, side_.next()); });
    side_.join();
  }

  void count_bin(Form form, RowList list, cudaStream_t stream) {
    const auto f = structures();
    Index* const counts = counts_.data();
    switch (form) {
      case Form::windows:
        return count_in_bitmap(f, words(), list, first_.data(), width_.data(), rules_.bitmap_columns,
                               rules_.count_blocks_a_row, counts, parts(), stream);
      case Form::block_table:
        return count_in_block_tables(f, list, rules_.count_block_slots, products_.data(), counts, stream);
      case Form::warp_table: return count_in_warp_tables(f, list, rules_.count_warp_slots, counts, stream);
      case Form::narrow:
        return count_narrow(f, words(), list, first_.data(), width_.data(), rules_.count_narrow_columns,
                            counts, stream);
      case Form::copy_long:
      case Form::copy_short: return;
      case Form::thread_32:
      case Form::thread_16: return count_by_threads(f, list, form, counts, stream);
      case Form::sort_256:
      case Form::sort_128:
      case Form::sort_64:
        if (rules_.sorts_to_count) return count_sorted(f, list, form, counts, stream);
        return count_in_warp_tables(f, list, 2 * most_products(form), counts, stream);
      default: return count_sorted(f, list, form, counts, stream);
    }
  }

  void multiply_bin(Form form, RowList list, const Output<T>& c, cudaStream_t stream) {
    const auto f = factors();
    switch (form) {
      case Form::windows:
      case Form::windows_small:
        return multiply_in_windows(
            f, list, form, first_.data(), width_.data(),
            form == Form::windows ? rules_.window_columns : rules_.window_small_columns, parts(), c, stream);
      case Form::ranked_spans:
        return multiply_in_spans(f, list, first_.data(), width_.data(), products_.data(), rules_, parts(), c,
                                 stream);
      case Form::ranked:
      case Form::ranked_small:
        return multiply_ranked(f, list, first_.data(), width_.data(), products_.data(), rules_,
                               form == Form::ranked ? rules_.ranked_bytes : rules_.ranked_small_bytes, c,
                               stream);
      case Form::large_table:
        return multiply_in_block_tables(f, list, rules_.large_slots, rules_.large_warps, c, stream);
      case Form::block_table:
        return multiply_in_block_tables(f, list, rules_.block_slots, rules_.block_warps, c, stream);
      case Form::warp_table: return multiply_in_warp_tables(f, list, rules_.warp_slots, c, stream);
      case Form::warp_small: return multiply_in_warp_tables(f, list, rules_.warp_small_slots, c, stream);
      case Form::narrow:
        return multiply_narrow(f, list, first_.data(), width_.data(), rules_.narrow_columns,
                               rules_.narrow_results, c, stream);
      case Form::copy_long:
      case Form::copy_short: return multiply_copied(f, list, form, c, stream);
      case Form::thread_32:
      case Form::thread_16: return multiply_by_threads(f, list, form, c, stream);
      default: return multiply_sorted(f, list, form, c, stream);
    }
  }

  /// False where C does not fit; what fits is then known.
  bool try_whole() {
    try {
      Phase phase(exec_, "allocation");
      const auto entries = static_cast<std::size_t>(results());
      c_columns_ = PooledArray<Index>(pool_, entries, stream());
      c_values_ = PooledArray<T>(pool_, entries, stream());
    } catch (const OutOfDeviceMemory&) {
      static_cast<void>(cudaGetLastError());
      drop_result();
      exec_.synchronize();
      pool_.trim();
      most_bytes_ = 0.8 * static_cast<double>(free_device_bytes());
      return false;
    }
    Phase phase(exec_, "numeric");
    if (!counted_) bin_again(0, a_.rows);
    multiply_bins(0, a_.rows, {row_ptr_.data(), 0, c_columns_.data(), c_values_.data()});
    return true;
  }

  /// The bins are those of rows first_row .. end_row - 1.
  void multiply_bins(Index first_row, Index end_row, const Output<T>& c) {
    over_bins([&](Form form, RowList list, cudaStream_t stream) { multiply_bin(form, list, c, stream); });
    if (split_) split_->put_rows(first_row, end_row, c, stream());
  }

  /// The end of the batch that begins at a row: as many rows as fit, and one at least.
  Index batch_end(Index first) const {
    const Offset* const ptr = on_host_.row_ptr.data();
    const auto most = static_cast<Offset>(most_bytes_ / bytes(1));
    const Offset* const end = std::upper_bound(ptr + first + 1, ptr + a_.rows + 1, ptr[first] + most);
    return std::max(first + 1, static_cast<Index>(end - ptr - 1));
  }

  void multiply_in_batches() {
    on_host_ = Csr<T>(a_.rows, b_.cols);
    row_ptr_.download(on_host_.row_ptr, stream());
    exec_.synchronize();
    const Offset* const ptr = on_host_.row_ptr.data();
    Offset longest = 0;
    for (Index first = 0; first < a_.rows; first = batch_end(first)) {
      longest = std::max(longest, ptr[batch_end(first)] - ptr[first]);
      ++in_batches_;
    }
    on_host_.col_idx.resize(static_cast<std::size_t>(results()));
    on_host_.values.resize(static_cast<std::size_t>(results()));
    PooledArray<Index> columns(pool_, static_cast<std::size_t>(longest), stream());
    PooledArray<T> values(pool_, static_cast<std::size_t>(longest), stream());
    for (Index first = 0; first < a_.rows; first = batch_end(first)) {
      const Index end = batch_end(first);
      {
        Phase phase(exec_, "numeric");
        bin_again(first, end);
        multiply_bins(first, end, {row_ptr_.data(), ptr[first], columns.data(), values.data()});
      }
      Phase phase(exec_, "transfer");
      const auto entries = static_cast<std::size_t>(ptr[end] - ptr[first]);
      download(columns, on_host_.col_idx.data() + ptr[first], entries);
      download(values, on_host_.values.data() + ptr[first], entries);
      exec_.synchronize();
    }
  }

  template <class U>
  void download(const PooledArray<U>& from, U* to, std::size_t count) {
    if (count == 0) return;
    STAGES_CUDA(cudaMemcpyAsync(to, from.data(), count * sizeof(U), cudaMemcpyDeviceToHost, stream()));
  }

  /// In a chain: the C of the round before, which is A.
  struct Kept {
    bool is_a = false;
    DeviceArray<Offset> row_ptr;
    PooledArray<Index> col_idx;
    PooledArray<T> values;
  };

  GpuExec& exec_;
  Rules asked_rules_;
  Offset products_for_rules_;
  Rules rules_;
  double most_bytes_;  ///< that C may take on the device
  bool count_once_;    ///< as in Settings
  Offset products_in_all_;
  unsigned first_lanes_, lanes_;  ///< of the first A, and of this one
  DeviceCsr<T, Ptr> a_, own_b_;
  CsrView<T, Ptr> b_;  ///< own_b_, or what is borrowed
  DeviceArray<Offset> products_;
  DeviceArray<Index> first_, width_;
  DeviceArray<Form> counting_, multiplying_;
  DeviceArray<Index> slot_, counts_, list_;
  DeviceArray<Offset> row_ptr_, shifted_row_ptr_;
  DeviceArray<Index> tallies_;  ///< rows of each form and fill_bins' cursors; for multiplying, for counting
  PinnedArray<Told> told_;
  PrefixSum<Index, Offset> scan_;
  SideStreams side_;
  MemoryPool pool_;
  Kept kept_;
  PooledArray<Index> parts_before_;
  DeviceArray<uint2> words_;  ///< of B, if it is counted by words
  DeviceArray<Ptr> word_ends_;
  std::unique_ptr<SplitRows<T>> split_;
  Bins bins_;
  std::array<Index, kForms> sizes_whole_ = {};
  bool counted_ = false;  ///< bins_ holds all rows, by multiplying form
  PooledArray<Index> c_columns_;
  PooledArray<T> c_values_;
  Bounds bounds_;
  bool recorded_ = false;
  Graph graph_, counting_graph_, multiplying_graph_;
  Csr<T> on_host_;
  int in_batches_ = 0;
};

/// The kernels' positions run beyond the end of a row: by four blocks' threads, by the products of 32 entries
/// of A where they are exchanged (ranked_rows.cu), by the entries that a block's warps look at ahead
/// (rows.hpp), and in searches in B as far as the row is long.
template <class T>
bool fits_32_bits(const SpgemmProblem<T>& problem) {
  const Offset beyond = std::max<Offset>(16384, problem.b->longest_row());
  return std::in_range<std::int32_t>(std::max(problem.a->nnz(), problem.b->nnz()) + beyond);
}

/// What suits only the A that the host knows is left out: a recorded graph, and split rows.
Settings for_chains(Settings settings) {
  settings.rules.recorded_rows_a_sm = 0;
  settings.rules.most_long_rows = 0;
  return settings;
}

}  // namespace

template <class T>
std::unique_ptr<BinnedPlan<T>> make_binned(const SpgemmProblem<T>& problem, Exec& exec,
                                           const Settings& settings) {
  if (problem.rounds > 1) return std::make_unique<Binned<T, Offset>>(problem, exec, for_chains(settings));
  if (settings.wide_pointers || !fits_32_bits(problem))
    return std::make_unique<Binned<T, Offset>>(problem, exec, settings);
  return std::make_unique<Binned<T, std::int32_t>>(problem, exec, settings);
}

template <class T, class Ptr>
std::unique_ptr<BinnedPlan<T>> make_binned(const Csr<T>& a, const CsrView<T, Ptr>& b, Offset products,
                                           Exec& exec, const Settings& settings) {
  return std::make_unique<Binned<T, Ptr>>(a, b, products, exec, settings);
}

/// For the rows of C, and the parts of those that a bitmap may count.
template <class T>
double workspace_bytes(const SpgemmProblem<T>& problem) {
  constexpr int kManyMultiprocessors = 256;  // no GPU has more
  Rules rules;
  rules.window_columns = rules.window_columns * Index{sizeof(float)} / Index{sizeof(T)};
  const auto rows = static_cast<double>(problem.a->rows);
  const Index parts = parts_of(problem.b->cols, part_columns(rules, problem.b->cols));
  const Bounds bounds{problem.a->rows, problem.b->cols, problem.products, problem.max_row_products,
                      problem.result_bound};
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
  const double entry = sizeof(Index) + sizeof(T);
  const double row = entry * static_cast<double>(std::min<Offset>(problem.max_row_products, b.cols));
  const double result = entry * static_cast<double>(problem.result_bound);
  cost.memory = device_csr_bytes(a) + binned_bytes_of_b(problem) + workspace_bytes(problem) +
                split_bytes(problem) + std::max(row, std::min(result, kWhole));
  return cost;
}

Factory binned_plans(const Settings& settings) {
  Factory factory = looking<SpgemmProblem>(
      [settings]<class T>(const SpgemmProblem<T>&, Exec&, const ParameterValues&) -> Offer<SpgemmProblem<T>> {
        return {.prepare = [settings](const SpgemmProblem<T>& problem,
                                      Exec& exec) { return make_binned(problem, exec, settings); },
                .cost = binned_cost<T>};
      });
  factory.plan_needs = {.gpu = true};
  factory.chains = !settings.count_once;  // structures change from round to round
  return factory;
}

#define STAGES_INSTANTIATE(T)                                                                           \
  template std::unique_ptr<BinnedPlan<T>> make_binned(const SpgemmProblem<T>&, Exec&, const Settings&); \
  template std::unique_ptr<BinnedPlan<T>> make_binned(const Csr<T>&, const CsrView<T, std::int32_t>&,   \
                                                      Offset, Exec&, const Settings&);                  \
  template std::unique_ptr<BinnedPlan<T>> make_binned(const Csr<T>&, const CsrView<T, Offset>&, Offset, \
                                                      Exec&, const Settings&);                          \
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
