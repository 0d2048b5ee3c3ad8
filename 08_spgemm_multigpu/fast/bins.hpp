#pragma once
// Rows by forms: binned.cu has its rows in bins twice, by the form that counts them and by the form that
// multiplies them.

#include <algorithm>
#include <array>

#include "08_spgemm_multigpu/fast/analysis.hpp"
#include "08_spgemm_multigpu/fast/forms.hpp"

namespace stages::spgemm {

/// What the host waits for.
struct Told {
  Index sizes[kForms] = {};  ///< rows of each form
  Offset results = 0;        ///< of all rows
};

/// Rows by forms: a list on the device, and its parts.
struct Bins {
  std::array<Index, kForms> sizes = {};
  const Index* rows = nullptr;

  Index size_of(Form form) const { return sizes[static_cast<std::size_t>(form)]; }
  /// Forms that have rows and work.
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::count_if(sizes.begin(), sizes.end() - 1, [](Index n) { return n > 0; }));
  }

  /// Calls with(form, list) for each form that has rows and work, the longest first.
  template <class With>
  void for_each(With&& with) const {
    Index begin = 0;
    for (int k = 0; k < static_cast<int>(Form::none); ++k) {
      const Index size = sizes[static_cast<std::size_t>(k)];
      if (size > 0) with(static_cast<Form>(k), RowList{rows + begin, size});
      begin += size;
    }
  }
};

/// Writes the multiplying form of each of rows first_row .. end_row - 1, and adds to the tally how many rows
/// have each. Asynchronous, as the next one is.
void choose_multiplying_forms(const Rules& rules, const Facts& facts, const Parts& parts, Index first_row,
                              Index end_row, Form* forms, Index* tally, cudaStream_t stream);

/// Writes these rows to `rows`, form after form, by the tally of their forms and by cursors that are 0 before,
/// and tells the host; `results`: null as long as they are not known. Form k begins where the one before ends;
/// or, unless `apart` is 0, at k * apart.
void fill_lists(Index first_row, Index end_row, const Form* forms, const Index* tally, Index* cursor,
                Index* rows, Index apart, const Offset* results, Told* told, cudaStream_t stream);

}  // namespace stages::spgemm
