#pragma once
// Rows by forms: binned.cu has bins twice, by the form that counts a row and by the one that multiplies it.

#include <algorithm>
#include <array>
#include <limits>

#include "08_spgemm_multigpu/fast/forms.hpp"

namespace stages::spgemm {

// ---- analysis.cu: the first step, what is known of each row of C before its results are counted --------

/// What is known of each row of C, in device memory.
struct Facts {
  Offset* products = nullptr;
  Index* first = nullptr;  ///< the first column that any product has, if `width` is not 0
  Index* width = nullptr;  ///< from there to the last one; may be 0 where there are few products
  Form* form = nullptr;    ///< the counting form
  Index* counts = nullptr;
  Index* slot = nullptr;  ///< of Parts; the counting pass gives some rows one
};

/// How many lanes should look at a row of A, 1 to 32 or a block's 256: `lanes` below. Row pointers are on the
/// host; rows of more than `longest` non-zeros do not count.
template <class T>
unsigned lanes_for(const CsrView<T>& a, Index longest = std::numeric_limits<Index>::max());

/// Writes the facts of each row, and counts of a row that has one row of B; adds to the tally how many rows
/// have each form. Asynchronous on the stream.
template <class Ptr>
void analyse_rows(const Structures<Ptr>& f, const Rules& rules, unsigned lanes, const Facts& facts,
                  Index* tally, cudaStream_t stream);

// ---- bins.cu ---------------------------------------------------------------------------------------------

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
    for (int k = 0; k < static_cast<int>(Form::empty); ++k) {
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

// Counting rows by their forms: each block in shared memory, then all of them in global memory.

inline constexpr int kNoForm = -1;  ///< of a lane without a row
static_assert(kForms <= static_cast<int>(kWarp));

/// Adds the rows of the warp's lanes to a tally, in shared memory, of the rows of each form; returns how many
/// a lane's own finds there. All lanes come. Neighbouring rows mostly have one form, and lanes that added to
/// one place by themselves would wait for each other.
__device__ inline Index place_of(int form, Index* tally) {
  const unsigned same = __match_any_sync(kAllLanes, form), lane = threadIdx.x % kWarp;
  const int leader = __ffs(static_cast<int>(same)) - 1;
  Index before = 0;
  if (form != kNoForm && static_cast<int>(lane) == leader) before = atomicAdd(&tally[form], __popc(same));
  return __shfl_sync(kAllLanes, before, leader) + __popc(same & lanes_below(lane));
}

/// Adds a block's tally to that of all. For the first kForms threads, after a barrier.
__device__ inline void add_tally(const Index* in_block, Index* tally) {
  if (threadIdx.x < kForms && in_block[threadIdx.x] > 0) {
    atomicAdd(&tally[threadIdx.x], in_block[threadIdx.x]);
  }
}

}  // namespace stages::spgemm
