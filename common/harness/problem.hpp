#pragma once
// What is multiplied. A Problem is immutable and names the structure, the shapes and the options; Operands
// are what changes from product to product (the vector, the dense matrix, new values); a Result is what comes
// back. With several ranks all three live on rank 0: elsewhere the matrices of a Problem are null.

#include <memory>
#include <string>

#include "common/harness/names.hpp"
#include "common/matrix/types.hpp"

namespace stages {

enum class Op { spmv, spmm, spgemm };
inline constexpr std::array<Named<Op>, 3> kOps = {
    {{Op::spmv, "spmv"}, {Op::spmm, "spmm"}, {Op::spgemm, "spgemm"}}};

/// How the products of a problem follow each other.
enum class Mode {
  single,  ///< y = A x, once
  stream,  ///< SpMV: y_j = A x_j for `n_vectors` independent vectors
  chain,   ///< x_1 = A x_0, x_2 = A x_1, ...: each product needs the one before it. A is square.
           ///< SpGEMM: C_1 = A B, C_2 = C_1 B, ...: `rounds` of them. B is square
};
inline constexpr std::array<Named<Mode>, 3> kModes = {
    {{Mode::single, "single"}, {Mode::stream, "stream"}, {Mode::chain, "chain"}}};

/// Where C of an SpGEMM must be when run() returns.
enum class Destination {
  host,         ///< on rank 0's host
  distributed,  ///< left where it was made: on each rank or GPU
  one_gpu,      ///< on the GPU of rank 0
};
inline constexpr std::array<Named<Destination>, 3> kDestinations = {
    {{Destination::host, "host"},
     {Destination::distributed, "distributed"},
     {Destination::one_gpu, "one-gpu"}}};

inline constexpr std::array<Named<Layout>, 2> kLayouts = {
    {{Layout::row_major, "row-major"}, {Layout::col_major, "col-major"}}};

inline std::string to_string(Op op) { return name_of(kOps, op); }
inline std::string to_string(Mode mode) { return name_of(kModes, mode); }
inline std::string to_string(Destination destination) { return name_of(kDestinations, destination); }
inline std::string to_string(Layout layout) { return name_of(kLayouts, layout); }

template <class T>
struct SpmvOperands {
  /// cols(A) x n_vectors, col_major without padding (each vector contiguous); in chain mode one: the first x.
  Dense<T> x;
};

/// y = A x, `n_vectors` times.
template <class T>
struct SpmvProblem {
  static constexpr Op kOp = Op::spmv;
  using Value = T;
  using Operands = SpmvOperands<T>;
  using Result = Dense<T>;  ///< rows(A) x n_vectors, col_major; in chain mode column j is x_(j+1)

  std::string name;
  std::shared_ptr<const Csr<T>> a;
  Mode mode = Mode::single;
  Index n_vectors = 1;
};

template <class T>
struct SpmmOperands {
  Dense<T> b;  ///< cols(A) x n_cols, in b_layout with leading dimension ldb
  /// rows(A) x n_cols, in c_layout with ldc: what C holds before the product. Empty where beta = 0.
  Dense<T> c0;
};

/// C = alpha A B + beta C0 with dense B and C.
template <class T>
struct SpmmProblem {
  static constexpr Op kOp = Op::spmm;
  using Value = T;
  using Operands = SpmmOperands<T>;
  using Result = Dense<T>;  ///< rows(A) x n_cols, in c_layout with ldc

  std::string name;
  std::shared_ptr<const Csr<T>> a;
  Index n_cols = 32;
  T alpha = 1;
  T beta = 0;
  Layout b_layout = Layout::row_major;
  Layout c_layout = Layout::row_major;
  Offset ldb = 0;  ///< 0: no padding
  Offset ldc = 0;
};

template <class T>
struct SpgemmOperands {
  Buffer<T> a_values;  ///< nnz(A) values for the structure of A
  Buffer<T> b_values;  ///< nnz(B) values for the structure of B
};

/// C = A B with sparse A, B and C.
template <class T>
struct SpgemmProblem {
  static constexpr Op kOp = Op::spgemm;
  using Value = T;
  using Operands = SpgemmOperands<T>;
  /// Canonical; its pattern is the symbolic one, zeros that arise by cancellation included.
  using Result = Csr<T>;

  std::string name;
  std::shared_ptr<const Csr<T>> a;
  std::shared_ptr<const Csr<T>> b;
  Destination destination = Destination::host;
  Offset products = 0;          ///< multiplications: the sum of B's row lengths over the non-zeros of A
  Offset max_row_products = 0;  ///< the largest share of them in one row of C
  Offset result_bound = 0;  ///< no less than nnz(C): the sum over rows of min(products of the row, cols(B))
  Index rounds = 1;         ///< more than one: a chain, of which this is the first round (chain.cpp)
};

/// Whether a run starts from what C held before, so that each needs a reset before it.
template <class Problem>
bool starts_from_c0(const Problem& problem) {
  if constexpr (Problem::kOp == Op::spmm) return problem.beta != 0;
  return false;
}

/// "f32" or "f64".
template <class T>
const char* type_name() {
  return std::is_same_v<T, float> ? "f32" : "f64";
}

/// DO(Problem) for each kind of problem and type: for explicit instantiations.
#define STAGES_FOR_EACH_PROBLEM(DO) \
  DO(SpmvProblem<float>)            \
  DO(SpmvProblem<double>)           \
  DO(SpmmProblem<float>)            \
  DO(SpmmProblem<double>)           \
  DO(SpgemmProblem<float>)          \
  DO(SpgemmProblem<double>)

/// Throw Error unless products by such a matrix (`which`: A, or B of an SpGEMM) can follow each other in a
/// chain, and unless A can be multiplied by B.
void require_chain(const std::string& name, Index rows, Index cols, const char* which = "matrix");
void require_product(const std::string& name, Index a_rows, Index a_cols, Index b_rows, Index b_cols);

/// The problem of the next round of a chain, whose A is the C of this one.
template <class T>
SpgemmProblem<T> next_round(const SpgemmProblem<T>& problem, std::shared_ptr<const Csr<T>> c);

/// Builds the three kinds of problem. Throws Error where dimensions do not match or an option makes no sense
/// (chain with a rectangular A, a leading dimension that is too small, no columns).
template <class T>
SpmvProblem<T> make_spmv_problem(std::string name, std::shared_ptr<const Csr<T>> a, Mode mode = Mode::single,
                                 Index n_vectors = 1);
template <class T>
SpmmProblem<T> make_spmm_problem(SpmmProblem<T> wanted);
template <class T>
SpgemmProblem<T> make_spgemm_problem(std::string name, std::shared_ptr<const Csr<T>> a,
                                     std::shared_ptr<const Csr<T>> b,
                                     Destination destination = Destination::host, Index rounds = 1);

/// What a product costs by a stated model; the results hold the measured time against it.
struct Cost {
  double operations = 0;  ///< floating-point operations that the problem needs: 2 x multiplications
  /// Bytes that must cross the memory bus if each operand is read once and each result written once.
  double model_bytes = 0;
  double memory = 0;  ///< bytes that this entry allocates beyond the problem, operands included, at its peak
  /// Units of work of this entry, for --max-work; more than operations where the method wastes.
  double work = 0;

  /// The same of an entry that needs so many bytes more, or that takes so much work instead.
  Cost plus_memory(double bytes) const { return {operations, model_bytes, memory + bytes, work}; }
  Cost with_work(double units) const { return {operations, model_bytes, memory, units}; }
};

/// The operations and model bytes of the problem itself, equal for all entries: of all products of a stream or
/// chain. CSR is 8 (rows + 1) + (4 + sizeof(T)) nnz bytes, and C of an SpGEMM counts as result_bound entries.
template <class T>
Cost problem_cost(const SpmvProblem<T>& problem);
template <class T>
Cost problem_cost(const SpmmProblem<T>& problem);
template <class T>
Cost problem_cost(const SpgemmProblem<T>& problem);

}  // namespace stages
