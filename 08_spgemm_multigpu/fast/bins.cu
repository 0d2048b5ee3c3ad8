// Rows into bins: the rows of each form side by side on one list, by two kernels, a thread a row.

#include "08_spgemm_multigpu/fast/bins.hpp"

#include "common/gpu/launch.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = 256;

/// The multiplying forms of rows first_row .. end_row - 1, and how many rows each has. A thread a row.
__global__ void __launch_bounds__(kBlock) choose_forms(Rules rules, Facts facts, Parts parts, Index first_row,
                                                       Index end_row, Form* forms, Index* tally) {
  __shared__ Index in_block[kForms];
  if (threadIdx.x < kForms) in_block[threadIdx.x] = 0;
  __syncthreads();
  const Offset row = Offset{first_row} + Offset{blockIdx.x} * kBlock + threadIdx.x;
  int form = kNoForm;
  if (row < end_row) {
    const Form counted = facts.form[row];
    const bool has_spans = counted == Form::windows && parts.has_spans(static_cast<Index>(row));
    forms[row] =
        multiplying_form(rules, counted, facts.products[row], facts.width[row], facts.counts[row], has_spans);
    form = static_cast<int>(forms[row]);
  }
  place_of(form, in_block);
  __syncthreads();
  add_tally(in_block, tally);
}

/// Writes the rows of each form side by side; `cursor` starts at 0. Neighbouring rows stay near each other: a
/// block's rows of one form take one stretch. And tells the host, in its own memory, as a copy would be a call
/// more; `results`: null as long as they are not known.
__global__ void __launch_bounds__(kBlock)
    fill_bins(Index first_row, Index end_row, const Form* forms, const Index* tally, Index* cursor,
              Index* rows, Index apart, const Offset* results, Told* told) {
  __shared__ Index in_block[kForms];
  __shared__ Offset begin[kForms];
  if (threadIdx.x < kForms) in_block[threadIdx.x] = 0;
  __syncthreads();
  const Offset row = Offset{first_row} + Offset{blockIdx.x} * kBlock + threadIdx.x;
  const int form = row < end_row ? static_cast<int>(forms[row]) : kNoForm;
  const Index mine = place_of(form, in_block);
  __syncthreads();
  if (threadIdx.x < kWarp) {
    const unsigned lane = threadIdx.x;
    const Index all = lane < kForms ? tally[lane] : 0;
    const Index up_to_here = sum_up_to(all, lane);
    const bool any = lane < kForms && in_block[lane] > 0;
    const Offset form_begin = apart == 0 ? Offset{up_to_here - all} : Offset{lane} * apart;
    if (any) begin[lane] = form_begin + atomicAdd(&cursor[lane], in_block[lane]);
    if (blockIdx.x == 0 && lane < kForms) told->sizes[lane] = all;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0 && results != nullptr) told->results = *results;
  __syncthreads();
  if (form != kNoForm) rows[begin[form] + mine] = static_cast<Index>(row);
}

}  // namespace

void choose_multiplying_forms(const Rules& rules, const Facts& facts, const Parts& parts, Index first_row,
                              Index end_row, Form* forms, Index* tally, cudaStream_t stream) {
  launch(choose_forms, {.grid = blocks_for(end_row - first_row, kBlock), .block = kBlock, .stream = stream},
         rules, facts, parts, first_row, end_row, forms, tally);
}

void fill_lists(Index first_row, Index end_row, const Form* forms, const Index* tally, Index* cursor,
                Index* rows, Index apart, const Offset* results, Told* told, cudaStream_t stream) {
  launch(fill_bins, {.grid = blocks_for(end_row - first_row, kBlock), .block = kBlock, .stream = stream},
         first_row, end_row, forms, tally, cursor, rows, apart, results, told);
}

}  // namespace stages::spgemm
