// SpGEMM into a dense C, a thread per element, and C made into CSR on the device.
//
// The idea: C(i, j) is the sparse dot product of A's row i (from CSR) and B's column j (from CSC). Each
// element gets a thread, in blocks of 16 x 16, and C is first written out in full:
//
//   multiply   sums into a dense panel, and a bit for each element: is any product in it? A ballot of the warp
//              gives the bits of 16 neighbours in a row, one 16-bit word. The bit, not the value, says what
//              belongs to C: an element that cancels to zero stays, and nothing reads an element without a bit
//   count      a warp per row adds up the bits: the row lengths, and by a prefix sum the row pointers
//   compact    a warp per row copies the elements that have a bit to their places, in order of columns
//
// threadIdx.x runs along a row of C, so that the stores of neighbouring threads lie side by side. That is not
// always faster: on the course project's pair this multiplication takes several times as long as that of
// 4_dense_output_strided.cu, whose threadIdx.x runs down a column (5_dense_output_by_rows.cu tells why;
// measured.md has both). What this form gains on that pair is the rest: no dense C is copied, and no host
// searches it.
//
// Where m x n elements take more than a panel's bytes, it goes panel by panel of rows, and joins the pieces.
//
// Input: any CSR matrices; B's columns are made in prepare, and its values take their places in load. Cost:
// nnz(A) x columns + nnz(B) x rows steps whether anything meets or not (rows and columns without entries are
// skipped), and m x n elements. That is the lesson: 01_cpu_serial's Gustavson needs one step a product.
//
// Source: the CUDA form of a course project on sparse x sparse products, with its faults mended.

#include <algorithm>
#include <utility>

#include "03_cuda_naive/stage.hpp"
#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "common/gpu/scan.hpp"
#include "common/kernels/sparse_dot_rows.hpp"

namespace stages {
namespace {

constexpr unsigned kTile = 16;
constexpr unsigned kWarp = 32;
constexpr unsigned kBlock = 256;
constexpr unsigned kAllLanes = 0xffffffffu;
using Word = unsigned short;  ///< 16 elements of a row of C, the lowest bit the leftmost

/// Rows first_row .. first_row + rows - 1 of C written out.
template <class T>
struct Panel {
  Index first_row = 0;
  Index rows = 0;
  Index cols = 0;
  Index words = 0;          ///< in a row of `present`: cols / 16 rounded up
  T* values = nullptr;      ///< rows x cols, row-major; only elements with a bit hold anything
  Word* present = nullptr;  ///< rows x words
};

/// One thread per element. All threads of a warp reach the ballot: those beyond the edge bring a 0.
template <class T, class PtrA, class PtrB>
__global__ void __launch_bounds__(kTile* kTile)
    multiply(CsrView<T, PtrA> a, CscView<T, PtrB> b, Panel<T> c, unsigned first_block_row) {
  const Index j = static_cast<Index>(blockIdx.x * kTile + threadIdx.x);
  const Offset r = Offset{first_block_row + blockIdx.y} * kTile + threadIdx.y;
  bool meets = false;
  if (r < c.rows && j < c.cols) {
    const Index i = static_cast<Index>(c.first_row + r);
    PtrA p = a.row_ptr[i];
    PtrB q = b.col_ptr[j];
    const PtrA p_end = a.row_ptr[i + 1];
    const PtrB q_end = b.col_ptr[j + 1];
    T sum = 0;
    while (p < p_end && q < q_end) {
      const Index k = a.col_idx[p], l = b.row_idx[q];
      if (k == l) {
        sum += a.values[p] * b.values[q];
        meets = true;
      }
      p += k <= l;
      q += l <= k;
    }
    if (meets) c.values[r * c.cols + j] = sum;
  }
  // The warp's lanes are two rows of 16: the lower and the upper half of the ballot.
  const unsigned lanes = __ballot_sync(kAllLanes, meets);
  if (threadIdx.x == 0 && r < c.rows) {
    c.present[r * c.words + blockIdx.x] = static_cast<Word>(threadIdx.y % 2 == 0 ? lanes : lanes >> 16);
  }
}

/// counts[first_row + r] = elements in row r of the panel. One warp per row.
template <class T>
__global__ void count(Panel<T> c, std::int32_t* counts) {
  const Offset r = Offset{blockIdx.x} * (kBlock / kWarp) + threadIdx.x / kWarp;
  if (r >= c.rows) return;
  const unsigned lane = threadIdx.x % kWarp;
  int sum = 0;
  for (Offset w = lane; w < c.words; w += kWarp) sum += __popc(c.present[r * c.words + w]);
  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d);
  if (lane == 0) counts[c.first_row + r] = sum;
}

/// Copies row r of the panel to positions row_ptr[r] .. of col_idx and values. One warp per row, a word a
/// lane: how many elements the lanes before it hold says where its own go.
template <class T>
__global__ void compact(Panel<T> c, const Offset* row_ptr, Index* col_idx, T* values) {
  const Offset r = Offset{blockIdx.x} * (kBlock / kWarp) + threadIdx.x / kWarp;
  if (r >= c.rows) return;
  const unsigned lane = threadIdx.x % kWarp;
  Offset at = row_ptr[r];
  for (Offset first = 0; first < c.words; first += kWarp) {
    const Offset w = first + lane;
    unsigned bits = w < c.words ? c.present[r * c.words + w] : 0u;
    const int mine = __popc(bits);
    int up_to_here = mine;
    for (unsigned d = 1; d < kWarp; d *= 2) {
      const int before = __shfl_up_sync(kAllLanes, up_to_here, d);
      if (lane >= d) up_to_here += before;
    }
    for (Offset to = at + up_to_here - mine; bits != 0; bits &= bits - 1, ++to) {
      const Index j = static_cast<Index>(w * kTile + __ffs(static_cast<int>(bits)) - 1);
      col_idx[to] = j;
      values[to] = c.values[r * c.cols + j];
    }
    at += __shfl_sync(kAllLanes, up_to_here, kWarp - 1);
  }
}

/// out[k] = in[order[k]].
template <class T, class Ptr>
__global__ void permute(const T* in, const Ptr* order, T* out, Offset n) {
  const Offset k = Offset{blockIdx.x} * kBlock + threadIdx.x;
  if (k < n) out[k] = in[order[k]];
}

/// The columns of a matrix on the device, and where each of its values stands among the rows'.
template <class T, class Ptr>
struct DeviceColumns {
  Index rows = 0, cols = 0;
  DeviceArray<Ptr> col_ptr;
  DeviceArray<Index> row_idx;
  DeviceArray<Ptr> order;
  DeviceArray<T> values;

  explicit DeviceColumns(const Csr<T>& b) : rows(b.rows), cols(b.cols) {
    const kernels::Columns columns = kernels::columns_of(b);
    const std::vector<Ptr> ptr(columns.col_ptr.begin(), columns.col_ptr.end()),
        place(columns.source.begin(), columns.source.end());
    col_ptr = DeviceArray<Ptr>(std::span<const Ptr>(ptr));
    row_idx = DeviceArray<Index>(std::span<const Index>(columns.row_idx));
    order = DeviceArray<Ptr>(std::span<const Ptr>(place));
    values = DeviceArray<T>(place.size());
  }

  void take_values(const T* in_row_order, cudaStream_t stream) {
    const Offset nnz = static_cast<Offset>(values.size());
    launch(permute<T, Ptr>, {.grid = blocks_for(nnz, kBlock), .block = kBlock, .stream = stream},
           in_row_order, order.data(), values.data(), nnz);
  }
  CscView<T, Ptr> view() const { return {rows, cols, col_ptr.data(), row_idx.data(), values.data()}; }
};

template <class T>
using AnyDeviceColumns = std::variant<DeviceColumns<T, std::int32_t>, DeviceColumns<T, Offset>>;

template <class T>
AnyDeviceColumns<T> columns_to_device(const Csr<T>& b) {
  if (std::in_range<std::int32_t>(b.nnz())) return DeviceColumns<T, std::int32_t>(b);
  return DeviceColumns<T, Offset>(b);
}

Index panel_rows(Index rows, Index cols, std::size_t element_bytes, std::size_t panel_bytes) {
  const std::size_t row_bytes = std::max<std::size_t>(1, static_cast<std::size_t>(cols) * element_bytes);
  return static_cast<Index>(std::clamp<std::size_t>(panel_bytes / row_bytes, 1,
                                                    static_cast<std::size_t>(std::max<Index>(rows, 1))));
}

template <class T>
class DenseOutput final : public DeviceSpgemmPlan<T> {
 public:
  DenseOutput(const SpgemmProblem<T>& problem, Exec& exec, std::size_t panel_bytes)
      : DeviceSpgemmPlan<T>(problem, exec),
        rows_(problem.a->rows),
        cols_(problem.b->cols),
        words_(cols_ / 16 + (cols_ % 16 != 0)),
        panel_rows_(panel_rows(rows_, cols_, sizeof(T), panel_bytes)),
        columns_(columns_to_device(*problem.b)),
        dense_(static_cast<std::size_t>(panel_rows_) * static_cast<std::size_t>(cols_)),
        present_(static_cast<std::size_t>(panel_rows_) * static_cast<std::size_t>(words_)),
        counts_(static_cast<std::size_t>(rows_)),
        panel_ptr_(static_cast<std::size_t>(panel_rows_) + 1),
        total_(1) {
    scan_.reserve(rows_);
  }

  static Cost cost(const SpgemmProblem<T>& problem) {
    Cost cost = problem_cost(problem);
    const Csr<T>&a = *problem.a, &b = *problem.b;
    std::vector<bool> used(static_cast<std::size_t>(b.cols), false);
    for (const Index j : b.col_idx) used[static_cast<std::size_t>(j)] = true;
    const auto columns = static_cast<double>(std::count(used.begin(), used.end(), true));
    double rows = 0;
    for (Index i = 0; i < a.rows; ++i) rows += a.row_nnz(i) > 0;
    const double m = a.rows, n = b.cols, nnz_b = static_cast<double>(b.nnz());
    cost.work = static_cast<double>(a.nnz()) * columns + nnz_b * rows + m * n;
    const double panel = panel_rows(a.rows, b.cols, sizeof(T), kPanelBytes) * n;
    cost.memory += panel * (sizeof(T) + 1.0 / 8) + (8 + sizeof(T)) * nnz_b + 4 * n + 12 * m;
    // More than one panel: the pieces and their sum exist at once.
    if (panel < m * n) cost.memory += (4.0 + sizeof(T)) * static_cast<double>(problem.result_bound);
    return cost;
  }

  void load(const SpgemmOperands<T>& operands) override {
    DeviceSpgemmPlan<T>::load(operands);
    std::visit(
        [&](const auto& b) {
          std::visit([&](auto& columns) { columns.take_values(b.values.data(), this->stream()); }, columns_);
        },
        this->b());
  }

  void run() override {
    pieces_.clear();
    for (Index first = 0; first < rows_; first += std::min(panel_rows_, rows_ - first))
      make_piece(
          {first, std::min(panel_rows_, rows_ - first), cols_, words_, dense_.data(), present_.data()});
    join_pieces();
  }

  std::string note() const override {
    if (panel_rows_ >= rows_) return {};
    return fmt::format("C in {} panels of {} rows", (rows_ + panel_rows_ - 1) / panel_rows_, panel_rows_);
  }

 private:
  struct Piece {
    DeviceArray<Index> col_idx;
    DeviceArray<T> values;
  };

  /// Computes a panel and adds its elements to pieces_, in CSR order.
  void make_piece(const Panel<T>& panel) {
    const cudaStream_t stream = this->stream();
    const unsigned row_blocks = blocks_for(panel.rows, kBlock / kWarp);
    {
      Phase phase(this->exec(), "multiply");
      std::visit([&](const auto& a, const auto& b) { multiply_panel(a.view(), b.view(), panel); }, this->a(),
                 columns_);
    }
    Phase phase(this->exec(), "compact");
    launch(count<T>, {.grid = row_blocks, .block = kBlock, .stream = stream}, panel, counts_.data());
    scan_.run(counts_.data() + panel.first_row, panel_ptr_.data(), panel.rows, stream);
    const auto nnz = static_cast<std::size_t>(read(panel_ptr_.data() + panel.rows));
    Piece piece{DeviceArray<Index>(nnz), DeviceArray<T>(nnz)};
    launch(compact<T>, {.grid = row_blocks, .block = kBlock, .stream = stream}, panel, panel_ptr_.data(),
           piece.col_idx.data(), piece.values.data());
    pieces_.push_back(std::move(piece));
  }

  /// A grid's y ends at 65535 blocks, so tall panels take several launches.
  template <class PtrA, class PtrB>
  void multiply_panel(const CsrView<T, PtrA>& a, const CscView<T, PtrB>& b, const Panel<T>& panel) {
    constexpr unsigned kMostBlocks = 65535;
    const unsigned across = blocks_for(cols_, kTile), down = blocks_for(panel.rows, kTile);
    for (unsigned first = 0; first < down; first += kMostBlocks)
      launch(multiply<T, PtrA, PtrB>,
             {.grid = {across, std::min(kMostBlocks, down - first)},
              .block = {kTile, kTile},
              .stream = this->stream()},
             a, b, panel, first);
  }

  void join_pieces() {
    const cudaStream_t stream = this->stream();
    DeviceCsr<T, Offset> c;
    c.rows = rows_;
    c.cols = cols_;
    c.row_ptr = DeviceArray<Offset>(static_cast<std::size_t>(rows_) + 1);
    scan_.run(counts_.data(), c.row_ptr.data(), rows_, stream);
    if (pieces_.size() == 1) {
      c.col_idx = std::move(pieces_[0].col_idx);
      c.values = std::move(pieces_[0].values);
      this->c_ = std::move(c);
      return;
    }
    std::size_t nnz = 0, at = 0;
    for (const Piece& piece : pieces_) nnz += piece.values.size();
    c.col_idx = DeviceArray<Index>(nnz);
    c.values = DeviceArray<T>(nnz);
    for (const Piece& piece : pieces_) {
      copy(piece.col_idx, c.col_idx.data() + at);
      copy(piece.values, c.values.data() + at);
      at += piece.values.size();
    }
    this->c_ = std::move(c);
  }

  template <class U>
  void copy(const DeviceArray<U>& from, U* to) {
    if (from.empty()) return;
    STAGES_CUDA(cudaMemcpyAsync(to, from.data(), from.bytes(), cudaMemcpyDeviceToDevice, this->stream()));
  }

  Offset read(const Offset* device) {
    STAGES_CUDA(
        cudaMemcpyAsync(total_.data(), device, sizeof(Offset), cudaMemcpyDeviceToHost, this->stream()));
    STAGES_CUDA(cudaStreamSynchronize(this->stream()));
    return total_[0];
  }

  Index rows_, cols_, words_, panel_rows_;
  AnyDeviceColumns<T> columns_;
  DeviceArray<T> dense_;
  DeviceArray<Word> present_;
  DeviceArray<std::int32_t> counts_;
  DeviceArray<Offset> panel_ptr_;
  PinnedArray<Offset> total_;
  PrefixSum<std::int32_t, std::int64_t> scan_;
  std::vector<Piece> pieces_;
};

}  // namespace

void add_dense_output(Registry& registry, const std::string& name, std::size_t panel_bytes) {
  registry.add<DenseOutput>(
      {.name = name,
       .idea = "a thread per element of a dense C, two pointers, then compaction on the device"},
      panel_bytes);
}

}  // namespace stages
