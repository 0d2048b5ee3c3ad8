// Task: find the fault in the writing of C to its one place, and mend it: C is told complete too early.
// Reference: 08_spgemm_multigpu/multi_blocks
// Ranks: 3
//
// Each rank has made a block of rows of C, and writes it to its place in memory that all ranks of the node see.
// No byte of C passes through a message: so there is none that says when the last block is there. Rank 0 then
// reads all of C. The places are right, and so is what is written to them.
//
// The block of the last rank is late here, by two milliseconds: as it is where that rank has the most work, or
// where another program has its processor. Without that delay the program would be right on most days.
//
// Say before you run it: which rows of C are wrong, and what stands there instead? Which rank must wait for
// which others, and may it do so by reading in a loop whether they are done?

#include <chrono>
#include <thread>

#include "common/mpi/shared_window.hpp"
#include "micro/rank_spgemm.hpp"

namespace stages {
namespace {

template <class T>
class MyWindow final : public micro::RankSpgemm<T> {
  using micro::RankSpgemm<T>::RankSpgemm;

  void collect() override {
    const Csr<T>& mine = this->c_part_;
    const std::vector<Offset> places = mpi::all_bounds(mine.nnz(), this->comm());
    lengths_.reserve(this->shape_.rows);
    columns_.reserve(places.back());
    values_.reserve(places.back());
    if (this->me() + 1 == places.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    write(mine, this->bounds_[this->me()], places[this->me()]);
    // SOLUTION
    lengths_.fence(), columns_.fence(), values_.fence();
    if (this->root()) read(places.back());
    // STUDENT
    if (this->root()) read(places.back());
    // END
  }

  /// A block of C, from its row `row` and its non-zero `entry` on.
  void write(const Csr<T>& block, Index row, Offset entry) {
    for (Index i = 0; i < block.rows; ++i) lengths_.data()[row + i] = block.row_nnz(i);
    std::copy(block.col_idx.begin(), block.col_idx.end(), columns_.data() + entry);
    std::copy(block.values.begin(), block.values.end(), values_.data() + entry);
  }

  /// All of C, and overwrites what was read, so that nobody takes it for the next result.
  void read(Offset results) {
    c_ = Csr<T>(this->shape_.rows, this->shape_.cols);
    for (Index i = 0; i < c_.rows; ++i) {
      const auto at = static_cast<std::size_t>(i);
      c_.row_ptr[at + 1] = c_.row_ptr[at] + std::exchange(lengths_.data()[i], 0);
    }
    c_.col_idx.assign(columns_.data(), columns_.data() + results);
    c_.values.assign(values_.data(), values_.data() + results);
  }

  void forget() override {
    micro::RankSpgemm<T>::forget();
    c_ = Csr<T>();
  }
  Csr<T> result() const override { return c_; }

  mpi::SharedArray<Offset> lengths_{this->ranks_.node()};
  mpi::SharedArray<Index> columns_{this->ranks_.node()};
  mpi::SharedArray<T> values_{this->ranks_.node()};
  Csr<T> c_;  ///< rank 0
};

}  // namespace

void add_task(Registry& registry) {
  registry.add<MyWindow>({.name = "task/not_last", .idea = "each rank writes its block of C to its place"});
}

}  // namespace stages
