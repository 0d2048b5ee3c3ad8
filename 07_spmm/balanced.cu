// SpMM in equal shares of non-zeros, strip by strip, without atomics.
//
// The idea, in five parts.
//
//   shares    The non-zeros are cut into shares of about the same number, whatever the rows: only rows longer
//   than a
//             share are cut in two. Prepare cuts, on the device (partition.hpp). A group of 8 to 32 lanes
//             walks through a share from its first non-zero to its last.
//   rows      A group need not know row pointers: the sign bit of a column says that its row ends there. The
//   group
//             then stores its sums to C, as nobody else has a part in that row's end, and takes the next
//             number from the list of rows that are not empty, which it has loaded in good time. Empty rows
//             are set by blocks of their own.
//   cut rows  What a group has summed up of a row that goes on in the next share, it leaves in a slot. A
//   second, small
//             kernel adds these parts to the row, always in the same order. So no atomics, nothing to be set
//             to zero before, and the same bits in every run.
//   vectors   A lane takes 4 floats of a row of B at once (16 bytes), so 8 lanes do a row of 32 columns, and
//   a warp
//             works on four non-zeros at the same time. Where the rows of B are not aligned to 16 bytes, 32
//             lanes take a column each. Either way a lane asks for up to 8 or 16 rows of B before it adds the
//             first: a gather takes 600 to 800 clocks, and only what is under way hides that.
//   strips    32 or 64 columns are done at once, and all of the matrix for one strip before the next (strips
//   are the
//             outer dimension of the grid): so what is in the caches is a strip of B, not B, and A, which is
//             read once per strip, is small beside the rows of B that it asks for.
//
// Defaults, one rule for all matrices:
//   strip     8, 16 or 32 columns if there are no more; else 64, if no second strip is needed or if 64
//   columns of B
//             fit into L2; else 32
//   share     twice as many shares as groups that the device holds at once at 64 registers a thread; at least
//   32
//             non-zeros and at most 512, beyond which fewer, larger shares save nothing
//
// Input: any CSR matrix, any number of columns. Cost: nnz x n_cols multiplications; per strip all of A (4 +
// sizeof(T) bytes a non-zero) and a row of B for each non-zero; C once. Memory: 16 bytes a share, 4 a row,
// and a row of C for each share that cuts one.
//
// Sources: equal shares of non-zeros are those of D. Merrill and M. Garland ("Merge-based parallel sparse
// matrix-vector multiplication", SC 2016), and for SpMM of C. Yang, A. Buluc and J. D. Owens ("Design
// principles for sparse matrix multiplication on the GPU", Euro-Par 2018); flags at the ends of rows are
// segmented sums' (G. E. Blelloch, M. A. Heroux and M. Zagha, CMU-CS-93-173).

#include <limits>

#include "07_spmm/partition.hpp"
#include "07_spmm/row_major.hpp"
#include "07_spmm/stage.hpp"
#include "07_spmm/vectors.hpp"
#include "common/gpu/facts.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr unsigned kBlock = 256;
constexpr unsigned kWarps = kBlock / kWarp;
constexpr unsigned kBlocks = 4;          ///< of an SM, at least: 64 registers a thread
constexpr unsigned kMostBlocks = 65535;  ///< of a grid in y
constexpr Index kFewParts = 32;          ///< of a cut row: one warp adds them; more are a block's work

/// How a group of kLanes takes a strip: a lane has kRepeats times kVector neighbouring columns.
template <unsigned kLanes_, unsigned kVector_, unsigned kRepeats_ = 1>
struct Form {
  static constexpr unsigned kLanes = kLanes_, kVector = kVector_, kRepeats = kRepeats_;
  static constexpr unsigned kSums = kVector * kRepeats;  ///< columns of a lane
  static constexpr unsigned kApart = kLanes * kVector;   ///< from one repeat to the next
  static constexpr unsigned kStrip = kLanes * kSums;
  /// Rows of B that are asked for at once: 128 bytes a lane, at most 16.
  template <class T>
  static constexpr unsigned kAhead = std::min({kLanes, 16u, 128u / unsigned{sizeof(T) * kSums}});
};

template <class T>
struct Matrix {
  PartitionView partition;
  const Index* columns = nullptr;  ///< with the ends of rows marked
  const T* values = nullptr;
  T* slots = nullptr;  ///< sums of parts of rows, by rows
  Index ld_slots = 0;  ///< whole vectors
};

template <class T>
struct Nonzero {
  Index column = 0;
  T value = 0;
};

/// Writes a lane's sums to `to`, a row. Elements beyond column n_cols are not touched.
template <class F, class T>
__device__ void store_sums(T* to, unsigned column, unsigned n_cols, bool aligned, const T (&sums)[F::kSums]) {
#pragma unroll
  for (unsigned r = 0; r < F::kRepeats; ++r) {
    const unsigned first = column + r * F::kApart;
    if (aligned && first + F::kVector <= n_cols) {
      store_vector<F::kVector>(to + first, sums + r * F::kVector);
    } else {
#pragma unroll
      for (unsigned v = 0; v < F::kVector; ++v) {
        if (first + v < n_cols) to[first + v] = sums[r * F::kVector + v];
      }
    }
  }
}

/// C(row, the lane's columns) = alpha sums + beta C.
template <class F, class T>
__device__ void finish_row(const Product<T>& m, Index row, unsigned column, const T (&sums)[F::kSums]) {
  T* const to = m.c.row(row);
  const auto n_cols = static_cast<unsigned>(m.n_cols);
  T out[F::kSums];
#pragma unroll
  for (unsigned s = 0; s < F::kSums; ++s) {
    const unsigned at = column + s / F::kVector * F::kApart + s % F::kVector;
    out[s] = m.alpha * sums[s];
    if (m.beta != T{0} && at < n_cols) out[s] += m.beta * to[at];
  }
  store_sums<F>(to, column, n_cols, static_cast<unsigned>(m.c.ld) % F::kVector == 0, out);
}

/// The share of the lane's group, for the lane's columns from `column` on. All lanes of a warp come along as
/// long as one of its groups has something to do, because they shuffle together.
template <class F, class T>
__device__ void multiply_share(const Matrix<T>& a, const Product<T>& m, unsigned column) {
  constexpr unsigned kAhead = F::template kAhead<T>;
  const unsigned lane = threadIdx.x % F::kLanes;
  const unsigned number = blockIdx.x * (kBlock / F::kLanes) + threadIdx.x / F::kLanes;
  const bool has_share = number < a.partition.shares;
  const Share share = has_share ? a.partition.share[number] : Share{};
  const unsigned length =
      has_share ? static_cast<unsigned>(a.partition.share[number + 1].begin - share.begin) : 0;
  const unsigned longest = __reduce_max_sync(kAllLanes, length);
  const Index* const columns = a.columns + share.begin;
  const T* const values = a.values + share.begin;
  const auto nonzero = [&](unsigned k) {
    return k < length ? Nonzero<T>{__ldcs(columns + k), __ldcs(values + k)} : Nonzero<T>{};
  };
  // A lane that has no column reads the group's first, and its sums are not stored.
  const T* from[F::kRepeats];
#pragma unroll
  for (unsigned r = 0; r < F::kRepeats; ++r) {
    const unsigned first = column + r * F::kApart;
    from[r] = m.b.data + (first < static_cast<unsigned>(m.n_cols) ? first : column - lane * F::kVector);
  }
  const Index* next_row = a.partition.rows + share.row;
  Index row = *next_row;
  T sums[F::kSums] = {};
  T b[kAhead][F::kSums] = {};
  Nonzero<T> next = nonzero(lane);
  for (unsigned base = 0; base < longest; base += F::kLanes) {
    const Nonzero<T> mine = next;
    next = nonzero(base + F::kLanes + lane);
#pragma unroll
    for (unsigned s = 0; s < F::kLanes; s += kAhead) {
      if (base + s >= longest) break;
      Nonzero<T> nonzeros[kAhead];
#pragma unroll
      for (unsigned u = 0; u < kAhead; ++u) {
        nonzeros[u].column = __shfl_sync(kAllLanes, mine.column, static_cast<int>(s + u), F::kLanes);
        nonzeros[u].value = __shfl_sync(kAllLanes, mine.value, static_cast<int>(s + u), F::kLanes);
      }
#pragma unroll
      for (unsigned u = 0; u < kAhead; ++u) {
        if (base + s + u >= length) continue;
        const Offset place = Offset{nonzeros[u].column & kColumnBits} * m.b.ld;
#pragma unroll
        for (unsigned r = 0; r < F::kRepeats; ++r) {
          load_vector<F::kVector>(from[r] + place, b[u] + r * F::kVector);
        }
      }
#pragma unroll
      for (unsigned u = 0; u < kAhead; ++u) {
        if (base + s + u >= length) continue;
#pragma unroll
        for (unsigned k = 0; k < F::kSums; ++k) sums[k] += nonzeros[u].value * b[u][k];
        if (nonzeros[u].column >= 0) continue;
        finish_row<F>(m, row, column, sums);
#pragma unroll
        for (unsigned k = 0; k < F::kSums; ++k) sums[k] = T{0};
        row = *++next_row;
      }
    }
  }
  if (!has_share || share.slot < 0) return;
  T* const to = a.slots + Offset{share.slot} * a.ld_slots;
  store_sums<F>(to, column, static_cast<unsigned>(m.n_cols), true, sums);
}

/// The blocks up to `share_blocks` multiply; those after them set empty rows, one a group.
template <class F, class T>
__global__ void __launch_bounds__(kBlock, kBlocks)
    multiply(Matrix<T> a, Product<T> m, unsigned share_blocks) {
  for (unsigned strip = blockIdx.y * F::kStrip; strip < static_cast<unsigned>(m.n_cols);
       strip += gridDim.y * F::kStrip) {
    const unsigned column = strip + threadIdx.x % F::kLanes * F::kVector;
    if (blockIdx.x < share_blocks) {
      multiply_share<F>(a, m, column);
    } else {
      const unsigned number = (blockIdx.x - share_blocks) * (kBlock / F::kLanes) + threadIdx.x / F::kLanes;
      const T zeros[F::kSums] = {};
      if (number < a.partition.empty_rows) finish_row<F>(m, a.partition.empty[number], column, zeros);
    }
  }
}

/// Column `column` of slots [begin, end), added up in their order.
template <class T>
__device__ T sum_of_slots(const Matrix<T>& a, Index begin, Index end, Offset column) {
  T sum = 0;
#pragma unroll 8
  for (Index slot = begin; slot < end; ++slot) sum += a.slots[Offset{slot} * a.ld_slots + column];
  return sum;
}

/// Adds the parts of cut rows to C, where their last parts are: a warp per row, and for rows with many parts,
/// one after the other, all warps of its block.
template <class T>
__global__ void __launch_bounds__(kBlock) add_parts(Matrix<T> a, Product<T> m) {
  __shared__ T of_warps[kWarps][kWarp];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned first = blockIdx.x * kWarps, last = min(first + kWarps, a.partition.split_rows);
  const SplitRow* const rows = a.partition.split;
  for (Offset strip = Offset{blockIdx.y} * kWarp; strip < m.n_cols; strip += Offset{gridDim.y} * kWarp) {
    const Offset column = strip + lane;
    const bool has_column = column < m.n_cols;
    for (unsigned k = first; k < last; ++k) {
      const SplitRow row = rows[k];
      const Index end = rows[k + 1].first_slot, parts = end - row.first_slot;
      T* const to = m.c.row(row.row) + column;
      if (parts <= kFewParts) {
        if (k - first == warp && has_column) *to += m.alpha * sum_of_slots(a, row.first_slot, end, column);
        continue;
      }
      const Index each = (parts + Index{kWarps} - 1) / Index{kWarps};
      const Index begin = min(end, row.first_slot + static_cast<Index>(warp) * each);
      of_warps[warp][lane] = has_column ? sum_of_slots(a, begin, min(end, begin + each), column) : T{0};
      __syncthreads();
      if (warp == 0 && has_column) {
        T sum = 0;
        for (unsigned w = 0; w < kWarps; ++w) sum += of_warps[w][lane];
        *to += m.alpha * sum;
      }
      __syncthreads();
    }
  }
}

/// The columns of a strip, by the rule above.
template <class T>
Index strip_for(const SpmmProblem<T>& problem, Index given) {
  if (given != 0) return given;
  const Index n = problem.n_cols;
  if (n <= 32) return n <= 8 ? 8 : n <= 16 ? 16 : 32;
  const double of_64 = 64.0 * sizeof(T) * problem.a->cols;
  return n <= 64 || of_64 <= static_cast<double>(device_facts().l2_bytes) ? 64 : 32;
}

/// Calls `go` with the Form for strips of `strip` columns, with vectors where rows of B are `aligned`.
template <class T, class Go>
auto with_form(Index strip, bool aligned, Go&& go) {
  constexpr unsigned kVector = 16 / sizeof(T);
  switch (strip) {
    case 8:
      return go(Form<8, 1>{});
    case 16:
      return go(Form<16, 1>{});
    case 32:
      return aligned ? go(Form<32 / kVector, kVector>{}) : go(Form<32, 1>{});
    case 64:
      return aligned ? go(Form<64 / kVector, kVector>{}) : go(Form<32, 1, 2>{});
    default:
      fail("balanced: a strip of {} columns was asked for; give 8, 16, 32 or 64", strip);
  }
}

/// The non-zeros of a share, by the rule above.
template <class T>
Index share_for(const SpmmProblem<T>& problem, Index strip, bool aligned, Index given) {
  if (given != 0) return given;
  const DeviceFacts& device = device_facts();
  const Offset lanes = with_form<T>(strip, aligned, [](auto form) { return Offset{decltype(form)::kLanes}; });
  const double groups = static_cast<double>(Offset{device.sms} * (device.max_threads_per_sm / 2) / lanes);
  const auto strips = static_cast<double>((Offset{problem.n_cols} + strip - 1) / strip);
  const double even = static_cast<double>(problem.a->nnz()) * strips / (2 * groups);
  return (static_cast<Index>(std::clamp(even, 32.0, 512.0)) + 7) / 8 * 8;
}

template <class T>
bool rows_are_aligned(Offset ld) {
  return ld % static_cast<Offset>(16 / sizeof(T)) == 0;
}

template <class T>
class Balanced final : public RowMajorPlan<T> {
 public:
  Balanced(const SpmmProblem<T>& problem, Exec& exec, Granularity granularity)
      : RowMajorPlan<T>(problem, exec),
        aligned_(rows_are_aligned<T>(this->product().b.ld)),
        strip_(strip_for(problem, granularity.strip)),
        share_(share_for(problem, strip_, aligned_, granularity.share)) {
    AnyDeviceCsr<T> matrix = to_device(*problem.a);
    std::visit([&](auto& a) { take(a); }, matrix);
  }

  static Cost cost(const SpmmProblem<T>& problem) {
    Cost cost = RowMajorPlan<T>::cost(problem);
    const bool aligned = problem.b_layout == Layout::col_major || rows_are_aligned<T>(problem.ldb);
    const double shares =
        static_cast<double>(problem.a->nnz()) / share_for(problem, strip_for(problem, 0), aligned, 0);
    cost.memory += shares * (24 + 16 + sizeof(T) * (problem.n_cols + 3.0)) + 16.0 * problem.a->rows;
    return cost;
  }

  std::vector<Metric> metrics() const override {
    const PartitionView view = partition_.view();
    return {
        {"shares", static_cast<double>(view.shares), ""},
        {"share_nonzeros", static_cast<double>(share_), ""},
        {"strip_columns", static_cast<double>(strip_), ""},
        {"rows_cut", static_cast<double>(view.split_rows), ""},
        {"rows_empty", static_cast<double>(view.empty_rows), ""},
        {"partition_seconds", partition_.seconds().value_or(std::numeric_limits<double>::quiet_NaN()), "s"},
        {"strict_floor_bytes", strict_floor_bytes(), "B"}};
  }

 protected:
  void multiply(const Product<T>& product) override {
    const PartitionView view = partition_.view();
    const Matrix<T> matrix{view, columns_.data(), values_.data(), slots_.data(), ld_slots_};
    with_form<T>(strip_, aligned_, [&](auto form) {
      using F = decltype(form);
      constexpr unsigned kGroups = kBlock / F::kLanes;
      const unsigned share_blocks = blocks_for(view.shares, kGroups);
      launch(spmm::multiply<F, T>,
             {.grid = {share_blocks + blocks_for(view.empty_rows, kGroups), strips(F::kStrip)},
              .block = kBlock,
              .stream = this->stream()},
             matrix, product, share_blocks);
    });
    launch(add_parts<T>,
           {.grid = {blocks_for(view.split_rows, kWarps), strips(kWarp)},
            .block = kBlock,
            .stream = this->stream()},
           matrix, product);
  }

 private:
  unsigned strips(unsigned columns) const {
    return std::min(kMostBlocks, blocks_for(this->product().n_cols, columns));
  }

  /// Makes the partition, and keeps of the matrix what it takes.
  template <class Ptr>
  void take(DeviceCsr<T, Ptr>& a) {
    partition_ =
        Partition(a.row_ptr.data(), a.rows, a.col_idx.data(), this->a().nnz(), share_, this->stream());
    columns_ = std::move(a.col_idx);
    values_ = std::move(a.values);
    constexpr Index kVector = 16 / sizeof(T);
    ld_slots_ =
        narrow<Index>((Offset{this->product().n_cols} + kVector - 1) / kVector * kVector, "a row of slots");
    slots_ =
        DeviceArray<T>(static_cast<std::size_t>(partition_.slots()) * static_cast<std::size_t>(ld_slots_));
  }

  /// A with 8 bytes a row pointer, the rows of B that are used, and C, once each (C twice where beta asks for
  /// the old one): no product of matrices in these formats moves less.
  double strict_floor_bytes() const {
    const Csr<T>& a = this->a();
    std::vector<bool> used(static_cast<std::size_t>(a.cols));
    for (const Index column : a.col_idx) used[static_cast<std::size_t>(column)] = true;
    const double rows_of_b = static_cast<double>(std::count(used.begin(), used.end(), true));
    const double n = this->problem().n_cols, c_passes = this->problem().beta == T{0} ? 1 : 2;
    return (4.0 + sizeof(T)) * static_cast<double>(a.nnz()) + 8 * (a.rows + 1.0) +
           sizeof(T) * n * (rows_of_b + c_passes * a.rows);
  }

  bool aligned_;  ///< rows of B begin at multiples of 16 bytes
  Index strip_;
  Index share_;
  Partition partition_;
  DeviceArray<Index> columns_;
  DeviceArray<T> values_;
  DeviceArray<T> slots_;
  Index ld_slots_ = 0;
};

}  // namespace

void add_balanced(Registry& registry, const std::string& name, Granularity granularity) {
  registry.add<Balanced>(
      {.name = name,
       .idea = "equal shares of non-zeros on groups of lanes, strips of B; cut rows in a fixed order",
       .needs = {.gpu = true}},
      granularity);
}

}  // namespace stages::spmm
