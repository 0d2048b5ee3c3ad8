// Task: fill in a round of the ring: blocks of B travel while the rank multiplies.
// Step: 02_mpi
// Reference: 02_mpi/scatter_gather
// Ranks: 3
//
// B is cut into as many blocks as there are ranks. In each round a rank multiplies its rows of A by the block
// that it has, passes this block on to the rank before it, and gets the next one from the rank behind it.
// MPI_Isend and MPI_Irecv only begin: they return at once, and the messages travel while you multiply. Until
// MPI_Waitall has returned, nobody may write the block that goes, nor read the one that comes. A block is
// bytes (MPI_BYTE). Keep the requests of both messages in requests_[0] and requests_[1]: multiply_by() looks
// there, and does not multiply while no message is on its way.
//
//   begin to receive `next`   |-------------- on its way ---------------|
//   begin to send `now`       |-------------- on its way --------|      |
//   multiply by `now`          ================================         |
//   wait for both                                                       |   then they change places
//
// Hint: Which of the two blocks may you read while the messages are on their way, and which not?
// Hint: Begin both messages, multiply, wait for both. With the waiting before the multiplying it is right,
//   too, and slow: nothing overlaps.
// Hint: MPI_Irecv(next.data(), bytes, MPI_BYTE, from, kTag, comm, &requests_[0]); the same with MPI_Isend,
//   `now`, `to` and &requests_[1]; multiply_by(now); MPI_Waitall(2, requests_, MPI_STATUSES_IGNORE).

#include <algorithm>
#include <numeric>
#include <vector>

#include "micro/rank_spgemm.hpp"

namespace stages {
namespace {

constexpr int kTag = 7;
constexpr Index kNoRow = -1;

template <class T>
class Mine final : public micro::RankSpgemm<T> {
  struct Entry {
    Index row, column;
    T value;
  };
  /// The non-zeros of some rows of B. All blocks are as long as the longest: the others end with rows kNoRow.
  using Block = std::vector<Entry>;

  using micro::RankSpgemm<T>::RankSpgemm;

  /// `from` and `to` are the ranks that `next` comes from and `now` goes to.
  void round(const Block& now, Block& next, int from, int to, MPI_Comm comm) {
    const auto bytes = static_cast<int>(now.size() * sizeof(Entry));
    // SOLUTION
    MPI_Irecv(next.data(), bytes, MPI_BYTE, from, kTag, comm, &requests_[0]);
    MPI_Isend(now.data(), bytes, MPI_BYTE, to, kTag, comm, &requests_[1]);
    multiply_by(now);
    MPI_Waitall(2, requests_, MPI_STATUSES_IGNORE);
    // STUDENT
    // Your code. Until then no block travels, and each rank multiplies by its own again and again.
    static_cast<void>(bytes), static_cast<void>(from), static_cast<void>(to), static_cast<void>(comm);
    multiply_by(now);
    next = now;
    // END
  }

  void multiply() override {
    const auto ranks = this->ranks(), me = static_cast<int>(this->me());
    Block now = own_, next(own_.size());
    this->begin_rows();
    for (int k = 0; k < ranks; ++k) {
      round(now, next, (me + 1) % ranks, (me + ranks - 1) % ranks, this->comm());
      for (const MPI_Request request : requests_) {
        if (request != MPI_REQUEST_NULL) fail("round {} is over, and nobody has waited for its messages", k);
      }
      std::swap(now, next);
    }
    this->end_rows();
  }

  void place() override {
    mpi::scatter_rows(this->a_, this->bounds_, this->shape_.inner, this->a_part_, this->comm());
    mpi::RowBounds rows;  // of B, as many for each rank
    for (int r = 0; r <= this->ranks(); ++r)
      rows.push_back(static_cast<Index>(Offset{this->shape_.inner} * r / this->ranks()));
    Csr<T> b;
    mpi::scatter_rows(this->b_, rows, this->shape_.cols, b, this->comm());
    pack(b, rows[this->me()]);
  }

  void pack(const Csr<T>& b, Index first) {
    Offset longest = b.nnz();
    mpi::check(MPI_Allreduce(MPI_IN_PLACE, &longest, 1, MPI_INT64_T, MPI_MAX, this->comm()),
               "the largest block");
    own_.clear();
    for (Index k = 0; k < b.rows; ++k) {
      for (Offset q = b.row_ptr[static_cast<std::size_t>(k)]; q < b.row_ptr[static_cast<std::size_t>(k) + 1];
           ++q)
        own_.push_back(
            {first + k, b.col_idx[static_cast<std::size_t>(q)], b.values[static_cast<std::size_t>(q)]});
    }
    own_.resize(static_cast<std::size_t>(longest), {kNoRow, 0, T{0}});
  }

  void multiply_by(const Block& block) {
    for (const MPI_Request request : requests_) {
      if (request == MPI_REQUEST_NULL)
        fail("a block is multiplied while no other is on its way in requests_");
    }
    Csr<T> b(this->shape_.inner, this->shape_.cols);
    for (const Entry& entry : block) {
      if (entry.row == kNoRow) break;
      b.col_idx.push_back(entry.column);
      b.values.push_back(entry.value);
      ++b.row_ptr[static_cast<std::size_t>(entry.row) + 1];
    }
    std::partial_sum(b.row_ptr.begin(), b.row_ptr.end(), b.row_ptr.begin());
    this->add_products(b.view());
  }

  Block own_;
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};  ///< of the messages of a round
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<Mine>({.name = "micro/overlap", .idea = "blocks travel while others are multiplied"});
}

}  // namespace stages
