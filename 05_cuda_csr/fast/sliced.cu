// SpMV from slices of rows: neighbouring lanes take neighbouring rows.
//
// The idea: on a mesh or a band neighbouring rows ask for neighbouring elements of x. In 5_warp_per_row.cu the
// lanes of a warp stand in one row, whose columns lie here and there: each load of x touches many lines of L1.
// Here a lane has rows of its own, and all lanes go along together: their columns lie side by side, mostly in a
// line or two, and no sum needs a shuffle. So that the matrix is read in order, too, prepare lays out 32 rows
// or more as a *slice*, in *slots* of a place for each row. Into a slot go the next non-zeros of all rows whose
// columns lie near the least of them; the others wait for a slot to come, and leave their places empty.
//
// Columns of a slot lie near each other, so the least is stored once, and of each what it lies beyond that: in
// 8, 16 or 32 bits, whichever makes the fewest bytes of the matrix. Where it is larger than L2 its bytes are
// what takes the time; a float's non-zero on a mesh has 5 in place of 8.
//
// Where there are many rows, a lane takes two or four neighbouring ones, and asks for two or four places at
// once: fewer loads, and more bytes under way. Where there are few, 2 to 32 lanes share a row. And rows of
// different lengths are sorted, within windows of rows so that neighbours stay near, if that saves slots.
//
// Input: any CSR matrix, but refused where most places would be empty, or one slice would keep its warp busy
// when all others are done. Cost: (1, 2 or 4) + sizeof(T) bytes a place and 4 a slot; 4 a row where they are
// sorted. Memory: the same.
//
// Sources: slices are SELL-C-sigma (M. Kreutzer and others, SIAM J. Sci. Comput. 36, 2014); that columns need
// few bits is in J. Willcock and A. Lumsdaine, "Accelerating sparse matrix computations via data compression"
// (ICS 2006).

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <numeric>

#include "05_cuda_csr/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/facts.hpp"
#include "common/gpu/plans.hpp"
#include "common/matrix/parallel.hpp"

namespace stages {
namespace {

constexpr unsigned kWarps = 8;      ///< of a block, a slice each
constexpr Index kBatch = 4;         ///< slots whose loads are under way together
constexpr Index kWindow = 1024;     ///< rows that are sorted among each other
constexpr Offset kMostPlaces = 4;   ///< times as many as non-zeros
constexpr Offset kSlicesOfSm = 24;  ///< that keep it busy
constexpr Offset kMostShares = 8;   ///< of a warp's share of all slots, that a slice may have
constexpr Index kMostRowsOfLane = 4;
constexpr Index kOneLaneARow = 6;  ///< the parameter `spread`, with which a slice has 2^(spread - 1) rows

/// What a place holds that has no non-zero.
template <class Beyond>
constexpr Beyond kEmpty = std::numeric_limits<Beyond>::max();

template <class T, class Beyond>
struct Slices {
  Index rows = 0, slices = 0;
  unsigned shift = 0;              ///< 2^shift lanes share a row
  const Index* first = nullptr;    ///< slot of each slice; slices + 1
  const Index* row_of = nullptr;   ///< of each place; null: rows come as they lie
  const Index* least = nullptr;    ///< column of each slot
  const Beyond* beyond = nullptr;  ///< of each place, a slot after the other
  const T* values = nullptr;       ///< likewise
};

/// What a lane takes of a slot.
template <class T, unsigned kRows>
struct alignas(sizeof(T) * kRows) Places {
  T of[kRows];
};

/// One slice per warp. A lane has kRows neighbouring rows, or a part of one.
template <unsigned kRows, class T, class Beyond>
__global__ void __launch_bounds__(kWarps* kWarp) sliced(Slices<T, Beyond> a, const T* x, T* y) {
  const unsigned lane = threadIdx.x % kWarp;
  const Index slice = static_cast<Index>(blockIdx.x * kWarps + threadIdx.x / kWarp);
  if (slice >= a.slices) return;  // the whole warp leaves
  Index slot = a.first[slice];
  const Index end = a.first[slice + 1];
  const auto* const beyond = reinterpret_cast<const Places<Beyond, kRows>*>(a.beyond) + lane;
  const auto* const values = reinterpret_cast<const Places<T, kRows>*>(a.values) + lane;
  T sums[kRows] = {};
  const auto add_slots = [&]<Index kSlots>(std::integral_constant<Index, kSlots>) {
    Index least[kSlots];
    Places<Beyond, kRows> columns[kSlots];
    Places<T, kRows> of_a[kSlots];
#pragma unroll
    for (Index u = 0; u < kSlots; ++u) {
      least[u] = a.least[slot + u];
      columns[u] = beyond[Offset{slot + u} * kWarp];
      of_a[u] = values[Offset{slot + u} * kWarp];
    }
#pragma unroll
    for (Index u = 0; u < kSlots; ++u) {
#pragma unroll
      for (unsigned r = 0; r < kRows; ++r)
        if (columns[u].of[r] != kEmpty<Beyond>)
          sums[r] += of_a[u].of[r] * x[least[u] + static_cast<Index>(columns[u].of[r])];
    }
    slot += kSlots;
  };
  while (slot + kBatch <= end) add_slots(std::integral_constant<Index, kBatch>());
  static_assert(kBatch == 4);
  if (slot + 2 <= end) add_slots(std::integral_constant<Index, 2>());
  if (slot < end) add_slots(std::integral_constant<Index, 1>());
  if constexpr (kRows == 1) {
    for (unsigned d = (1u << a.shift) / 2; d > 0; d /= 2)
      sums[0] += __shfl_down_sync(kAllLanes, sums[0], d, 1 << a.shift);
    if (lane % (1u << a.shift) != 0) return;
  }
  const Offset first = (Offset{slice} * kWarp + lane) * kRows >> a.shift;
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r)
    if (first + r < a.rows) y[a.row_of != nullptr ? a.row_of[first + r] : first + r] = sums[r];
}

/// How rows are dealt to lanes: one of the two is 1.
struct Dealt {
  Index rows_of_lane = 1, lanes_of_row = 1;
  Index rows() const { return Index{kWarp} * rows_of_lane / lanes_of_row; }  ///< of a slice
};

/// So that there are slices enough. A row has more lanes only where each then has two batches or more, and of
/// very long rows as many as leave them 8.
template <class T>
Dealt deal(const Csr<T>& a, const ParameterValues& values) {
  if (const Index spread = chosen(values, "spread"); spread > 0)
    return {1 << std::max(0, spread - kOneLaneARow), 1 << std::max(0, kOneLaneARow - spread)};
  const auto has_slices = [&](Offset rows) { return a.rows >= kSlicesOfSm * device_facts().sms * rows; };
  const auto has_batches = [&](Offset batches) { return a.nnz() >= batches * kBatch * a.rows; };
  Dealt dealt;
  while (dealt.rows_of_lane < kMostRowsOfLane && has_slices(2 * dealt.rows())) dealt.rows_of_lane *= 2;
  for (Index& lanes = dealt.lanes_of_row; lanes < Index{kWarp}; lanes *= 2)
    if (!has_batches(16 * lanes) && (has_slices(dealt.rows()) || !has_batches(4 * lanes))) break;
  if (dealt.lanes_of_row > 1) dealt.rows_of_lane = 1;
  return dealt;
}

/// Calls go(slot, place, k) for each non-zero k of a slice's rows, and returns how many slots they take: at
/// most `most`, or all that it looked at. `limit`: a column lies less beyond the least of its slot.
template <class T, class Go>
Offset over_slots(const Csr<T>& a, std::span<const Index> rows, const Dealt& dealt, Offset limit, Offset most,
                  Go&& go) {
  std::array<Offset, kWarp * kMostRowsOfLane> next, end;
  for (std::size_t q = 0; q < rows.size(); ++q) {
    next[q] = a.row_ptr[static_cast<std::size_t>(rows[q])];
    end[q] = a.row_ptr[static_cast<std::size_t>(rows[q]) + 1];
  }
  for (Offset slot = 0; slot < most; ++slot) {
    Offset least = std::numeric_limits<Offset>::max();
    for (std::size_t q = 0; q < rows.size(); ++q)
      if (next[q] < end[q]) least = std::min<Offset>(least, a.col_idx[static_cast<std::size_t>(next[q])]);
    if (least == std::numeric_limits<Offset>::max()) return slot;
    for (std::size_t q = 0; q < rows.size(); ++q) {
      for (Index lane = 0; lane < dealt.lanes_of_row && next[q] < end[q]; ++lane, ++next[q]) {
        const auto k = static_cast<std::size_t>(next[q]);
        if (a.col_idx[k] - least >= limit) break;
        go(slot, q * static_cast<std::size_t>(dealt.lanes_of_row) + static_cast<std::size_t>(lane), k);
      }
    }
  }
  return most;
}

/// How a matrix is cut into slices and slots.
struct Slicing {
  Dealt dealt;
  std::vector<Index> order;   ///< the row at each place
  bool sorted = false;        ///< else rows come as they lie
  Offset limit = 0;           ///< as over_slots() has it
  std::vector<Offset> first;  ///< slot of each slice; slices + 1

  std::span<const Index> rows_of(Offset slice) const {
    const auto begin = static_cast<std::size_t>(slice * dealt.rows());
    return std::span(order).subspan(begin,
                                    std::min(static_cast<std::size_t>(dealt.rows()), order.size() - begin));
  }
  Offset slots() const { return first.back(); }
  Offset places() const { return slots() * kWarp * dealt.rows_of_lane; }
};

constexpr Offset kNoLimit = std::numeric_limits<Index>::max();

/// The slot of each slice, and their number. Empty: with that limit a slice takes more than twice as many slots
/// as without, so that it would not pay.
template <class T>
std::vector<Offset> first_slots(const Csr<T>& a, const Slicing& slicing, Offset limit) {
  const Offset slices = (Offset{a.rows} + slicing.dealt.rows() - 1) / slicing.dealt.rows();
  std::vector<Offset> first(static_cast<std::size_t>(slices) + 1);
  std::atomic<bool> too_many = false;
  parallel_blocks(slices, 64, 0, [&](int, Offset begin, Offset end) {
    for (Offset slice = begin; slice < end && !too_many; ++slice) {
      const auto rows = slicing.rows_of(slice);
      Offset longest = 0;
      for (const Index row : rows) longest = std::max(longest, a.row_nnz(row));
      Offset slots = (longest + slicing.dealt.lanes_of_row - 1) / slicing.dealt.lanes_of_row;
      if (limit < kNoLimit) {
        const Offset most = 2 * slots + 1;
        slots = over_slots(a, rows, slicing.dealt, limit, most, [](auto...) {});
        if (slots == most) too_many = true;
      }
      first[static_cast<std::size_t>(slice) + 1] = slots;
    }
  });
  if (too_many) return {};
  std::partial_sum(first.begin(), first.end(), first.begin());
  return first;
}

/// With columns of 32 bits.
template <class T>
Slicing slice_wide(const Csr<T>& a, const ParameterValues& values) {
  Slicing slicing{.dealt = deal(a, values), .order = std::vector<Index>(static_cast<std::size_t>(a.rows))};
  std::iota(slicing.order.begin(), slicing.order.end(), 0);
  slicing.first = first_slots(a, slicing, kNoLimit);
  Slicing sorted = slicing;
  for (Index begin = 0; begin < a.rows; begin += std::min(kWindow, a.rows - begin))
    std::ranges::stable_sort(std::span(sorted.order)
                                 .subspan(static_cast<std::size_t>(begin),
                                          static_cast<std::size_t>(std::min(kWindow, a.rows - begin))),
                             std::ranges::greater(), [&](Index row) { return a.row_nnz(row); });
  sorted.first = first_slots(a, sorted, kNoLimit);
  if (8 * sorted.slots() < 7 * slicing.slots()) {  // else little is saved
    slicing = std::move(sorted);
    slicing.sorted = true;
  }
  slicing.limit = kNoLimit;
  return slicing;
}

/// With columns of as many bits as make the fewest bytes.
template <class T>
Slicing slice(const Csr<T>& a, const ParameterValues& values) {
  Slicing slicing = slice_wide(a, values);
  const auto bytes = [](const Slicing& of, std::size_t beyond) {
    return of.places() * static_cast<Offset>(beyond + sizeof(T));
  };
  Offset fewest = bytes(slicing, sizeof(Index));
  for (const Offset limit : {Offset{kEmpty<std::uint16_t>}, Offset{kEmpty<std::uint8_t>}}) {
    Slicing narrow = slicing;
    narrow.limit = limit;
    narrow.first = first_slots(a, narrow, limit);
    if (narrow.first.empty()) break;
    const Offset now = bytes(narrow, limit == kEmpty<std::uint8_t> ? 1 : 2);
    if (now >= fewest) break;
    fewest = now;
    slicing = std::move(narrow);
  }
  return slicing;
}

/// The matrix in slices on the device.
template <class T, class Beyond>
class DeviceSlices {
 public:
  DeviceSlices(const Csr<T>& a, const Slicing& slicing)
      : rows_(a.rows),
        shift_(static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(slicing.dealt.lanes_of_row)))) {
    const std::vector<Index> first(slicing.first.begin(), slicing.first.end());
    std::vector<Index> least(static_cast<std::size_t>(slicing.slots()));
    Buffer<Beyond> beyond(static_cast<std::size_t>(slicing.places()), kEmpty<Beyond>);
    Buffer<T> values(beyond.size(), T{0});
    const std::size_t of_slot = kWarp * static_cast<std::size_t>(slicing.dealt.rows_of_lane);
    parallel_blocks(std::ssize(first) - 1, 64, 0, [&](int, Offset begin, Offset end) {
      for (Offset slice = begin; slice < end; ++slice) {
        const Offset at = slicing.first[static_cast<std::size_t>(slice)],
                     slots = slicing.first[static_cast<std::size_t>(slice) + 1] - at;
        const auto columns = [&](auto go) {
          over_slots(a, slicing.rows_of(slice), slicing.dealt, slicing.limit, slots,
                     [&](Offset slot, std::size_t place, std::size_t k) {
                       go(static_cast<std::size_t>(at + slot), place, k);
                     });
        };
        std::fill_n(least.begin() + at, slots, std::numeric_limits<Index>::max());
        columns([&](std::size_t slot, std::size_t, std::size_t k) {
          least[slot] = std::min(least[slot], a.col_idx[k]);
        });
        columns([&](std::size_t slot, std::size_t place, std::size_t k) {
          beyond[slot * of_slot + place] = static_cast<Beyond>(a.col_idx[k] - least[slot]);
          values[slot * of_slot + place] = a.values[k];
        });
      }
    });
    first_ = DeviceArray<Index>(std::span<const Index>(first));
    least_ = DeviceArray<Index>(std::span<const Index>(least));
    beyond_ = DeviceArray<Beyond>(std::span<const Beyond>(beyond));
    values_ = DeviceArray<T>(std::span<const T>(values));
    if (slicing.sorted) row_of_ = DeviceArray<Index>(std::span<const Index>(slicing.order));
  }

  Slices<T, Beyond> view() const {
    return {rows_,
            static_cast<Index>(first_.size() - 1),
            shift_,
            first_.data(),
            row_of_.size() > 0 ? row_of_.data() : nullptr,
            least_.data(),
            beyond_.data(),
            values_.data()};
  }

 private:
  Index rows_;
  unsigned shift_;
  DeviceArray<Index> first_, row_of_, least_;
  DeviceArray<Beyond> beyond_;
  DeviceArray<T> values_;
};

template <class T>
class Sliced final : public DeviceSpmvPlan<T> {
 public:
  Sliced(const SpmvProblem<T>& problem, Exec& exec, const ParameterValues& values)
      : DeviceSpmvPlan<T>(problem, exec),
        dealt_(deal(*problem.a, values)),
        matrix_(make(*problem.a, values)) {}

  static Cost cost(const SpmvProblem<T>& problem, const ParameterValues& values) {
    const Slicing slicing = slice_wide(*problem.a, values);
    return problem_cost(problem).plus_memory(4.0 * static_cast<double>(slicing.slots()) +
                                             (4.0 + sizeof(T)) * static_cast<double>(slicing.places()) +
                                             8.0 * problem.a->rows);
  }
  static std::optional<std::string> refuse(const SpmvProblem<T>& problem, Exec&,
                                           const ParameterValues& values) {
    const Slicing slicing = slice_wide(*problem.a, values);
    const Offset places = slicing.places(), nnz = problem.a->nnz();
    if (places > kMostPlaces * nnz + Offset{kWindow} * kWarp || !std::in_range<Index>(places / kWarp))
      return fmt::format("its slices would have {} places for {} non-zeros; see balanced", places, nnz);
    const Offset share = std::max<Offset>(2 * kBatch, slicing.slots() / (kSlicesOfSm * device_facts().sms));
    for (std::size_t slice = 1; slice < slicing.first.size(); ++slice)
      if (const Offset slots = slicing.first[slice] - slicing.first[slice - 1]; slots > kMostShares * share)
        return fmt::format("a slice would have {} slots, and a warp's share is {}; see balanced", slots,
                           share);
    return std::nullopt;
  }

  std::vector<Metric> metrics() const override {
    return {{"spread", std::bit_width(static_cast<unsigned>(dealt_.rows())) + 0.0, ""}};
  }

 protected:
  void product(const T* x, T* y) override {
    std::visit([&](const auto& matrix) { multiply(matrix.view(), x, y); }, matrix_);
  }

 private:
  using Matrix = std::variant<DeviceSlices<T, std::uint8_t>, DeviceSlices<T, std::uint16_t>,
                              DeviceSlices<T, std::uint32_t>>;

  static Matrix make(const Csr<T>& a, const ParameterValues& values) {
    const Slicing slicing = slice(a, values);
    if (slicing.limit == kEmpty<std::uint8_t>) return DeviceSlices<T, std::uint8_t>(a, slicing);
    if (slicing.limit == kEmpty<std::uint16_t>) return DeviceSlices<T, std::uint16_t>(a, slicing);
    return DeviceSlices<T, std::uint32_t>(a, slicing);
  }

  template <class Beyond>
  void multiply(const Slices<T, Beyond>& a, const T* x, T* y) {
    const LaunchConfig config{
        .grid = blocks_for(a.slices, kWarps), .block = kWarps * kWarp, .stream = this->stream()};
    if (dealt_.rows_of_lane == 1) launch(sliced<1, T, Beyond>, config, a, x, y);
    if (dealt_.rows_of_lane == 2) launch(sliced<2, T, Beyond>, config, a, x, y);
    if (dealt_.rows_of_lane == 4) launch(sliced<4, T, Beyond>, config, a, x, y);
  }

  Dealt dealt_;
  Matrix matrix_;
};

}  // namespace

void add_sliced(Registry& registry) {
  registry.add<Sliced>(
      {.name = "05_cuda_csr/sliced",
       .idea = "32 rows or more interleaved, a lane each; columns of 8 bits beyond the least of a slot",
       .previous = "balanced",
       .parameters = {{"spread", "1 to 8: a slice has 1, 2, 4, .. 128 rows",
                       "as many as leave 24 slices for each SM", 1, kOneLaneARow + 2}}});
}

}  // namespace stages
