#include "06_cuda_register/resident.hpp"

#include <algorithm>
#include <numeric>

#include "common/matrix/error.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages {
namespace {

constexpr int kWarpLanes = 32;

std::size_t at(Offset k) { return static_cast<std::size_t>(k); }

/// A lane's non-zeros along the row, as positions in the matrix.
using Positions = std::vector<Offset>;

/// Where each lane of a phase takes its non-zeros as they come. place(step, lane, position) is called for each
/// non-zero, place(step, lane, -1 - bank) for padding that reads the zero in that bank. Returns how many reads
/// meet another in their bank.
template <class BankOf, class Place>
Offset along_rows(const std::vector<Positions>& lanes, int steps, int banks, BankOf&& bank_of,
                  Place&& place) {
  Offset conflicts = 0;
  for (int step = 0; step < steps; ++step) {
    std::vector<bool> taken(at(banks), false);
    for (int l = 0; l < std::ssize(lanes); ++l) {
      if (step >= std::ssize(lanes[at(l)])) {
        place(step, l, Offset{-1});
        continue;
      }
      const Offset position = lanes[at(l)][at(step)];
      const std::size_t bank = at(bank_of(position));
      if (taken[bank]) ++conflicts;
      taken[bank] = true;
      place(step, l, position);
    }
  }
  return conflicts;
}

/// A lane's non-zeros by the bank of their column, from which schedule() takes them.
struct Lane {
  std::vector<Positions> of_bank;
  Offset left = 0;
};

/// The bank, among those with non-zeros of this lane that are not `taken`, for which most other lanes wait.
int choose_bank(const Lane& lane, const std::vector<bool>& taken, const std::vector<Offset>& waiting) {
  int best = -1;
  for (int b = 0; b < static_cast<int>(taken.size()); ++b) {
    if (taken[at(b)] || lane.of_bank[at(b)].empty()) continue;
    if (best < 0 || waiting[at(b)] > waiting[at(best)]) best = b;
  }
  return best;
}

/// Schedules the lanes of one phase. The rest as in along_rows().
template <class BankOf, class Place>
Offset schedule(const std::vector<Positions>& rows, int steps, int banks, BankOf&& bank_of, Place&& place) {
  std::vector<Offset> waiting(at(banks), 0);
  std::vector<Lane> lanes(rows.size(), Lane{std::vector<Positions>(at(banks))});
  for (std::size_t l = 0; l < rows.size(); ++l) {
    for (const Offset position : rows[l]) {
      lanes[l].of_bank[at(bank_of(position))].push_back(position);
      ++waiting[at(bank_of(position))];
    }
    lanes[l].left = std::ssize(rows[l]);
  }
  Offset conflicts = 0;
  std::vector<int> order(lanes.size());
  std::iota(order.begin(), order.end(), 0);
  for (int step = 0; step < steps; ++step) {
    std::vector<bool> taken(at(banks), false);
    // Lanes with most left choose first: they have the fewest steps to spare.
    std::stable_sort(order.begin(), order.end(),
                     [&](int l, int r) { return lanes[at(l)].left > lanes[at(r)].left; });
    std::vector<int> idle;
    for (const int l : order) {
      Lane& lane = lanes[at(l)];
      int bank = choose_bank(lane, taken, waiting);
      if (bank < 0 && lane.left == steps - step) {  // no step to spare: share a bank
        bank = choose_bank(lane, std::vector<bool>(at(banks), false), waiting);
        ++conflicts;
      }
      if (bank < 0) {
        idle.push_back(l);
        continue;
      }
      taken[at(bank)] = true;
      place(step, l, lane.of_bank[at(bank)].back());
      lane.of_bank[at(bank)].pop_back();
      --lane.left;
      --waiting[at(bank)];
    }
    for (const int l : idle) {
      const auto free = std::find(taken.begin(), taken.end(), false);
      const int bank = free == taken.end() ? 0 : static_cast<int>(free - taken.begin());
      taken[at(bank)] = true;
      place(step, l, Offset{-1} - bank);
    }
  }
  return conflicts;
}

}  // namespace

template <class T>
Index resident_steps(const Csr<T>& a, int lanes) {
  Offset most = 0;
  for (Index i = 0; i < a.rows; ++i) most = std::max(most, (a.row_nnz(i) + lanes - 1) / lanes);
  return narrow<Index>(most);
}

template <class T>
Resident<T> make_resident(const Csr<T>& a, int lanes, int steps, int element_bytes, StepOrder order) {
  const int banks = shared_banks(element_bytes);
  if (a.cols > kMostResidentColumns)
    fail("{} columns do not fit into 16 bits; at most {} do", a.cols, kMostResidentColumns);
  if (const Index least = resident_steps(a, lanes); steps < least) {
    fail("{} steps cannot hold rows that need {}; give more steps or more lanes", steps, least);
  }
  const Index rows_per_warp = kWarpLanes / lanes;
  Resident<T> out{.rows = a.rows,
                  .cols = a.cols,
                  .lanes = lanes,
                  .steps = steps,
                  .warps = static_cast<int>((Offset{a.rows} + rows_per_warp - 1) / rows_per_warp)};
  out.values.resize(at(Offset{out.warps} * steps * kWarpLanes));
  out.columns.resize(out.values.size());
  const int phase = std::min(banks, kWarpLanes);
  for (int warp = 0; warp < out.warps; ++warp) {
    for (int first = 0; first < kWarpLanes; first += phase) {
      std::vector<Positions> phase_lanes(at(phase));
      for (int l = 0; l < phase; ++l) {
        const Index row = static_cast<Index>(warp) * rows_per_warp + (first + l) / lanes;
        if (row >= a.rows) continue;
        for (Offset k = a.row_ptr[at(row)] + (first + l) % lanes; k < a.row_ptr[at(row) + 1]; k += lanes)
          phase_lanes[at(l)].push_back(k);
      }
      const auto bank_of = [&](Offset position) { return a.col_idx[at(position)] % banks; };
      const auto place = [&](int step, int l, Offset position) {
        const std::size_t to = (at(warp) * at(steps) + at(step)) * kWarpLanes + at(first + l);
        if (position >= 0) {
          out.values[to] = a.values[at(position)];
          out.columns[to] = static_cast<std::uint16_t>(a.col_idx[at(position)]);
        } else {
          const Index bank = static_cast<Index>(-1 - position);
          out.values[to] = T{0};
          out.columns[to] = static_cast<std::uint16_t>(a.cols + (bank - a.cols % banks + banks) % banks);
        }
      };
      out.conflicts += order == StepOrder::by_bank ? schedule(phase_lanes, steps, banks, bank_of, place)
                                                   : along_rows(phase_lanes, steps, banks, bank_of, place);
    }
  }
  return out;
}

STAGES_FOR_VALUES(resident_steps)
STAGES_FOR_VALUES(make_resident)

}  // namespace stages
