// SpMM, long rows cut into chunks, short rows merged: a wrong turn.
//
// The idea: a warp that is given a row of three non-zeros has hardly begun when it is done. So up to `rows`
// neighbouring rows of at most `longest` non-zeros are one task; the warp does them one after the other.
//
// Then: on a Tesla P100 this took 12,138 us for the graph am with 256 columns, 2_split_rows.cu 12,648. A
// script tuned the two numbers for each graph; for this one they were 15 and 3.
//
// Now, a prediction: it wins where rows are short, but less than 4_equal_shares.cu, and loses where rows
// are of medium length. It counts rows where it should count non-zeros: two numbers hold for the whole
// matrix, while in am most rows near 80,000 have 3 non-zeros, and those near 800,000 have 10 to 15. So file
// 4 begins again at 2_split_rows.cu.
//
// Input: any CSR matrix, any number of columns. Cost: as 2_split_rows.cu, with fewer tasks of 24 bytes.
//
// Source: step 3 of a course project on SpMM ("D3"; combined_size, max_element_per_line).

#include "07_spmm/shares.hpp"

namespace stages::spmm {
namespace {

constexpr unsigned kBlock = 128;
constexpr Parameter kLongest{"longest", "the most non-zeros of a row that counts as short",
                             "the mean row, from 1 to 16", 1, 32};
constexpr Parameter kRows{"rows", "the most short rows that one warp takes",
                          "as many of the longest as have 32 non-zeros together", 1, 32};

/// Non-zeros [begin, end): of one row, or all of several that follow each other.
struct Task {
  Offset begin = 0, end = 0;
  Index row = 0, rows = 0;
};

template <class T, class Ptr>
__global__ void add_rows(CsrView<T, Ptr> a, const Task* tasks, Offset n_tasks, SpmmArgs<T> m) {
  const Offset number = (Offset{blockIdx.x} * kBlock + threadIdx.x) / kWarp;
  if (number >= n_tasks) return;
  const Task task = tasks[number];
  for (Index column = threadIdx.x % kWarp; column < m.n_cols; column += kWarp) {
    Offset p = task.begin;
    for (Index row = task.row; row < task.row + task.rows; ++row) {
      T sum = 0;
      for (const Offset end = min(Offset{a.row_ptr[row + 1]}, task.end); p < end; ++p) {
        const T value = a.values[p];
        const T* const from = m.b.row(a.col_idx[p]);
        sum += value * from[column];
      }
      atomicAdd(&m.c.row(row)[column], m.alpha * sum);
    }
  }
}

template <class T>
std::vector<Task> cut_and_merge(const Csr<T>& a, Offset chunk, Index longest, Index rows) {
  std::vector<Task> tasks;
  for (Index row = 0, next = 0; row < a.rows; row = next) {
    while (next < a.rows && next - row < rows && a.row_nnz(next) <= longest) ++next;
    const bool is_long = next == row;
    if (is_long) ++next;
    const Offset begin = a.row_ptr[static_cast<std::size_t>(row)];
    const Offset end = a.row_ptr[static_cast<std::size_t>(next)], most = is_long ? chunk : end - begin;
    for (Offset p = begin; p < end; p += most) tasks.push_back({p, std::min(p + most, end), row, next - row});
  }
  return tasks;
}

template <class T>
class MergedShortRows final : public RowMajorPlan<T> {
 public:
  MergedShortRows(const SpmmProblem<T>& problem, Exec& exec, const ParameterValues& values)
      : RowMajorPlan<T>(problem, exec),
        chunk_(chunk_of(problem, values)),
        longest_(chosen_or(values, kLongest, std::clamp<Offset>(mean_row(*problem.a), 1, 16))),
        rows_(chosen_or(values, kRows, 32 / longest_)),
        matrix_(to_device(*problem.a)),
        tasks_(std::span<const Task>(cut_and_merge(*problem.a, chunk_, longest_, rows_))) {}

  static Cost cost(const SpmmProblem<T>& problem, const ParameterValues& values) {
    const double nnz = static_cast<double>(problem.a->nnz()), chunk = chosen_or(values, kChunk, 128);
    return RowMajorPlan<T>::cost(problem).plus_memory(sizeof(Task) * (problem.a->rows + nnz / chunk));
  }
  std::vector<Metric> metrics() const override {
    return {{"tasks", static_cast<double>(tasks_.size()), ""},
            {"chunk", static_cast<double>(chunk_), ""},
            {"longest", static_cast<double>(longest_), ""},
            {"rows", static_cast<double>(rows_), ""}};
  }

 protected:
  void multiply(const SpmmArgs<T>& product) override {
    scale_c(product, this->a().rows, this->stream());
    const auto n_tasks = std::ssize(tasks_);
    std::visit(
        [&]<class Ptr>(const DeviceCsr<T, Ptr>& a) {
          launch(add_rows<T, Ptr>,
                 {.grid = blocks_for(n_tasks, kBlock / kWarp), .block = kBlock, .stream = this->stream()},
                 a.view(), tasks_.data(), n_tasks, product);
        },
        matrix_);
  }

 private:
  static Offset mean_row(const Csr<T>& a) { return a.rows == 0 ? 0 : a.nnz() / a.rows; }

  Index chunk_, longest_, rows_;
  AnyDeviceCsr<T> matrix_;
  DeviceArray<Task> tasks_;
};

}  // namespace

void add_merged_short_rows(Registry& registry) {
  registry.add<MergedShortRows>(
      {.name = "07_spmm/merged_short_rows",
       .idea = "up to `rows` neighbouring short rows share a warp; long rows in chunks",
       .previous = "split_rows",
       .claims = {.bitwise_reproducible = false},
       .parameters = {kRows, kLongest, kChunk}});
}

}  // namespace stages::spmm
