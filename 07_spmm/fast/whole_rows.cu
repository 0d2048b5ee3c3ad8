// SpMM by whole rows: nothing is cut, nothing is looked up, nothing is added up afterwards.
//
// The idea: equal shares of non-zeros cost a look for ends of rows in each batch, a second kernel for the rows
// that they cut, and time to cut them: dear beside a product of 5 us, and for little where no row is very
// long. Here the lanes that take a strip of columns, each a vector of 16 bytes, do a row from its first
// non-zero to its last, with several rows of B under way (strips.cu tells why). That is a group of 4 or 8
// lanes.
//
// Long rows. By length, a row that is too long for a group has all groups of a warp, or the whole block: each
// group takes every fourth, eighth, ... batch of its non-zeros, and in the end they add up their sums, by
// shuffles and in shared memory, always in the same order. Too long is more than each group would get if all
// of them shared the product evenly (16 to 128 non-zeros), and for a warp more than its groups together.
//
// Order. Rows come by length, the longest first: those of a warp are then equally long, and what takes longest
// begins first. But a group alone may take as long for 64 non-zeros as a warp's eight for 500; so long rows of
// groups come between those of blocks and those of warps, which measured better than any other place. Rows of
// equal length come as they lie.
//
// Input: any CSR matrix, and a B whose rows are aligned to 16 bytes, and longer; a row of A that is much longer
// than the others keeps its block, and so the product, for long. Cost: that of strips.cu. Memory: A, and 4
// bytes a row for the order.

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <vector>

#include "07_spmm/fast/kernels.hpp"
#include "07_spmm/fast/vectors.hpp"
#include "common/gpu/facts.hpp"

namespace stages::spmm {
namespace {

/// kLanes lanes take a strip, kVector columns each.
template <unsigned kLanes_, unsigned kVector_>
struct RowLanes {
  static constexpr unsigned kLanes = kLanes_, kVector = kVector_;
  static constexpr unsigned kStrip = kLanes * kVector;
  static constexpr unsigned kAhead = std::min(kLanes, 8u);  ///< rows of B that a lane asks for at once
  static constexpr unsigned kBlocks = kLanes == 4 ? 8 : 6;  ///< that an SM is to have room for
};

constexpr unsigned kWarpsOfBlock = kSmallBlock / kWarp;

template <class L>
constexpr unsigned kGroupsOfBlock = kSmallBlock / L::kLanes;

/// The rows in the order in which they are multiplied: first those that have a block each, then long ones that
/// have a group of lanes, then those that have a warp, then all others, which have a group.
struct RowGroups {
  const Index* order = nullptr;                          ///< of rows; null: as they lie
  Index first_long = 0, first_warp = 0, first_rest = 0;  ///< where each kind but the first begins
  Index rows = 0;

  __device__ Index row(Offset place) const {
    return order != nullptr ? order[place] : static_cast<Index>(place);
  }

  // Blocks of each kind.
  __host__ __device__ unsigned blocks() const { return static_cast<unsigned>(first_long); }
  template <class L>
  __host__ __device__ unsigned blocks_of_long() const {
    return whole(first_warp - first_long, kGroupsOfBlock<L>);
  }
  __host__ __device__ unsigned blocks_of_warps() const {
    return whole(first_rest - first_warp, kWarpsOfBlock);
  }
  template <class L>
  __host__ __device__ unsigned blocks_of_rest() const {
    return whole(rows - first_rest, kGroupsOfBlock<L>);
  }

 private:
  __host__ __device__ static unsigned whole(Index count, unsigned of_block) {
    return (static_cast<unsigned>(count) + of_block - 1) / of_block;
  }
};

/// sums of the first warp += those of the others, in their order, lane by lane.
template <unsigned kVector, class T>
__device__ void add_warps(T (&sums)[kVector]) {
  __shared__ T of_warps[kWarpsOfBlock][kVector][kWarp];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#pragma unroll
  for (unsigned v = 0; v < kVector; ++v) of_warps[warp][v][lane] = sums[v];
  __syncthreads();
#pragma unroll
  for (unsigned v = 0; v < kVector; ++v) {
    for (unsigned w = 1; w < kWarpsOfBlock; ++w) sums[v] += of_warps[w][v][lane];
  }
  __syncthreads();  // before the sums of the next strip
}

/// The row at `place`, if that is before `end`, by kTogether lanes: one or more groups, up to a block of them.
template <class L, unsigned kTogether, class T, class Ptr>
__device__ void multiply_row(const CsrView<T, Ptr>& a, const SpmmArgs<T>& m, const RowGroups& rows,
                             Offset place, Offset end) {
  constexpr unsigned kLanes = L::kLanes, kVector = L::kVector, kWidth = std::min(kTogether, kWarp);
  const unsigned lane = threadIdx.x % kWidth, group = lane / kLanes;
  const auto before = static_cast<int>(threadIdx.x % kTogether - lane);  // non-zeros of the warps before this
  const Index row = place < end ? rows.row(place) : 0;
  const Ptr begin = a.row_ptr[row];
  const int length = place < end ? static_cast<int>(a.row_ptr[row + 1] - begin) : 0;
  const int longest = warp_max(length);  // rows of a warp go on together, because they shuffle together
  const int shortest = -warp_max(-length);
  const auto column_at = [&](int k) { return k < length ? __ldcs(a.col_idx + begin + k) : 0; };
  const auto value_at = [&](int k) { return k < length ? __ldcs(a.values + begin + k) : T{0}; };
  const auto n_cols = static_cast<unsigned>(m.n_cols);
  for (unsigned strip = blockIdx.y * L::kStrip; strip < n_cols; strip += gridDim.y * L::kStrip) {
    const unsigned column = strip + lane % kLanes * kVector;
    const bool has_column = column < n_cols;
    const T* const from = m.b.data + (has_column ? column : 0);
    T sums[kVector] = {};
    T rows_of_b[L::kAhead][kVector] = {};
    Index my_column = 0, next_column = column_at(before + static_cast<int>(lane));
    T my_value = 0, next_value = value_at(before + static_cast<int>(lane));
    // Non-zeros `first` .. of those that the lanes of a group hold; `left` of the warp's exist. kAll: all.
    const auto add_batch = [&]<bool kAll>(unsigned first, int left, std::bool_constant<kAll>) {
#pragma unroll
      for (unsigned u = 0; u < L::kAhead; ++u) {
        const auto source = static_cast<int>(group * kLanes + first + u);
        const Index k = __shfl_sync(kAllLanes, my_column, source, kWidth);
        if (kAll || source < left) load_vector<kVector>(from + Offset{k} * m.b.ld, rows_of_b[u]);
      }
#pragma unroll
      for (unsigned u = 0; u < L::kAhead; ++u) {
        const auto source = static_cast<int>(group * kLanes + first + u);
        const T value = __shfl_sync(kAllLanes, my_value, source, kWidth);
        if (!kAll && source >= left) continue;
#pragma unroll
        for (unsigned v = 0; v < kVector; ++v) sums[v] += value * rows_of_b[u][v];
      }
    };
    for (int base = before; base < longest; base += static_cast<int>(kTogether)) {
      my_column = next_column;
      my_value = next_value;
      next_column = column_at(base + static_cast<int>(kTogether + lane));
      next_value = value_at(base + static_cast<int>(kTogether + lane));
#pragma unroll
      for (unsigned first = 0; first < kLanes; first += L::kAhead) {
        if (base + static_cast<int>(kWidth) <= shortest) {
          add_batch(first, length - base, std::true_type());
        } else if (base + static_cast<int>(first) < longest) {
          add_batch(first, length - base, std::false_type());
        }
      }
    }
#pragma unroll
    for (unsigned d = kLanes; d < kWidth; d *= 2) {
#pragma unroll
      for (unsigned v = 0; v < kVector; ++v)
        sums[v] += __shfl_xor_sync(kAllLanes, sums[v], static_cast<int>(d));
    }
    if constexpr (kTogether > kWarp) add_warps<kVector>(sums);
    if (threadIdx.x % kTogether < kLanes && has_column && place < end)
      finish_row<kVector>(m, row, column, sums);
  }
}

template <class L, class T, class Ptr>
__global__ void __launch_bounds__(kSmallBlock, blocks_of_sm(L::kBlocks, kSmallBlock))
    multiply_rows(CsrView<T, Ptr> a, SpmmArgs<T> m, RowGroups rows) {
  unsigned block = blockIdx.x;
  if (block < rows.blocks()) return multiply_row<L, kSmallBlock>(a, m, rows, block, rows.first_long);
  block -= rows.blocks();
  const bool is_long = block < rows.blocks_of_long<L>();
  if (!is_long) {
    block -= rows.blocks_of_long<L>();
    if (block < rows.blocks_of_warps()) {
      const Offset place = rows.first_warp + Offset{block} * kWarpsOfBlock + threadIdx.x / kWarp;
      return multiply_row<L, kWarp>(a, m, rows, place, rows.first_rest);
    }
    block -= rows.blocks_of_warps();
  }
  // One call for both kinds of groups, so that there is one copy of its code.
  const Index first = is_long ? rows.first_long : rows.first_rest,
              end = is_long ? rows.first_warp : rows.rows;
  const Offset place = first + Offset{block} * kGroupsOfBlock<L> + threadIdx.x / L::kLanes;
  multiply_row<L, L::kLanes>(a, m, rows, place, end);
}

/// Calls `go` with the RowLanes of so many lanes.
template <class T, class Go>
void with_lanes(Index lanes, Go&& go) {
  constexpr unsigned kVector = kVectorLength<T>;
  if (lanes == 4) go(RowLanes<4, kVector>{});
  if (lanes == 8) go(RowLanes<8, kVector>{});
}

constexpr Offset kBatch = 8, kMostBatches = 1 << 16;
constexpr Offset kLongPart =
    4;  ///< a row of a group is long with more than 1 / kLongPart of what it may have

/// So many non-zeros in batches, as far as these are told apart.
Offset in_batches(Offset nonzeros) { return std::min(kMostBatches, (nonzeros + kBatch - 1) / kBatch); }

/// The rows by the number of their batches, most first; equal ones as they lie.
template <class T>
std::vector<Index> by_length(const Csr<T>& a) {
  std::vector<Index> begin(kMostBatches + 2), order(static_cast<std::size_t>(a.rows));
  const auto place_of = [&](Index row) {
    return static_cast<std::size_t>(kMostBatches - in_batches(a.row_nnz(row)));
  };
  for (Index i = 0; i < a.rows; ++i) ++begin[place_of(i) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  for (Index i = 0; i < a.rows; ++i) order[static_cast<std::size_t>(begin[place_of(i)]++)] = i;
  return order;
}

/// How many rows have more batches; `order`: by length.
template <class T>
Index count_longer(const Csr<T>& a, std::span<const Index> order, Offset batches) {
  const auto end = std::partition_point(order.begin(), order.end(),
                                        [&](Index row) { return in_batches(a.row_nnz(row)) > batches; });
  return static_cast<Index>(end - order.begin());
}

template <class T>
class WholeRows final : public RowMajorPlan<T> {
 public:
  WholeRows(const SpmmProblem<T>& problem, Exec& exec)
      : RowMajorPlan<T>(problem, exec),
        lanes_(problem.n_cols <= 4 * kVectorLength<T> ? 4 : 8),
        matrix_(to_device(*problem.a)) {
    rows_.rows = problem.a->rows;
    put_in_order(*problem.a);
  }

  static Cost cost(const SpmmProblem<T>& problem) {
    return RowMajorPlan<T>::cost(problem).plus_memory(sizeof(Index) * static_cast<double>(problem.a->rows));
  }

  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec& exec) {
    if (auto why = RowMajorPlan<T>::refuse(problem, exec)) return why;
    if (problem.n_cols <= kVectorLength<T> || !rows_are_aligned<T>(ld_of_b(problem)))
      return fmt::format(
          "takes rows of B that are longer than 16 bytes and begin at multiples of that; these have "
          "{} columns and lie {} apart; see balanced",
          problem.n_cols, ld_of_b(problem));
    return std::nullopt;
  }

  std::vector<Metric> metrics() const override {
    return {{"lanes", static_cast<double>(lanes_), ""},
            {"rows_of_blocks", static_cast<double>(rows_.first_long), ""},
            {"rows_of_groups_first", static_cast<double>(rows_.first_warp - rows_.first_long), ""},
            {"rows_of_warps", static_cast<double>(rows_.first_rest - rows_.first_warp), ""}};
  }

 private:
  /// Sorts rows, and decides which have a group, a warp or a block.
  void put_in_order(const Csr<T>& a) {
    std::vector<Index> order = by_length(a);
    const Offset of_group = nonzeros_of_group(a.nnz()), batches = in_batches(of_group);
    const Index after_blocks = count_longer<T>(a, order, in_batches(of_group * Index{kWarp} / lanes_));
    const Index after_warps = count_longer<T>(a, order, batches);
    const Index after_long = count_longer<T>(a, order, std::max(Offset{1}, batches / kLongPart));
    std::rotate(order.begin() + after_blocks, order.begin() + after_warps, order.begin() + after_long);
    rows_.first_long = after_blocks;
    rows_.first_warp = after_blocks + after_long - after_warps;
    rows_.first_rest = after_long;
    if (std::is_sorted(order.begin(), order.end())) return;  // they lie so already
    order_ = DeviceArray<Index>(std::span<const Index>(order));
    rows_.order = order_.data();
  }

  /// What each would get if all groups that the device has room for shared the product evenly.
  Offset nonzeros_of_group(Offset nnz) const {
    constexpr double kLeast = 16, kMost = 128;
    double resident = 1;
    with_lanes<T>(lanes_, [&](auto lanes) {
      using L = decltype(lanes);
      resident = static_cast<double>(device_facts().sms) * L::kBlocks * kGroupsOfBlock<L> /
                 blocks_for(this->problem().n_cols, L::kStrip);
    });
    const double even = std::clamp(static_cast<double>(nnz) / resident, kLeast, kMost);
    return std::bit_ceil(static_cast<unsigned>(even));
  }

  void multiply(const SpmmArgs<T>& product) override {
    std::visit(
        [&](const auto& a) {
          with_lanes<T>(lanes_, [&](auto lanes) { launch_rows<decltype(lanes)>(a.view(), product); });
        },
        matrix_);
  }

  template <class L, class Ptr>
  void launch_rows(const CsrView<T, Ptr>& a, const SpmmArgs<T>& product) {
    const unsigned blocks =
        rows_.blocks() + rows_.blocks_of_long<L>() + rows_.blocks_of_warps() + rows_.blocks_of_rest<L>();
    launch(multiply_rows<L, T, Ptr>,
           {.grid = {blocks, strips_of(product.n_cols, L::kStrip)},
            .block = kSmallBlock,
            .stream = this->stream()},
           a, product, rows_);
  }

  Index lanes_;  ///< of a group
  AnyDeviceCsr<T> matrix_;
  DeviceArray<Index> order_;  ///< empty where rows come as they lie
  RowGroups rows_;
};

}  // namespace

void add_whole_rows(Registry& registry) {
  registry.add<WholeRows>(
      {.name = "07_spmm/whole_rows",
       .idea = "whole rows on groups of lanes, a vector of B each; a warp or a block for long ones"});
}

}  // namespace stages::spmm
