// Which kernel computes the rows of a form, in each of the two passes.

#include "08_spgemm_multigpu/fast/passes.hpp"

#include <algorithm>

namespace stages::spgemm {

template <class T, class Ptr>
Passes<T, Ptr>::Passes(GpuExec& exec, Index rows, Index cols, bool apart)
    : exec_(exec),
      rows_(rows),
      cols_(cols),
      apart_(apart ? rows : 0),
      products_(static_cast<std::size_t>(rows)),
      first_(products_.size()),
      width_(products_.size()),
      counting_(products_.size()),
      multiplying_(products_.size()),
      slot_(products_.size()),
      counts_(products_.size()),
      list_(products_.size() * (apart ? kForms : 1)),
      row_ptr_(products_.size() + 1),
      tallies_(4 * kForms),
      told_(1) {
  told_.data()[0] = {};
  scan_.reserve(rows);
}

/// A warp that has much more than its share would be busy when the others are done.
template <class T, class Ptr>
void Passes<T, Ptr>::set_rules(const Rules& asked, Offset products, Index long_row) {
  constexpr Offset kBusyWarps = 16;     // of an SM
  constexpr Index kEntryProducts = 32;  // what a non-zero of A costs at most
  Rules rules = asked;
  const Offset share = std::max<Offset>(1024, products / (kBusyWarps * device_facts().sms));
  rules.warp_products = static_cast<Index>(std::min<Offset>(rules.warp_products, share));
  rules.warp_rows_of_b =
      std::min(rules.warp_rows_of_b, std::max<Index>(64, rules.warp_products / kEntryProducts));
  rules_ = fitted_to_memory<T>(rules, {device_facts().shared_per_block_optin, device_facts().shared_per_sm});
  rules_.long_row = long_row;
  if (rows_ < Offset{rules_.thread_rows_a_sm} * device_facts().sms) rules_.band_products = 0;
}

template <class T, class Ptr>
void Passes<T, Ptr>::use_words(Index rows, std::size_t entries) {
  words_ = DeviceArray<uint2>(entries);
  word_ends_ = DeviceArray<Ptr>(static_cast<std::size_t>(rows));
}

template <class T, class Ptr>
void Passes<T, Ptr>::take_parts(Index long_rows) {
  parts_before_ = {};
  parts_before_ = PooledArray<Index>(
      pool_, static_cast<std::size_t>(long_rows) * static_cast<std::size_t>(parts().most), stream());
}

template <class T, class Ptr>
Parts Passes<T, Ptr>::parts() {
  const Index columns = part_columns(rules_, cols_);
  return {columns,
          parts_of(cols_, columns),
          slot_.data(),
          parts_before_.data(),
          rules_.ranked_bytes,
          rules_.span_blocks_an_sm * device_facts().sms,
          rules_.value_bytes};
}

template <class T, class Ptr>
void Passes<T, Ptr>::analyse(const Factors<T, Ptr>& f, unsigned lanes) {
  clear_tallies();
  side_.fork(stream(), words_.empty() ? 1 : 2);
  analyse_rows(f.structures(), rules_, lanes, facts(), tally(Pass::counting), side_.next());
  if (!words_.empty()) make_words(f.structures().b, words_.data(), word_ends_.data(), side_.next());
}

template <class T, class Ptr>
void Passes<T, Ptr>::choose_multiplying(Index first_row, Index end_row) {
  choose_multiplying_forms(rules_, facts(), parts(), first_row, end_row, multiplying_.data(),
                           tally(Pass::multiplying), stream());
}

template <class T, class Ptr>
void Passes<T, Ptr>::fill(Pass pass, Index first_row, Index end_row) {
  const bool counts = pass == Pass::counting;
  fill_lists(first_row, end_row, counts ? counting_.data() : multiplying_.data(), tally(pass),
             tally(pass) + kForms, list_.data(), apart_, counts ? nullptr : row_ptr_.data() + rows_,
             told_.data(), stream());
}

template <class T, class Ptr>
void Passes<T, Ptr>::count(const Factors<T, Ptr>& factors, Form form, RowList list, cudaStream_t stream) {
  const auto f = factors.structures();
  Index* const counts = counts_.data();
  switch (form) {
    case Form::windows:
      return count_in_bitmap(f, words(), list, first_.data(), width_.data(), rules_.bitmap_columns,
                             rules_.count_blocks_a_row, counts, parts(), stream);
    case Form::block_tables:
      return count_in_block_tables(f, list, rules_.count_block_slots, products_.data(), counts, stream);
    case Form::warp_tables: return count_in_warp_tables(f, list, rules_.count_warp_slots, counts, stream);
    case Form::narrow:
      return count_narrow(f, words(), list, first_.data(), width_.data(), rules_.count_narrow_columns, counts,
                          stream);
    case Form::merged: return count_merged(f, list, counts, stream);
    case Form::copied_short: return;
    case Form::band: return count_band(f, list, first_.data(), counts, stream);
    case Form::threads_32:
    case Form::threads_16: return count_by_threads(f, list, form, counts, stream);
    default: return count_sorted(f, list, form, counts, stream);
  }
}

template <class T, class Ptr>
void Passes<T, Ptr>::multiply(const Factors<T, Ptr>& f, Form form, RowList list, const Output<T>& c,
                              cudaStream_t stream) {
  switch (form) {
    case Form::windows:
    case Form::small_windows:
      return multiply_in_windows(f, list, form, first_.data(), width_.data(),
                                 form == Form::windows ? rules_.window_columns : rules_.window_small_columns,
                                 parts(), c, stream);
    case Form::ranked_spans:
      return multiply_in_spans(f, list, first_.data(), width_.data(), products_.data(), rules_, parts(), c,
                               stream);
    case Form::ranked:
    case Form::small_ranked:
      return multiply_ranked(f, list, first_.data(), width_.data(), products_.data(), rules_,
                             form == Form::ranked ? rules_.ranked_bytes : rules_.ranked_small_bytes, c,
                             stream);
    case Form::large_tables:
      return multiply_in_block_tables(f, list, rules_.large_slots, rules_.large_warps, c, stream);
    case Form::block_tables:
      return multiply_in_block_tables(f, list, rules_.block_slots, rules_.block_warps, c, stream);
    case Form::warp_tables: return multiply_in_warp_tables(f, list, rules_.warp_slots, c, stream);
    case Form::small_tables: return multiply_in_warp_tables(f, list, rules_.warp_small_slots, c, stream);
    case Form::narrow_long:
    case Form::narrow:
      return multiply_narrow(f, list, first_.data(), width_.data(), rules_.narrow_columns,
                             form == Form::narrow ? rules_.narrow_results : rules_.narrow_long_results, c,
                             stream);
    case Form::merged: return multiply_merged(f, list, device_facts().sms, c, stream);
    case Form::copied_short: return multiply_copied(f, list, c, stream);
    case Form::band: return multiply_band(f, list, first_.data(), width_.data(), c, stream);
    case Form::threads_32:
    case Form::threads_16: return multiply_by_threads(f, list, form, c, stream);
    default: return multiply_sorted(f, list, form, c, stream);
  }
}

template <class T, class Ptr>
Csr<T> Passes<T, Ptr>::fetch(const NonZeros<T>& entries) {
  Csr<T> c(rows_, cols_);
  c.col_idx.resize(static_cast<std::size_t>(told().results));
  c.values.resize(c.col_idx.size());
  row_ptr_.download(c.row_ptr, stream());
  entries.copy_to_host(told().results, c.col_idx.data(), c.values.data(), stream());
  exec_.synchronize();
  return c;
}

template <class T, class Ptr>
std::vector<Metric> Passes<T, Ptr>::metrics(std::size_t entries, const RowsOfBins& sizes,
                                            const RowsOfBins& launched) const {
  const double in_all = static_cast<double>(entries) + static_cast<double>(told().results);
  std::vector<Metric> all = {
      {"memory_bytes_at_least", NonZeros<T>::kBytes * in_all + 20.0 * (rows_ + 1.0), "B"}};
  RowsOfBins rows = {};
  for (std::size_t k = 0; k < sizes.size(); ++k)
    rows[static_cast<std::size_t>(form_of(static_cast<Form>(k), launched[k]))] += sizes[k];
  for (std::size_t k = 0; k < rows.size(); ++k)
    all.push_back({fmt::format("rows_{}", kFormNames[k]), static_cast<double>(rows[k]), ""});
  return all;
}

template class Passes<float, std::int32_t>;
template class Passes<float, Offset>;
template class Passes<double, std::int32_t>;
template class Passes<double, Offset>;

}  // namespace stages::spgemm
