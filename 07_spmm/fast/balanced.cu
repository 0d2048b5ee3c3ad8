// SpMM in equal shares of non-zeros, strip by strip; no sum is made by atomics. The parts, and where they are:
//
//   shares (partition.hpp)       The non-zeros are cut into shares of about the same number, on the device, in
//                                prepare. A boundary moves back to the beginning of its row if that is near;
//                                else it cuts the row. A group of 4 to 32 lanes walks through a share
//   rows                         The sign bit of a column says that its row ends there. The group then stores
//                                its sums to C, alone, and goes on with the next row of a list of those that
//                                are not empty. Blocks of their own set the empty rows
//   cut rows (cut_rows.cu)       What a group has summed up of a row that goes on in the next share stays in a
//                                slot. A second, small kernel adds these parts to the row, in a fixed order
//   strips (strips.cu)           64 columns at once, and all of the matrix for one strip before the next: the
//                                caches hold a strip of B, not B. A lane takes a vector of 16 bytes of a row
//   packing (packed_b.hpp)       A gather costs the lines of 128 bytes that it touches. Rows of 33 floats lie
//                                in two of them where rows of 32 lie in one. If there are enough non-zeros for
//                                each row of B, B is first copied strip by strip, so that rows begin with
//                                lines; what is left beside whole lines goes into an array whose rows share
//                                sectors. All strips of a width are one launch. Where vectors do not fit rows
//                                of C, the copy deals the columns to the lanes so that neighbouring lanes
//                                store neighbours
//   few columns (few_columns.cu) Up to 16 bytes of a row of B a lane has a non-zero of its own. So it is for a
//                                last piece of a packed B that is no wider, and for so few columns beside whole
//                                warps of a B that is neither aligned nor packed
//   the rest                     Other columns beside whole strips, half a strip at most, are a launch with
//                                narrower groups: of 68 aligned columns, 64 are done by 16 lanes with a vector
//                                each, and four by 4 lanes with two columns each. Where B is neither aligned
//                                nor packed, the last strip takes them along, three columns a lane in place of
//                                two
//
// What follows from sizes:
//
//   strip    8, 16 or 32 columns if there are no more; else 256 bytes (64 floats)
//   share    half of what a group would get if the device took all non-zeros at once, so that there are two
//            waves of groups. At least 32 non-zeros, because beginning a share takes three trips to memory (16
//            if that half, times the strips, is less than 6), and at most 64: larger ones were slower on meshes
//            and bands (notes.md). On 4 lanes at most 32; on a warp 256: for few columns it asks for 128 at
//            once. No row is cut that fits into a share and has at most 64
//   loads    8 of a lane; 4 on 4 lanes, and where the mean row has fewer than 16 non-zeros, since a batch in
//            which rows end is added up one by one
//   packing  where all gathers together then ask for fewer lines of 128 bytes, by seven times those that B has
//            or more. Copying a line moves 256 bytes, at 4.1 TB/s, in the time in which four or five lines come
//            out of L2, at 9.2; but copying is a launch more, and measured it loses for 7 non-zeros a row (by 5
//            to 20 %) and wins for 19 (up to 15 %)
//
// Input: any CSR matrix, any number of columns. Cost: nnz x n_cols multiplications; per strip all of A (4 +
// sizeof(T) bytes a non-zero) and a row of B for each non-zero; C once; a packed B once more, and its copy.
// Memory: 40 bytes a share, 8 a row, a row of C for each share that cuts one, and the copy; in prepare 16 more
// a share and 8 a row.
//
// Sources: equal shares of non-zeros are those of D. Merrill and M. Garland ("Merge-based parallel sparse
// matrix-vector multiplication", SC 2016), and for SpMM of C. Yang, A. Buluc and J. D. Owens ("Design
// principles for sparse matrix multiplication on the GPU", Euro-Par 2018); flags at the ends of rows are
// segmented sums' (G. E. Blelloch, M. A. Heroux and M. Zagha, CMU-CS-93-173).

#include <algorithm>

#include "07_spmm/fast/kernels.hpp"
#include "07_spmm/fast/packed_b.hpp"
#include "common/gpu/facts.hpp"

namespace stages::spmm {
namespace {

constexpr Index kTwoBatches = 16;  ///< non-zeros of a mean row
constexpr Index kUncut = 64;       ///< non-zeros of a row
constexpr double kLeastSaved = 7;  ///< lines for each line of B, with which a copy of B pays

/// The columns of a strip.
template <class T>
Index strip_for(Index n_cols) {
  return n_cols <= 8 ? 8 : n_cols <= 16 ? 16 : n_cols <= 32 ? 32 : 2 * kLineBytes / Index{sizeof(T)};
}

/// Whether a copy of B pays.
template <class T>
bool packing_pays(const SpmmProblem<T>& problem, Index strip) {
  constexpr Index kLine = kLineBytes / sizeof(T);
  if (strip < kLine) return false;
  const Offset ld = ld_of_b(problem);
  const Index at_once = rows_are_aligned<T>(ld) ? strip : Index{kWarp};
  const double saved = lines_as_it_lies(problem.n_cols, ld, at_once, kLine) -
                       lines_packed(pieces_of<T>(problem.n_cols, strip), kLine);
  const double lines_of_b = static_cast<double>(problem.a->cols) * problem.n_cols / kLine;
  return static_cast<double>(problem.a->nnz()) * saved >= kLeastSaved * lines_of_b;
}

/// The non-zeros of a share, in whole eights.
template <class T>
Index share_for(const SpmmProblem<T>& problem, const Granularity& g, const Residency& residency) {
  const DeviceFacts& device = device_facts();
  const auto in_eights = [](double nonzeros, double least, double most) {
    return (static_cast<Index>(std::clamp(nonzeros, least, most)) + 7) / 8 * 8;
  };
  const auto nnz = static_cast<double>(problem.a->nnz());
  const double blocks = std::min<double>(residency.blocks, device.max_threads_per_sm / kSmallBlock);
  const double even = nnz / (2.0 * device.sms * residency.groups * blocks);
  const Index strips = (problem.n_cols + g.strip - 1) / g.strip;
  const unsigned lanes = kSmallBlock / residency.groups;
  return in_eights(even, even * strips < 6 ? 16 : 32, lanes == 4 ? 32 : lanes == kWarp ? 256 : 64);
}

/// By the share chosen, and the rules above.
template <class T>
Granularity granularity_of(const SpmmProblem<T>& problem, const ParameterValues& values) {
  const Csr<T>& a = *problem.a;
  const Index n_cols = problem.n_cols, share = chosen(values, "share");
  const bool few = n_cols <= kVectorLength<T>;
  Granularity g;
  g.strip = few ? kVectorLength<T> : strip_for<T>(n_cols);
  g.packed = packing_pays(problem, g.strip);
  if (g.packed) g.strip = std::max(8, pieces_of<T>(n_cols, g.strip).front().strip);  // 33 columns: 32 and 1
  g.vectors = g.packed || rows_are_aligned<T>(ld_of_b(problem));
  g.loads = a.nnz() < Offset{kTwoBatches} * a.rows ? 4 : 8;
  const Residency residency = few ? kResidencyOfFewColumns : residency_of_strips<T>(g);
  Cut& cut = g.cut;
  cut.share_size = share > 0 ? share : share_for(problem, g, residency);
  cut.slack = std::min(cut.share_size, kUncut) - 1;
  return g;
}

/// The columns of a B that is not packed, from the first to the last, by the launches that take them.
struct Division {
  Index whole = 0;  ///< in strips, the last of which may not be full
  Index rest = 0;   ///< in one strip of for_rest(): half a strip at most, or that and the strip before it
  Index few = 0;    ///< a lane a non-zero
};

/// Without vectors, up to 16 bytes beyond what warps take with a column a lane are few, and the rest takes the
/// strip before it along.
template <class T>
Division divide(Index n_cols, const Granularity& g) {
  const Index beyond = n_cols % Index{kWarp}, strip = g.strip;
  const Index few = !g.vectors && n_cols > Index{kWarp} && beyond <= kVectorLength<T> ? beyond : 0;
  const Index wide = n_cols - few, over = wide % strip;
  Index rest = (wide > strip || few > 0) && over <= strip / 2 ? over : 0;
  if (rest > 0 && wide > strip && !g.vectors && strip >= kVectorStrip) rest += strip;
  return {.whole = wide - rest, .rest = rest, .few = few};
}

/// For columns that are not done in strips as wide as the others, 96 at most: the narrowest strip that has
/// room for all of them.
Granularity for_rest(Index columns, bool vectors) {
  const Index strip = columns <= 8 ? 8 : columns <= 16 ? 16 : columns <= 32 ? 32 : columns <= 64 ? 64 : 96;
  return {.strip = strip, .vectors = vectors};
}

template <class T>
class Balanced final : public RowMajorPlan<T> {
 public:
  Balanced(const SpmmProblem<T>& problem, Exec& exec, const ParameterValues& values)
      : RowMajorPlan<T>(problem, exec),
        g_(granularity_of(problem, values)),
        a_(*problem.a, problem.n_cols, g_.cut, this->stream()),
        arrived_(counters_of_cut_rows(a_.view().partition, problem.n_cols)) {
    arrived_.fill_bytes(0, this->stream());
    if (g_.packed) packed_ = PackedB<T>(problem.a->cols, pieces_of<T>(problem.n_cols, g_.strip));
  }

  static Cost cost(const SpmmProblem<T>& problem, const ParameterValues& values) {
    const Granularity g = granularity_of(problem, values);
    const Offset shares = (problem.a->nnz() + g.cut.share_size - 1) / g.cut.share_size;
    const double slots = static_cast<double>(shares) * sizeof(T) * (problem.n_cols + 3.0);
    const double packed =
        g.packed ? PackedB<T>::bytes(problem.a->cols, pieces_of<T>(problem.n_cols, g.strip)) : 0;
    return RowMajorPlan<T>::cost(problem).plus_memory(Partition::bytes(problem.a->rows, shares) + slots +
                                                      packed);
  }

  std::vector<Metric> metrics() const override {
    const PartitionView& view = a_.view().partition;
    return {{"shares", static_cast<double>(view.shares), ""},
            {"share", static_cast<double>(g_.cut.share_size), ""},
            {"strip", static_cast<double>(g_.strip), ""},
            {"packed_bytes", packed_.bytes(), "B"},
            {"rows_cut", static_cast<double>(view.cut_rows), ""},
            {"rows_empty", static_cast<double>(view.empty_rows), ""}};
  }

 private:
  // All launches of a product but the first may be early: its kernels write different columns of C and of the
  // slots, and each waits for the one before it, so that the last, which adds up the slots, has waited for all.
  // The first waits in the ordinary way for whatever made B and C, and so do all others through it.
  void multiply(const SpmmArgs<T>& product) override {
    const Work<T> work{a_.view(), product};
    g_.packed ? multiply_packed(work) : multiply_as_it_lies(work);
    add_cut_rows(work, arrived_.data(), this->stream());
  }

  void multiply_packed(const Work<T>& work) {
    const bool dealt = !rows_are_aligned<T>(work.m.c.ld);
    packed_.copy(work.m.b, dealt, this->stream());
    for (const Piece& piece : packed_.pieces()) {
      const bool early = piece.first > 0;
      if (piece.strip <= kVectorLength<T>) {
        const RowMajor<const T> b{packed_.data(piece), piece.strip};
        multiply_few_columns(columns_of(work, piece.first, piece.columns, b), true, early, this->stream());
        continue;
      }
      const Columns<T> columns{.first = piece.first,
                               .count = piece.columns,
                               .b = packed_.data(piece),
                               .ld = piece.strip,
                               .apart = packed_.apart(piece),
                               .dealt = dealt,
                               .early = early};
      const bool is_rest = piece.strip != g_.strip;
      multiply_strips(work, columns, is_rest ? for_rest(std::min(piece.columns, piece.strip), true) : g_,
                      this->stream());
    }
  }

  void multiply_as_it_lies(const Work<T>& work) {
    const RowMajor<const T>& b = work.m.b;
    const auto from = [&](Index column) { return b.data == nullptr ? b.data : b.data + column; };  // no rows
    if (g_.strip <= kVectorLength<T>) return multiply_few_columns(work, g_.vectors, false, this->stream());
    const auto [whole, rest, few] = divide<T>(work.m.n_cols, g_);
    multiply_strips(work, {.count = whole, .b = b.data, .ld = b.ld, .apart = g_.strip}, g_, this->stream());
    const Granularity g = for_rest(rest, g_.vectors);
    const Columns<T> beside{
        .first = whole, .count = rest, .b = from(whole), .ld = b.ld, .apart = g.strip, .early = whole > 0};
    multiply_strips(work, beside, g, this->stream());
    if (few > 0) {
      const Index first = whole + rest;
      multiply_few_columns(columns_of(work, first, few, {from(first), b.ld}), false, first > 0,
                           this->stream());
    }
  }

  Granularity g_;
  DeviceShares<T> a_;
  DeviceArray<unsigned> arrived_;  ///< counters for add_cut_rows(); 0 between products
  PackedB<T> packed_;              ///< which every product writes anew
};

}  // namespace

void add_balanced(Registry& registry) {
  registry.add<Balanced>(
      {.name = "07_spmm/balanced",
       .idea = "equal shares of non-zeros on groups of lanes, strips of B; cut rows in a fixed order",
       .previous = "strips",
       .parameters = {{"share", "non-zeros of a share",
                       "two for each group of lanes that the device has room for; 16 to 256", 1, 1 << 20}}});
}

}  // namespace stages::spmm
