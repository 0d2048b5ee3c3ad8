#pragma once
// How many non-zeros a warp gets in files 2 to 5, and a group of lanes in 6 and 7; and what files 4 to 7 have
// around their kernels.

#include <algorithm>

#include "07_spmm/row_major.hpp"
#include "07_spmm/stage.hpp"
#include "common/gpu/facts.hpp"

namespace stages::spmm {

/// The non-zeros over the warps that a full device holds.
inline Offset even_share(Offset nnz) {
  const DeviceFacts& device = device_facts();
  return nnz / (Offset{device.sms} * (device.max_threads_per_sm / Offset{kWarp}));
}

/// The value chosen for a parameter, or what its rule says.
inline Index chosen_or(const ParameterValues& values, const Parameter& parameter, Offset rule) {
  const Index value = chosen(values, parameter.name);
  return value > 0 ? value : static_cast<Index>(std::min(rule, Offset{parameter.most}));
}

inline constexpr Parameter kChunk{"chunk", "the most non-zeros of a row that one warp takes",
                                  "an even share of all for each warp of a full device, at least 128", 1,
                                  1 << 30};
template <class T>
Index chunk_of(const SpmmProblem<T>& problem, const ParameterValues& values) {
  return chosen_or(values, kChunk, std::max(Offset{128}, even_share(problem.a->nnz())));
}

inline constexpr Parameter kShare{
    "share", "the non-zeros of a share",
    "half of what each warp, or group of lanes, of a full device would get, 32 to 256", 1, 1 << 20};

/// Whether rows of B and C begin and end at multiples of 16 bytes, so that lanes can take vectors of them.
template <class T>
bool takes_vectors(const SpmmArgs<T>& product) {
  return rows_are_aligned<T>(product.b.ld) && rows_are_aligned<T>(product.c.ld) &&
         rows_are_aligned<T>(product.n_cols);
}

/// Multiply{}(a, product, nnz, share, stream): C += alpha A B by shares of so many of the nnz non-zeros, for a
/// CsrView with any row pointers. kGroups: a warp has a share for each group of lanes that take vectors.
template <class T, class Multiply, bool kGroups>
class SharePlan final : public RowMajorPlan<T> {
 public:
  SharePlan(const SpmmProblem<T>& problem, Exec& exec, const ParameterValues& values)
      : RowMajorPlan<T>(problem, exec),
        share_(
            chosen_or(values, kShare,
                      std::clamp<Offset>(even_share(problem.a->nnz()) / (2 * kPerWarp) / 32 * 32, 32, 256))),
        matrix_(to_device(*problem.a)) {}

  std::vector<Metric> metrics() const override { return {{"share", static_cast<double>(share_), ""}}; }

 private:
  static constexpr Offset kPerWarp = kGroups ? kVectorLength<T> : 1;

  void multiply(const SpmmArgs<T>& product) override {
    scale_c(product, this->a().rows, this->stream());
    std::visit([&](const auto& a) { Multiply{}(a.view(), product, this->a().nnz(), share_, this->stream()); },
               matrix_);
  }

  Index share_;
  AnyDeviceCsr<T> matrix_;
};

/// Registers an entry, and what launches its kernel: `multiply` as above.
template <bool kGroups, class Multiply>
void add_shares(Registry& registry, EntryInfo info, Multiply /*multiply*/) {
  info.claims.bitwise_reproducible = false;  // atomics add the parts of rows that are cut
  info.parameters = {kShare};
  registry.add(std::move(info),
               plans<SharePlan<float, Multiply, kGroups>, SharePlan<double, Multiply, kGroups>>());
}

}  // namespace stages::spmm
