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
// How wide strips are, how large shares, and whether B is packed, is by rules (granularity.hpp). Where rows
// are so long that a share passes over a small part of B, shares are sorted by the band of columns in which
// they begin: what runs on an SM at a time then reads about the same part of B, and L1 holds more of it. Where
// neighbouring rows ask for the same rows of B, short shares do what bands do there.
//
// Input: any CSR matrix, any number of columns. Cost: nnz x n_cols multiplications; per strip all of A (4 +
// sizeof(T) bytes a non-zero) and a row of B for each non-zero; C once; a packed B once more, and its copy.
// Memory: 40 bytes a share, 8 a row, a row of C for each share that cuts one, and the copy; in prepare 16 more
// a share and 8 a row, and to sort by bands 32 a share and 8 a share and band.
//
// Sources: equal shares of non-zeros are those of D. Merrill and M. Garland ("Merge-based parallel sparse
// matrix-vector multiplication", SC 2016), and for SpMM of C. Yang, A. Buluc and J. D. Owens ("Design
// principles for sparse matrix multiplication on the GPU", Euro-Par 2018); flags at the ends of rows are
// segmented sums' (G. E. Blelloch, M. A. Heroux and M. Zagha, CMU-CS-93-173).

#include "07_spmm/fast/balanced.hpp"

#include <algorithm>
#include <limits>

#include "07_spmm/fast/kernels.hpp"

namespace stages::spmm {

template <class T>
double balanced_bytes(const SpmmProblem<T>& problem) {
  const Granularity g = resolve<T>(Granularity{}, shape_of(problem));
  const Offset shares = (problem.a->nnz() + g.share - 1) / g.share;
  const double slots = static_cast<double>(shares) * sizeof(T) * (problem.n_cols + 3.0);
  const double packed = g.packing == Packing::always
                            ? PackedB<T>::bytes(problem.a->cols, pieces_of<T>(problem.n_cols, g.strip))
                            : 0;
  return Partition::bytes(problem.a->rows, shares, g.bands) + slots + packed;
}

template <class T>
template <class Ptr>
BalancedMatrix<T>::BalancedMatrix(DeviceCsr<T, Ptr>& a, const SpmmShape& shape,
                                  const Granularity& granularity, cudaStream_t stream)
    : aligned_(takes_vectors<T>(granularity, shape)),
      granularity_(granularity),
      columns_(a.col_idx.data()),
      values_(a.values.data()) {
  const Cut cut{.share_size = granularity.share, .slack = granularity.slack, .bands = granularity.bands};
  partition_ = Partition(a, cut, stream);
  constexpr Offset kVector = kVectorLength<T>;
  ld_slots_ = narrow<Index>((Offset{shape.n_cols} + kVector - 1) / kVector * kVector, "a row of slots");
  slots_ = DeviceArray<T>(static_cast<std::size_t>(partition_.slots()) * static_cast<std::size_t>(ld_slots_));
  arrived_ = DeviceArray<unsigned>(counters_of_cut_rows(partition_.view(), shape.n_cols));
  arrived_.fill_bytes(0, stream);
  if (granularity.packing == Packing::always)
    packed_ = PackedB<T>(shape.rows_of_b, pieces_of<T>(shape.n_cols, granularity.strip));
}

// All launches of a product but the first may be early: its kernels write different columns of C and of the
// slots, and each waits for the one before it, so that the last, which adds up the slots, has waited for all.
// The first waits in the ordinary way for whatever made B and C, and so do all others through it.
template <class T>
void BalancedMatrix<T>::multiply(const SpmmArgs<T>& product, cudaStream_t stream) {
  const Work<T> work{{partition_.view(), columns_, values_, slots_.data(), ld_slots_}, product};
  granularity_.packing == Packing::always ? multiply_packed(work, stream) : multiply_as_it_lies(work, stream);
  add_cut_rows(work, arrived_.data(), stream);
}

template <class T>
void BalancedMatrix<T>::multiply_packed(const Work<T>& work, cudaStream_t stream) {
  const bool dealt = !rows_are_aligned<T>(work.m.c.ld);
  packed_.copy(work.m.b, dealt, stream);
  for (const Piece& piece : packed_.pieces()) {
    const bool early = piece.first > 0;
    if (piece.strip <= kVectorLength<T>) {
      const RowMajor<const T> b{packed_.data(piece), piece.strip};
      multiply_few_columns(columns_of(work, piece.first, piece.columns, b), true, early, stream);
      continue;
    }
    Granularity g = granularity_;
    if (piece.strip != g.strip) g = for_rest<T>(std::min(piece.columns, piece.strip), true);
    const Columns<T> columns{.first = piece.first,
                             .count = piece.columns,
                             .b = packed_.data(piece),
                             .ld = piece.strip,
                             .apart = packed_.apart(piece),
                             .dealt = dealt,
                             .early = early};
    multiply_strips(work, columns, g, true, stream);
  }
}

template <class T>
void BalancedMatrix<T>::multiply_as_it_lies(const Work<T>& work, cudaStream_t stream) {
  const RowMajor<const T>& b = work.m.b;
  const Index n_cols = work.m.n_cols, strip = granularity_.strip;
  if (granularity_.lanes == 1) return multiply_few_columns(work, aligned_, false, stream);
  const auto [whole, rest, few] = divide<T>(n_cols, strip, aligned_);
  const Columns<T> in_strips{.count = whole, .b = b.data, .ld = b.ld, .apart = strip};
  multiply_strips(work, in_strips, granularity_, aligned_, stream);
  const Granularity g = for_rest<T>(rest, aligned_);
  const Columns<T> beside{
      .first = whole, .count = rest, .b = b.data + whole, .ld = b.ld, .apart = g.strip, .early = whole > 0};
  multiply_strips(work, beside, g, aligned_, stream);
  if (few > 0) {
    const Index first = whole + rest;
    multiply_few_columns(columns_of(work, first, few, {b.data + first, b.ld}), false, first > 0, stream);
  }
}

namespace {

template <class T>
class Balanced final : public RowMajorPlan<T> {
 public:
  Balanced(const SpmmProblem<T>& problem, Exec& exec, Granularity granularity)
      : RowMajorPlan<T>(problem, exec), a_(to_device(*problem.a)) {
    const SpmmShape shape = shape_of(problem);
    std::visit(
        [&](auto& a) {
          matrix_ = BalancedMatrix<T>(a, shape, resolve<T>(granularity, shape), this->stream());
          a.row_ptr = {};
        },
        a_);
  }

  static Cost cost(const SpmmProblem<T>& problem) {
    return RowMajorPlan<T>::cost(problem).plus_memory(balanced_bytes(problem));
  }

  std::vector<Metric> metrics() const override {
    const PartitionView view = matrix_.partition().view();
    const Granularity& g = matrix_.granularity();
    return {
        {"shares", static_cast<double>(view.shares), ""},
        {"share_nonzeros", static_cast<double>(g.share), ""},
        {"strip_columns", static_cast<double>(g.strip), ""},
        {"bands", static_cast<double>(g.bands), ""},
        {"block_threads", static_cast<double>(g.block), ""},
        {"packed_bytes", matrix_.packed_bytes(), "B"},
        {"rows_cut", static_cast<double>(view.cut_rows), ""},
        {"rows_empty", static_cast<double>(view.empty_rows), ""},
        {"partition_seconds",
         matrix_.partition().seconds().value_or(std::numeric_limits<double>::quiet_NaN()), "s"},
        {"strict_floor_bytes", strict_floor_bytes(), "B"},
        {"gathered_bytes", sizeof(T) * static_cast<double>(this->a().nnz()) * this->problem().n_cols, "B"}};
  }

 protected:
  void multiply(const SpmmArgs<T>& product) override { matrix_.multiply(product, this->stream()); }

 private:
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

  AnyDeviceCsr<T> a_;  ///< without its row pointers
  BalancedMatrix<T> matrix_;
};

}  // namespace

void add_balanced(Registry& registry, const std::string& name, Granularity granularity) {
  registry.add<Balanced>(
      {.name = name,
       .idea = "equal shares of non-zeros on groups of lanes, strips of B; cut rows in a fixed order",
       .previous = "strips"},
      granularity);
}

#define STAGES_INSTANTIATE(T)                                                                             \
  template double balanced_bytes(const SpmmProblem<T>&);                                                  \
  template class BalancedMatrix<T>;                                                                       \
  template BalancedMatrix<T>::BalancedMatrix(DeviceCsr<T, std::int32_t>&, const SpmmShape&,               \
                                             const Granularity&, cudaStream_t);                           \
  template BalancedMatrix<T>::BalancedMatrix(DeviceCsr<T, Offset>&, const SpmmShape&, const Granularity&, \
                                             cudaStream_t);
STAGES_INSTANTIATE(float)
STAGES_INSTANTIATE(double)

}  // namespace stages::spmm
