// SpMV with two arrays, 16-bit columns and loads of 16 bytes.
//
// The idea: the time of 2_equal_rows.cu is that of reading the matrix, so read less of it, and read it better.
//
// - Columns below 65536 fit into 16 bits: (2 + sizeof(T)) bytes a non-zero instead of (4 + sizeof(T)), for
//   float 6 instead of 8.
// - Row by row again, each filled up to a multiple of eight non-zeros, and a sub-warp for each row, as in
//   5_warp_per_row.cu: a lane takes eight neighbouring ones at once, one load of columns and two (float) of
//   values, all 16 bytes wide. The filling is loaded and not used.
// - The next eight are on their way while these are multiplied. The first are asked for before the block
//   copies x to shared memory, so that the two waits overlap.
// - As many blocks as the chip holds at once stay, each taking rows in turn: x is copied once for each.
//
// Input: equally long rows and at most 65536 columns; others are refused. An x that does not fit into shared
// memory is read through the caches. Cost: (2 + sizeof(T)) x nnz bytes, and the filling.
//
// Source: the two arrays are the course project's third GPU step; short indices and wide loads are folklore.

#include <algorithm>
#include <bit>

#include "05_cuda_csr/fast/packs.hpp"
#include "05_cuda_csr/stage.hpp"
#include "05_cuda_csr/two_arrays.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"
#include "common/matrix/parallel.hpp"

namespace stages {
namespace {

constexpr Index kMostColumns = 65536;
constexpr Index kPack = 8;

/// Row i is at [i * stride, i * stride + row_nnz) of both arrays.
template <class T>
struct EqualRows {
  Index rows = 0, cols = 0;
  Index row_nnz = 0;
  Index stride = 0;  ///< row_nnz rounded up to a multiple of 8
  const std::uint16_t* col_idx = nullptr;
  const T* values = nullptr;
};

/// Eight non-zeros of a row.
template <class T>
struct Entries {
  Pack<unsigned, 8> columns;
  Pack<T, 8> values;
};

/// y = A x with a sub-warp of kTeam lanes a row. With kShared: dynamic shared memory holds x (`cols` elements).
template <bool kShared, unsigned kTeam, class T>
__global__ void __launch_bounds__(1024) equal_rows_16bit(EqualRows<T> a, const T* x, T* y) {
  constexpr unsigned kTeams = kWarp / kTeam;  // of a warp
  const auto rows = static_cast<unsigned>(a.rows);
  const unsigned warps = blockDim.x / kWarp;
  const unsigned rows_at_once = gridDim.x * warps * kTeams;
  const unsigned team = threadIdx.x % kWarp / kTeam;
  const Index begin = kPack * static_cast<Index>(threadIdx.x % kTeam);
  // The warp's sub-warps stand on rows warp_row, warp_row + 1, .. and step together; one beyond the
  // last row goes on with nothing, because its warp's shuffles need it.
  unsigned warp_row = (blockIdx.x * warps + threadIdx.x / kWarp) * kTeams;
  Index k = begin;
  const auto load = [&]() -> Entries<T> {
    if (warp_row + team >= rows || k >= a.stride) return {};
    const Offset at = Offset{warp_row + team} * a.stride + k;
    return {load_eight(a.col_idx + at), load_eight(a.values + at)};
  };
  Entries<T> next = load();
  const T* near_x = x;
  if constexpr (kShared) {
    T* shared_x = dynamic_shared<T>();
    for (unsigned j = threadIdx.x; j < static_cast<unsigned>(a.cols); j += blockDim.x) shared_x[j] = x[j];
    __syncthreads();
    near_x = shared_x;
  }
  T sum = 0;
  while (warp_row < rows) {
    const Entries<T> now = next;
    const unsigned row = warp_row + team;
    const Index left = a.row_nnz - k;
    k += kPack * Index{kTeam};
    const bool row_ends = k - begin >= a.stride;  // the same for the whole warp
    if (row_ends) {
      k = begin;
      warp_row += rows_at_once;
    }
    next = load();
#pragma unroll
    for (Index t = 0; t < kPack; ++t) {
      if (t < left) sum += now.values.v[t] * near_x[now.columns.v[t]];
    }
    if (!row_ends) continue;
    for (unsigned d = kTeam / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d, int{kTeam});
    if (begin == 0 && row < rows) y[row] = sum;
    sum = 0;
  }
}

template <class T>
class EqualRows16Bit final : public DeviceSpmvPlan<T> {
 public:
  EqualRows16Bit(const SpmvProblem<T>& problem, Exec& exec) : DeviceSpmvPlan<T>(problem, exec) {
    const Csr<T>& a = *problem.a;
    const Offset width = equal_row_length(a), stride = (width + kPack - 1) / kPack * kPack;
    Buffer<std::uint16_t> columns(static_cast<std::size_t>(stride * a.rows), 0);
    Buffer<T> values(static_cast<std::size_t>(stride * a.rows), T{0});
    parallel_blocks(a.rows, 1024, 0, [&](int, Offset first, Offset last) {
      for (Offset i = first; i < last; ++i) {
        for (Offset k = 0; k < width; ++k) {
          const auto to = static_cast<std::size_t>(i * stride + k),
                     from = static_cast<std::size_t>(i * width + k);
          columns[to] = static_cast<std::uint16_t>(a.col_idx[from]);
          values[to] = a.values[from];
        }
      }
    });
    columns_ = DeviceArray<std::uint16_t>(std::span<const std::uint16_t>(columns));
    values_ = DeviceArray<T>(std::span<const T>(values));
    view_ = {a.rows, a.cols, narrow<Index>(width), narrow<Index>(stride), columns_.data(), values_.data()};
    shared_bytes_ = static_cast<std::size_t>(a.cols) * sizeof(T);
    shared_ = shared_bytes_ <= device_facts().shared_per_block_optin;
    if (!shared_) shared_bytes_ = 0;
    choose_shape();
  }

  static Cost cost(const SpmvProblem<T>& problem) {
    const double entries = static_cast<double>(problem.a->nnz()) + (kPack - 1.0) * problem.a->rows;
    return problem_cost(problem).plus_memory((2.0 + sizeof(T)) * entries);
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&) {
    const Csr<T>& a = *problem.a;
    if (a.cols > kMostColumns)
      return fmt::format("has {} columns; 16 bits count {} at most", a.cols, kMostColumns);
    return uneven_rows(a);
  }

  std::vector<Metric> metrics() const override {
    return {{"lanes_per_row", static_cast<double>(team_), ""},
            {"matrix_bytes", static_cast<double>(columns_.bytes() + values_.bytes()), "B"}};
  }

 protected:
  void product(const T* x, T* y) override {
    with_kernel([&](auto kernel) {
      launch(kernel,
             {.grid = grid_, .block = block_, .shared_bytes = shared_bytes_, .stream = this->stream()}, view_,
             x, y);
    });
  }

 private:
  /// Blocks just large enough that 1024 threads share an SM with their copies of x; as many as the chip holds
  /// at once, and no more than there are rows for.
  void choose_shape() {
    const Index packs = std::max<Index>(1, view_.stride / kPack);
    team_ = std::clamp(std::bit_ceil(static_cast<unsigned>(packs)), 4u, kWarp);
    const DeviceFacts& device = device_facts();
    while (block_ < 1024 && device.shared_per_sm / (shared_bytes_ + 1024) * block_ < 1024) block_ *= 2;
    with_kernel([&](auto kernel) {
      allow_shared_bytes(kernel, shared_bytes_);
      const int resident = resident_blocks_per_sm(kernel, static_cast<int>(block_), shared_bytes_);
      grid_ = std::min(static_cast<unsigned>(resident * device.sms), blocks_for(view_.rows, block_ / team_));
    });
  }

  template <class Use>
  void with_kernel(Use&& use) {
    shared_ ? with_team<true>(use) : with_team<false>(use);
  }
  template <bool kShared, class Use>
  void with_team(Use& use) {
    switch (team_) {
      case 4: return use(equal_rows_16bit<kShared, 4, T>);
      case 8: return use(equal_rows_16bit<kShared, 8, T>);
      case 16: return use(equal_rows_16bit<kShared, 16, T>);
      default: return use(equal_rows_16bit<kShared, 32, T>);
    }
  }

  DeviceArray<std::uint16_t> columns_;
  DeviceArray<T> values_;
  EqualRows<T> view_;
  std::size_t shared_bytes_ = 0;
  bool shared_ = false;
  unsigned team_ = 4, block_ = 256, grid_ = 0;
};

}  // namespace

void add_equal_rows_16bit(Registry& registry) {
  registry.add<EqualRows16Bit>(
      {.name = "05_cuda_csr/equal_rows_16bit",
       .idea = "equal rows, 16-bit columns, 16-byte loads one step ahead, x in shared memory",
       .previous = "equal_rows"});
}

}  // namespace stages
