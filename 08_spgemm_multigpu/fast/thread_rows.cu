// Rows of C with at most 32 products: a thread a row, sorted in its registers.
//
// The idea: sorted_rows.cu needs some 200 instructions of a warp to sort one row of 32 products, because each
// comparison between two lanes is a shuffle. One thread with all keys in its own registers sorts them with a
// network of 191 comparators, each two instructions, and a warp does that for 32 rows at once: a dozen
// instructions a row. What remains is reading and writing:
//
//   expand   the thread walks along its rows of B, four products at a time, and looks up the next row of B
//            while it reads one. Each lane reads on where it was, so what a line brings is used from the
//            cache. Columns and products go to shared memory, [number of product][thread]: no bank conflicts
//   sort     keys are (column, number of product) in one word
//   add up   equal neighbours, in the order of A's non-zeros: the same sum in every run of the program
//   write    a thread that wrote its own row would touch 32 distant places of C with each store; half a warp
//            writes a row instead, from shared memory. The leading dimension is odd, so that neither way of
//            reading it meets a bank twice
//
// Counting does the same with the columns alone and counts the runs.
//
// Input: rows with at most that many products. Cost: for 32 products about 30 instructions each of the thread,
// 382 for the sort; B's rows once when counting and once when multiplying.
//
// Source: the network is K. E. Batcher's odd-even merge sort ("Sorting networks and their applications",
// 1968).

#include <array>
#include <utility>

#include "08_spgemm_multigpu/fast/forms.hpp"
#include "common/gpu/launch.hpp"
#include "common/matrix/instantiate.hpp"

namespace stages::spgemm {
namespace {

constexpr unsigned kBlock = 128;
constexpr unsigned kStride = kBlock + 1;
constexpr unsigned kTeam = 16;  ///< lanes that write a row
constexpr unsigned kAhead = 4;  ///< products that a thread asks for at once

struct Comparator {
  unsigned low = 0;
  unsigned high = 0;
};

/// Calls visit(low, high) for the comparators of a network of n (a power of two) keys, in order.
template <class Visit>
constexpr void for_each_comparator(unsigned n, Visit visit) {
  for (unsigned half = 1; half < n; half *= 2) {
    for (unsigned apart = half; apart >= 1; apart /= 2) {
      for (unsigned first = apart % half; first + apart < n; first += 2 * apart) {
        for (unsigned i = first; i < first + apart && i + apart < n; ++i) {
          if (i / (2 * half) == (i + apart) / (2 * half)) visit(i, i + apart);
        }
      }
    }
  }
}

constexpr std::size_t comparators_of(unsigned n) {
  std::size_t count = 0;
  for_each_comparator(n, [&](unsigned, unsigned) { ++count; });
  return count;
}

template <unsigned kMost>
constexpr auto make_network() {
  std::array<Comparator, comparators_of(kMost)> network;
  std::size_t k = 0;
  for_each_comparator(kMost, [&](unsigned low, unsigned high) { network[k++] = {low, high}; });
  return network;
}

template <unsigned kMost>
inline constexpr auto kNetwork = make_network<kMost>();

template <unsigned kLow, unsigned kHigh, class Key>
__device__ void exchange(Key* key) {
  const Key low = min(key[kLow], key[kHigh]), high = max(key[kLow], key[kHigh]);
  key[kLow] = low;
  key[kHigh] = high;
}

template <unsigned kMost, class Key, std::size_t... kNumber>
__device__ void sort_keys(Key (&key)[kMost], std::index_sequence<kNumber...>) {
  (exchange<kNetwork<kMost>[kNumber].low, kNetwork<kMost>[kNumber].high>(key), ...);
}

template <unsigned kMost, class Key>
__device__ void sort_keys(Key (&key)[kMost]) {
  sort_keys(key, std::make_index_sequence<kNetwork<kMost>.size()>());
}

/// The row of this thread; -1: none.
__device__ inline Index row_of_thread(RowList list) {
  const unsigned number = blockIdx.x * kBlock + threadIdx.x;
  return list.row(number);
}

/// The products of a row, one after the other: which non-zero of A, and where in B. The row of B that comes
/// after the one at hand is looked up while that one is read, and the non-zero of A after that as well. A
/// thread without a row (row < 0) has no products.
template <class Ptr>
class Walk {
 public:
  __device__ Walk(const Structures<Ptr>& f, Index row) : f_(f) {
    if (row < 0) return;
    next_entry_ = f.a.row_ptr[row];
    end_ = f.a.row_ptr[row + 1];
    if (next_entry_ < end_) k_ = f.a.col_idx[next_entry_];
    look_up();
  }

  /// False at the end.
  __device__ bool next(Ptr& in_a, Ptr& in_b) {
    while (at_ == to_ && next_entry_ < end_) {
      at_ = next_at_;
      to_ = next_to_;
      ++next_entry_;
      look_up();
    }
    if (at_ == to_) return false;
    in_a = next_entry_ - 1;
    in_b = at_++;
    return true;
  }

 private:
  __device__ void look_up() {
    if (next_entry_ >= end_) return;
    next_at_ = f_.b.row_ptr[k_];
    next_to_ = f_.b.row_ptr[k_ + 1];
    if (next_entry_ + 1 < end_) k_ = f_.a.col_idx[next_entry_ + 1];
  }

  const Structures<Ptr>& f_;
  Ptr next_entry_ = 0, end_ = 0;   ///< of A's row; the one before is at hand
  Ptr at_ = 0, to_ = 0;            ///< what is left of the row of B at hand
  Ptr next_at_ = 0, next_to_ = 0;  ///< the row of B of next_entry_
  Index k_ = 0;                    ///< its number, then that of the one after
};

/// Calls read(non-zero of A, position in B) for each product of a row, and write(number of the product, what
/// read returned) for it later; returns how many there are. Several are read before the first of them is
/// written, which is when it must have come. One loop over products, not one over non-zeros and one inside:
/// lanes whose rows of B have other lengths do not wait for each other.
template <class Ptr, class Read, class Write>
__device__ unsigned expand(const Structures<Ptr>& f, Index row, Read read, Write write) {
  Walk<Ptr> walk(f, row);
  for (unsigned number = 0;; number += kAhead) {
    decltype(read(Ptr{}, Ptr{})) products[kAhead];
    unsigned count = 0;
#pragma unroll
    for (unsigned u = 0; u < kAhead; ++u) {
      Ptr in_a = 0, in_b = 0;
      if (!walk.next(in_a, in_b)) break;
      products[u] = read(in_a, in_b);
      ++count;
    }
#pragma unroll
    for (unsigned u = 0; u < kAhead; ++u) {
      if (u < count) write(number + u, products[u]);
    }
    if (count < kAhead) return number + count;
  }
}

template <unsigned kMost, class Ptr>
__global__ void __launch_bounds__(kBlock) count_rows(Structures<Ptr> f, RowList list, Index* counts) {
  __shared__ Index columns[kMost][kStride];
  const unsigned me = threadIdx.x;
  const Index row = row_of_thread(list);
  const unsigned products = expand(
      f, row, [&](Ptr, Ptr at) { return f.b.col_idx[at]; },
      [&](unsigned q, Index column) { columns[q][me] = column; });
  unsigned key[kMost];
#pragma unroll
  for (unsigned q = 0; q < kMost; ++q) key[q] = q < products ? static_cast<unsigned>(columns[q][me]) : ~0u;
  sort_keys(key);
  Index heads = products > 0;
#pragma unroll
  for (unsigned q = 1; q < kMost; ++q) heads += key[q] != ~0u && key[q] != key[q - 1];
  if (row >= 0) counts[row] = heads;
}

template <class T>
struct Term {
  Index column = 0;
  T factor = 0, value = 0;
};

/// What the threads of a block share: products, then results, of thread t in [.][t].
template <class T, unsigned kMost>
struct Workspace {
  Index columns[kMost][kStride];
  T values[kMost][kStride];
};

/// Adds up products of equal columns; returns the number of results.
template <class Key, class T, unsigned kMost>
__device__ Index add_up(Workspace<T, kMost>& w, unsigned products) {
  const unsigned me = threadIdx.x;
  Key key[kMost];
#pragma unroll
  for (unsigned q = 0; q < kMost; ++q) {
    key[q] = q < products ? static_cast<Key>(w.columns[q][me]) * kMost + q : ~Key{0};
  }
  sort_keys(key);
  T value[kMost];  // all read before the first result takes a product's place
#pragma unroll
  for (unsigned q = 0; q < kMost; ++q) value[q] = q < products ? w.values[key[q] % kMost][me] : T{0};
  Index results = 0;
  T sum = 0;
#pragma unroll
  for (unsigned q = 0; q < kMost; ++q) {
    if (q < products) {
      const bool head = q == 0 || key[q] / kMost != key[q == 0 ? 0 : q - 1] / kMost;
      sum = head ? value[q] : sum + value[q];
      results += head;
      w.columns[results - 1][me] = static_cast<Index>(key[q] / kMost);
      w.values[results - 1][me] = sum;
    }
  }
  return results;
}

/// A thread a row. Key: 32 bits where column and number of product fit, otherwise 64.
template <unsigned kMost, class Key, class T, class Ptr>
__global__ void __launch_bounds__(kBlock) multiply_rows(Factors<T, Ptr> f, RowList list, Output<T> c) {
  auto& w = *dynamic_shared<Workspace<T, kMost>>();
  const unsigned me = threadIdx.x;
  const Index row = row_of_thread(list);
  const unsigned products = expand(
      f.structures(), row,
      [&](Ptr e, Ptr at) {
        return Term<T>{f.b.col_idx[at], f.a.values[e], f.b.values[at]};
      },
      [&](unsigned q, const Term<T>& product) {
        w.columns[q][me] = product.column;
        w.values[q][me] = product.factor * product.value;
      });
  const Index results = add_up<Key>(w, products);
  const Offset out = row < 0 ? 0 : c.row_ptr[row] - c.base;
  __syncwarp();
  const unsigned first = me / kWarp * kWarp, lane = me % kWarp;
  for (unsigned r = lane / kTeam; r < kWarp; r += kWarp / kTeam) {
    const Index n = __shfl_sync(kAllLanes, results, static_cast<int>(r));
    const Offset to = __shfl_sync(kAllLanes, out, static_cast<int>(r));
    for (Index i = static_cast<Index>(lane % kTeam); i < n; i += Index{kTeam}) {
      c.col_idx[to + i] = w.columns[i][first + r];
      c.values[to + i] = w.values[i][first + r];
    }
  }
}

template <unsigned kMost, class T, class Ptr>
void multiply_in_shape(const Factors<T, Ptr>& f, RowList list, const Output<T>& c, cudaStream_t stream) {
  static_assert(sizeof(Workspace<T, kMost>) <= kLeastSharedBytes);
  const bool fits = static_cast<std::uint64_t>(f.b.cols) * kMost < ~std::uint32_t{0};
  launch_with_memory(
      fits ? multiply_rows<kMost, unsigned, T, Ptr> : multiply_rows<kMost, unsigned long long, T, Ptr>,
      {.grid = blocks_for(list.count, kBlock),
       .block = kBlock,
       .shared_bytes = sizeof(Workspace<T, kMost>),
       .stream = stream},
      f, list, c);
}

}  // namespace

template <class Ptr>
void count_by_threads(const Structures<Ptr>& f, RowList list, Form form, Index* counts, cudaStream_t stream) {
  launch(form == Form::threads_16 ? count_rows<16, Ptr> : count_rows<32, Ptr>,
         {.grid = blocks_for(list.count, kBlock), .block = kBlock, .stream = stream}, f, list, counts);
}

template <class T, class Ptr>
void multiply_by_threads(const Factors<T, Ptr>& f, RowList list, Form form, const Output<T>& c,
                         cudaStream_t stream) {
  if (form == Form::threads_16) return multiply_in_shape<16>(f, list, c, stream);
  multiply_in_shape<32>(f, list, c, stream);
}

STAGES_FOR_POINTERS(count_by_threads)
STAGES_FOR_VALUES_AND_POINTERS(multiply_by_threads)

}  // namespace stages::spgemm
