// SpMM kernels with planted faults: chunks that add by atomics, and rows or shares whose parts a second kernel
// adds up.

#include <algorithm>

#include "common/gpu/cuda.hpp"
#include "common/gpu/plans.hpp"
#include "tests/cuda_mutants/spmm_mutants.hpp"

namespace stages::cuda_mutants {
namespace {

constexpr unsigned kWarp = 32;
constexpr Offset kChunk = 16;  ///< non-zeros: small, so that small matrices have rows in several chunks

/// Row-major views and scalars of one product.
template <class T>
struct Operands {
  CsrView<T> a;
  DenseView<const T> b;
  DenseView<T> c;
  T alpha = 1;
  T beta = 0;
};

template <class T>
__device__ T dot(const Operands<T>& m, Offset begin, Offset end, Index column) {
  T sum = 0;
  for (Offset p = begin; p < end; ++p) sum += m.a.values[p] * m.b.data[m.a.col_idx[p] * m.b.ld + column];
  return sum;
}

/// What both plans refuse: the faults are those of row-major kernels.
template <class T>
std::optional<std::string> refuse_columns(const SpmmProblem<T>& problem) {
  if (problem.b_layout == Layout::row_major && problem.c_layout == Layout::row_major) return std::nullopt;
  return "is for 2 row-major operands";
}

// ---- chunks and atomics
// -------------------------------------------------------------------------------------------

/// A thread per element, the lanes of a block over 32 columns.
template <class T>
__global__ void set_c(Operands<T> m, Offset columns) {
  const Index row = static_cast<Index>(blockIdx.x);
  for (Offset j = threadIdx.x; j < columns; j += kWarp) {
    T& element = m.c.data[row * m.c.ld + j];
    element = m.beta == T{0} ? T{0} : m.beta * element;
  }
}

/// Block (row, chunk, strip), a lane per column.
template <class T>
__global__ void add_chunk(Operands<T> m, AtomicFault fault) {
  const Index row = static_cast<Index>(blockIdx.x),
              column = static_cast<Index>(blockIdx.z * kWarp + threadIdx.x);
  const Offset begin = m.a.row_ptr[row] + blockIdx.y * kChunk, row_end = m.a.row_ptr[row + 1];
  if (begin >= row_end || column >= m.b.cols) return;
  if (fault == AtomicFault::last_chunk_lost && begin + kChunk > row_end) return;
  const Offset ld = fault == AtomicFault::c_with_ld_of_b ? m.b.ld : m.c.ld;
  const T sum = m.alpha * dot(m, begin, min(row_end, begin + kChunk), column);
  if (fault == AtomicFault::plain_add) {
    m.c.data[row * ld + column] += sum;
  } else {
    atomicAdd(&m.c.data[row * ld + column], sum);
  }
}

template <class T>
Offset longest_row(const Csr<T>& a) {
  Offset longest = 0;
  for (Index i = 0; i < a.rows; ++i) longest = std::max(longest, a.row_nnz(i));
  return longest;
}

template <class T>
class AtomicPlan final : public DeviceSpmmPlan<T> {
 public:
  AtomicPlan(const SpmmProblem<T>& problem, Exec& exec, AtomicFault fault)
      : DeviceSpmmPlan<T>(problem, exec),
        fault_(fault),
        matrix_(*problem.a),
        chunks_(static_cast<unsigned>((longest_row(*problem.a) + kChunk - 1) / kChunk)) {}

  static Cost cost(const SpmmProblem<T>& problem) { return problem_cost(problem); }
  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec&) {
    return refuse_columns(problem);
  }

  void run() override {
    const SpmmProblem<T>& problem = this->problem();
    Operands<T> m{matrix_.view(), this->b(), this->c(), problem.alpha, problem.beta};
    if (fault_ == AtomicFault::b_without_padding) m.b.ld = m.b.cols;
    // Both would leave the array; the fault is about a C that has room for it.
    if (m.b.ld > m.c.ld && fault_ == AtomicFault::c_with_ld_of_b) m.b.ld = m.c.ld;
    if (fault_ == AtomicFault::beta_ignored) m.beta = T{0};
    const auto rows = static_cast<unsigned>(m.c.rows), columns = static_cast<unsigned>(m.c.cols);
    const bool sets = fault_ != AtomicFault::unzeroed && (fault_ != AtomicFault::set_once || runs_ == 0);
    ++runs_;
    if (sets) {
      launch(set_c<T>, {.grid = rows, .block = kWarp, .stream = this->stream()}, m,
             fault_ == AtomicFault::zeroes_padding ? m.c.ld : Offset{m.c.cols});
    }
    const unsigned strips =
        fault_ == AtomicFault::missing_tail_strip ? columns / kWarp : (columns + kWarp - 1) / kWarp;
    launch(add_chunk<T>, {.grid = {rows, chunks_, strips}, .block = kWarp, .stream = this->stream()}, m,
           fault_);
  }

 private:
  AtomicFault fault_;
  DeviceCsr<T, Offset> matrix_;
  unsigned chunks_;
  int runs_ = 0;
};

// ---- parts and a second kernel
// ------------------------------------------------------------------------------------

/// Block (row, chunk, strip): the last chunk of a row stores it, the others leave their sums in slots.
template <class T>
__global__ void store_or_leave(Operands<T> m, T* slots, PartsFault fault) {
  const Index row = static_cast<Index>(blockIdx.x),
              column = static_cast<Index>(blockIdx.z * kWarp + threadIdx.x);
  const Offset begin = m.a.row_ptr[row] + blockIdx.y * kChunk, row_end = m.a.row_ptr[row + 1];
  if (column >= m.c.cols || (begin >= row_end && blockIdx.y > 0)) return;
  const T sum = dot(m, begin, min(row_end, begin + kChunk), column);
  if (begin + kChunk >= row_end) {
    T& element = m.c.data[row * m.c.ld + column];
    element = m.beta == T{0} ? m.alpha * sum : m.alpha * sum + m.beta * element;
  } else {
    const Offset of_row = fault == PartsFault::wrong_slot ? (row + 1) % m.c.rows : row;
    slots[(of_row * gridDim.y + blockIdx.y) * m.c.cols + column] = sum;
  }
}

/// Block (row, strip).
template <class T>
__global__ void add_parts(Operands<T> m, const T* slots, unsigned slots_of_row, PartsFault fault) {
  const Index row = static_cast<Index>(blockIdx.x),
              column = static_cast<Index>(blockIdx.y * kWarp + threadIdx.x);
  const Offset length = m.a.row_ptr[row + 1] - m.a.row_ptr[row];
  const Offset parts = length == 0 ? 0 : (length - 1) / kChunk;  // all chunks but the last
  if (column >= m.c.cols || parts == 0) return;
  T sum = 0;
  for (Offset k = fault == PartsFault::one_part_lost ? 1 : 0; k < parts; ++k) {
    sum += slots[(Offset{row} * slots_of_row + k) * m.c.cols + column];
  }
  m.c.data[row * m.c.ld + column] += fault == PartsFault::alpha_forgotten ? sum : m.alpha * sum;
}

template <class T>
class PartsPlan final : public DeviceSpmmPlan<T> {
 public:
  PartsPlan(const SpmmProblem<T>& problem, Exec& exec, PartsFault fault)
      : DeviceSpmmPlan<T>(problem, exec),
        fault_(fault),
        matrix_(*problem.a),
        chunks_(std::max(1u, static_cast<unsigned>((longest_row(*problem.a) + kChunk - 1) / kChunk))),
        slots_(static_cast<std::size_t>(problem.a->rows) * chunks_ *
               static_cast<std::size_t>(problem.n_cols)) {
    slots_.fill_bytes(0xFF, this->stream());
  }

  static Cost cost(const SpmmProblem<T>& problem) { return problem_cost(problem); }
  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec&) {
    return refuse_columns(problem);
  }

  void run() override {
    const SpmmProblem<T>& problem = this->problem();
    const Operands<T> m{matrix_.view(), this->b(), this->c(), problem.alpha, problem.beta};
    const auto rows = static_cast<unsigned>(m.c.rows);
    const unsigned strips = (static_cast<unsigned>(m.c.cols) + kWarp - 1) / kWarp;
    const auto fix_up = [&] {
      launch(add_parts<T>, {.grid = {rows, strips}, .block = kWarp, .stream = this->stream()}, m,
             slots_.data(), chunks_, fault_);
    };
    if (fault_ == PartsFault::fix_up_first) fix_up();
    launch(store_or_leave<T>, {.grid = {rows, chunks_, strips}, .block = kWarp, .stream = this->stream()}, m,
           slots_.data(), fault_);
    if (fault_ != PartsFault::fix_up_lost && fault_ != PartsFault::fix_up_first) fix_up();
  }

 private:
  PartsFault fault_;
  DeviceCsr<T, Offset> matrix_;
  unsigned chunks_;
  DeviceArray<T> slots_;
};

// ---- equal shares
// ------------------------------------------------------------------------------------------------------------

/// Block (share, strip), a lane per column: a row that ends here is stored, of another the sum goes to the
/// share's slot.
template <class T>
__global__ void multiply_share(Operands<T> m, T* slots) {
  const Index column = static_cast<Index>(blockIdx.y * kWarp + threadIdx.x);
  if (column >= m.c.cols) return;
  const Offset begin = blockIdx.x * kChunk, end = min(begin + kChunk, m.a.row_ptr[m.a.rows]);
  Index row = 0;
  while (m.a.row_ptr[row + 1] <= begin) ++row;
  for (Offset p = begin; p < end; ++row) {
    const Offset row_end = m.a.row_ptr[row + 1], stop = min(end, row_end);
    const T sum = dot(m, p, stop, column);
    if (p < stop && stop == row_end) {
      T& element = m.c.data[row * m.c.ld + column];
      element = m.beta == T{0} ? m.alpha * sum : m.alpha * sum + m.beta * element;
    } else if (p < stop) {
      slots[Offset{blockIdx.x} * m.c.cols + column] = sum;
    }
    p = stop;
  }
}

/// Block (row, strip): adds the slots of all shares that hold a part of the row, but for the last of them.
template <class T>
__global__ void finish_row(Operands<T> m, const T* slots, SpmmShareFault fault) {
  const Index row = static_cast<Index>(blockIdx.x),
              column = static_cast<Index>(blockIdx.y * kWarp + threadIdx.x);
  if (column >= m.c.cols) return;
  const Offset begin = m.a.row_ptr[row], end = m.a.row_ptr[row + 1];
  T& element = m.c.data[row * m.c.ld + column];
  if (begin == end) {
    if (fault != SpmmShareFault::empty_rows_unset) element = m.beta == T{0} ? T{0} : m.beta * element;
    return;
  }
  if (fault == SpmmShareFault::slots_not_added) return;
  T sum = 0;
  for (Offset share = begin / kChunk; share < (end - 1) / kChunk; ++share) {
    sum += slots[share * m.c.cols + column];
  }
  element += m.alpha * sum;
}

template <class T>
class SharePlan final : public DeviceSpmmPlan<T> {
 public:
  SharePlan(const SpmmProblem<T>& problem, Exec& exec, SpmmShareFault fault)
      : DeviceSpmmPlan<T>(problem, exec),
        fault_(fault),
        matrix_(*problem.a),
        shares_(blocks_for(problem.a->nnz(), kChunk)),
        slots_(std::size_t{shares_} * static_cast<std::size_t>(problem.n_cols)) {
    slots_.fill_bytes(0xFF, this->stream());
    if (fault == SpmmShareFault::last_share_dropped && problem.a->nnz() % kChunk != 0) --shares_;
  }

  static Cost cost(const SpmmProblem<T>& problem) { return problem_cost(problem); }
  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec&) {
    return refuse_columns(problem);
  }

  void run() override {
    const SpmmProblem<T>& problem = this->problem();
    const Operands<T> m{matrix_.view(), this->b(), this->c(), problem.alpha, problem.beta};
    const unsigned columns = static_cast<unsigned>(m.c.cols), all = (columns + kWarp - 1) / kWarp;
    const unsigned strips = fault_ == SpmmShareFault::strip_tail_lost ? columns / kWarp : all;
    launch(multiply_share<T>, {.grid = {shares_, strips}, .block = kWarp, .stream = this->stream()}, m,
           slots_.data());
    launch(finish_row<T>,
           {.grid = {static_cast<unsigned>(m.c.rows), all}, .block = kWarp, .stream = this->stream()}, m,
           slots_.data(), fault_);
  }

 private:
  SpmmShareFault fault_;
  DeviceCsr<T, Offset> matrix_;
  unsigned shares_;
  DeviceArray<T> slots_;
};

}  // namespace

Entry atomic_entry(AtomicFault fault) {
  Registry registry;
  registry.add<AtomicPlan>({.name = "mutant/atomics",
                            .idea = "a planted fault",
                            .claims = {.bitwise_reproducible = false},
                            .needs = {.gpu = true}},
                           fault);
  return registry.entries().front();
}

Entry parts_entry(PartsFault fault) {
  Registry registry;
  registry.add<PartsPlan>({.name = "mutant/parts", .idea = "a planted fault", .needs = {.gpu = true}}, fault);
  return registry.entries().front();
}

Entry spmm_share_entry(SpmmShareFault fault) {
  Registry registry;
  registry.add<SharePlan>({.name = "mutant/shares", .idea = "a planted fault", .needs = {.gpu = true}},
                          fault);
  return registry.entries().front();
}

}  // namespace stages::cuda_mutants
