#pragma once
// What each warp of split_rows and merged_short_rows does, cut on the device.

#include "07_spmm/row_major.hpp"
#include "07_spmm/stage.hpp"
#include "common/matrix/row_order.hpp"

namespace stages::spmm {

/// Non-zeros [begin, end): all of rows `row` .. `row` + `rows` - 1, or (rows = 1) a part of row `row`.
template <class Ptr>
struct Task {
  Ptr begin = 0;
  Ptr end = 0;
  Index row = 0;
  Index rows = 0;
};

// What D3 called K_256_STEP, TRUNCATED_STEP, combined_size and max_element_per_line.
inline constexpr Parameter kColumnsOfLane{"columns", "columns of C that a lane takes",
                                          "1 up to N = 32, else 2, which spares every second reading of A", 1,
                                          2};
inline constexpr Parameter kChunkOfRow{"chunk", "the most non-zeros of a row that one warp takes",
                                       "an even share of all for each warp of a full device, at least 128", 1,
                                       1 << 30};
inline constexpr Parameter kRowsOfWarp{"rows", "the most short rows that share a warp",
                                       "as many of the longest as have 32 non-zeros together", 1, 32};
inline constexpr Parameter kLongestShort{"longest", "the most non-zeros of a row that counts as short",
                                         "the mean row, from 1 to 16; with `rows` chosen, at most 32 / rows",
                                         1, 32};

/// What these parameters are for a matrix: the values chosen, and for the others their rules. If a task were
/// longer than the rule for `chunk` says, all would wait for it at the end; with shorter ones there would only
/// be more atomics.
struct Constants {
  Index chunk = 0, rows = 0, longest = 0, columns = 0;
};
template <class T>
Constants constants_of(const SpmmProblem<T>& problem, const ParameterValues& values);

/// Cuts rows into tasks, in the order of the rows. Row i begins one if it is longer than `longest`, if the row
/// before it is, or if i is a multiple of `rows`: so each row can tell for itself, and all do so at once. Rows
/// longer than `chunk` begin several. With rows = 1 every row is one or several tasks, and empty rows are none.
/// Merged rows have 32 non-zeros at most: rows * longest is no more. `row_ptr` is on the device.
template <class Ptr>
DeviceArray<Task<Ptr>> cut_tasks(const Ptr* row_ptr, Index rows, const Constants& constants,
                                 cudaStream_t stream);

/// A matrix on the device, and its tasks.
template <class T, class Ptr>
struct Tasked {
  DeviceCsr<T, Ptr> a;
  DeviceArray<Index> order;  ///< the row of C for each row of `a`; empty: they are the same
  DeviceArray<Task<Ptr>> tasks;

  Tasked(DeviceCsr<T, Ptr> a_, std::span<const Index> order_, const Constants& constants, cudaStream_t stream)
      : a(std::move(a_)), order(order_), tasks(cut_tasks(a.row_ptr.data(), a.rows, constants, stream)) {}
};

/// What becomes of short rows: each is a task, or neighbours share one, or those that are neighbours once all
/// rows have been sorted by length.
enum class ShortRows { alone, merged, sorted };

/// The three entries: tasks are cut in prepare, and in each run C is set before the tasks add to it.
/// AddTasks{}(matrix, product, per_lane, stream): C += alpha A B, for a Tasked with any row pointers.
template <class T, class AddTasks>
class TaskPlan final : public RowMajorPlan<T> {
 public:
  TaskPlan(const SpmmProblem<T>& problem, Exec& exec, const ParameterValues& values, ShortRows short_rows)
      : RowMajorPlan<T>(problem, exec),
        constants_(constants_of(problem, values)),
        short_rows_(short_rows),
        matrix_(cut(*problem.a)) {}

  static Cost cost(const SpmmProblem<T>& problem, const ParameterValues& values) {
    const double rows = problem.a->rows, nnz = static_cast<double>(problem.a->nnz());
    const double tasks = rows + nnz / constants_of(problem, values).chunk;
    return RowMajorPlan<T>::cost(problem).plus_memory((12 + sizeof(Index)) * rows +
                                                      sizeof(Task<Offset>) * tasks);
  }
  static std::optional<std::string> refuse(const SpmmProblem<T>& problem, Exec& exec,
                                           const ParameterValues& values) {
    const Index rows = chosen(values, kRowsOfWarp.name), longest = chosen(values, kLongestShort.name);
    if (Offset{rows} * longest > Offset{kWarp})
      return fmt::format("{} rows of {} non-zeros may be {}, and a warp merges up to {}", rows, longest,
                         rows * longest, kWarp);
    return RowMajorPlan<T>::refuse(problem, exec);
  }

  std::vector<Metric> metrics() const override {
    const auto tasks = std::visit([](const auto& m) { return m.tasks.size(); }, matrix_);
    std::vector<Metric> out = {{"tasks", static_cast<double>(tasks), ""},
                               {"chunk", static_cast<double>(constants_.chunk), ""},
                               {"columns", static_cast<double>(constants_.columns), ""}};
    if (short_rows_ != ShortRows::alone) {
      out.push_back({"rows", static_cast<double>(constants_.rows), ""});
      out.push_back({"longest", static_cast<double>(constants_.longest), ""});
    }
    return out;
  }

 private:
  using AnyTasked = std::variant<Tasked<T, std::int32_t>, Tasked<T, Offset>>;

  void multiply(const SpmmArgs<T>& product) override {
    scale_c(product, this->a().rows, this->stream());
    std::visit([&](const auto& m) { AddTasks{}(m, product, constants_.columns, this->stream()); }, matrix_);
  }
  AnyTasked cut(const Csr<T>& a) {
    if (short_rows_ == ShortRows::alone) constants_.rows = 1;
    if (short_rows_ != ShortRows::sorted) return cut(to_device(a), {});
    const std::vector<Index> order = length_order(a.row_ptr);
    return cut(to_device(with_rows(a, order)), order);
  }
  AnyTasked cut(AnyDeviceCsr<T> matrix, std::span<const Index> order) {
    return std::visit(
        [&](auto& a) { return AnyTasked(Tasked(std::move(a), order, constants_, this->stream())); }, matrix);
  }

  Constants constants_;
  ShortRows short_rows_;
  AnyTasked matrix_;
};

/// Registers an entry, and what launches its kernel: `add` as above.
template <class AddTasks>
void add_tasked(Registry& registry, EntryInfo info, ShortRows short_rows, AddTasks /*add*/) {
  registry.add(std::move(info), plans<TaskPlan<float, AddTasks>, TaskPlan<double, AddTasks>>(short_rows));
}

}  // namespace stages::spmm
