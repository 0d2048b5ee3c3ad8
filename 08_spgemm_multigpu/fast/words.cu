// B's rows in words (words.hpp). A warp a row: columns ascend, so those of a word are neighbouring lanes, which
// put their bits together by shuffles, and the first of them writes the word.
//
// Input: any structure. Cost: B's columns once, and 8 bytes for each word.

#include "08_spgemm_multigpu/fast/words.hpp"

#include <algorithm>

#include "common/gpu/launch.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = 256;
constexpr Index kLookedAt = 1000;  ///< rows

template <class Ptr>
__global__ void __launch_bounds__(kBlock) write_words(Structure<Ptr> b, uint2* items, Ptr* ends) {
  const Offset number = Offset{blockIdx.x} * (kBlock / kWarp) + threadIdx.x / kWarp;
  if (number >= b.rows) return;  // the whole warp leaves
  const auto row = static_cast<Index>(number);
  const unsigned lane = threadIdx.x % kWarp;
  const Ptr begin = b.row_ptr[row], end = b.row_ptr[row + 1];
  Ptr out = begin;
  Index last = -1;  // the word written last; it may go on
  for (Ptr first = begin; first < end; first += static_cast<Ptr>(kWarp)) {
    const Ptr q = first + static_cast<Ptr>(lane);
    const Index column = q < end ? b.col_idx[q] : -1;
    const Index word = q < end ? column / 32 : -2;
    unsigned bits = q < end ? 1u << (static_cast<unsigned>(column) % 32) : 0;
    for (unsigned d = 1; d < kWarp; d *= 2) {
      const unsigned more = __shfl_down_sync(kAllLanes, bits, d);
      const Index theirs = __shfl_down_sync(kAllLanes, word, d);
      if (lane + d < kWarp && theirs == word) bits |= more;
    }
    const Index before = __shfl_up_sync(kAllLanes, word, 1);
    const bool goes_on = lane == 0 && word == last;
    const bool starts = q < end && !goes_on && (lane == 0 || before != word);
    const unsigned starting = __ballot_sync(kAllLanes, starts);
    if (goes_on) items[out - 1].y |= bits;
    if (starts) {
      items[out + static_cast<Ptr>(__popc(starting & lanes_below(lane)))] = {static_cast<unsigned>(word),
                                                                             bits};
    }
    out += static_cast<Ptr>(__popc(starting));
    const auto there = static_cast<int>(min(end - first, static_cast<Ptr>(kWarp)));
    last = __shfl_sync(kAllLanes, word, there - 1);
    __syncwarp();  // the next turn may add to what another lane has written
  }
  if (lane == 0) ends[row] = out;
}

}  // namespace

template <class T>
bool has_words(const SpgemmProblem<T>& problem, const Rules& rules) {
  const Csr<T>& b = *problem.b;
  if (problem.max_row_products <= rules.most_sorted || problem.products < rules.word_products ||
      problem.products < rules.products_a_word_entry * b.nnz())
    return false;
  for (Index row = 0; row < b.rows; ++row) {
    if (b.row_nnz(row) > rules.most_word_row) return false;
  }
  Offset entries = 0, words = 0;
  const Index step = std::max<Index>(1, b.rows / kLookedAt);
  for (Offset row = 0; row < b.rows; row += step) {
    Index last = -1;
    for (const Index column : row_columns(b, static_cast<Index>(row))) {
      words += column / 32 != last;
      last = column / 32;
      ++entries;
    }
  }
  return entries >= rules.entries_a_word * words;
}

template <class Ptr>
void make_words(const Structure<Ptr>& b, uint2* items, Ptr* ends, cudaStream_t stream) {
  launch(write_words<Ptr>, {.grid = blocks_for(b.rows, kBlock / kWarp), .block = kBlock, .stream = stream}, b,
         items, ends);
}

STAGES_FOR_VALUES(has_words)
STAGES_FOR_POINTERS(make_words)

}  // namespace stages::spgemm
