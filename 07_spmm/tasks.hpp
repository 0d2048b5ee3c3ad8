#pragma once
// What each warp of split_rows and merged_short_rows does, cut on the device.

#include "07_spmm/row_major.hpp"
#include "07_spmm/stage.hpp"

namespace stages::spmm {

/// Non-zeros [begin, end): all of rows `row` .. `row` + `rows` - 1, or (rows = 1) a part of row `row`.
template <class Ptr>
struct Task {
  Ptr begin = 0;
  Ptr end = 0;
  Index row = 0;
  Index rows = 0;
};

/// The constants with what is 0 filled in:
///   step         what a warp gets if the non-zeros are divided evenly among all warps that the device holds
///                at once, but at least 128. If a task were longer, all would wait for it at the end; with
///                shorter ones there would only be more atomics.
///   short_row    the mean row length, but at least 1 and at most 16
///   merged_rows  as many short rows as the 32 places of one staging hold
///   per_lane     1 up to 32 columns, else 2, which spares every second reading of A
/// Merged rows never have more than 32 non-zeros together: a short_row above 32 is taken as 32, and as many
/// rows are merged as then fit.
template <class T>
Constants default_constants(const SpmmProblem<T>& problem, Constants given);

/// Cuts rows into tasks, in the order of the rows. Row i begins one if it is longer than short_row, if the
/// row before it is, or if i is a multiple of merged_rows: so each row can tell for itself, and all do so at
/// once. Rows longer than `step` begin several. With merged_rows = 1 every row is one or several tasks, and
/// empty rows are none. `row_ptr` is on the device.
template <class Ptr>
DeviceArray<Task<Ptr>> cut_tasks(const Ptr* row_ptr, Index rows, const Constants& constants,
                                 cudaStream_t stream);

/// A matrix on the device, and its tasks.
template <class T, class Ptr>
struct Tasked {
  DeviceCsr<T, Ptr> a;
  DeviceArray<Task<Ptr>> tasks;

  Tasked(DeviceCsr<T, Ptr> a_, const Constants& constants, cudaStream_t stream)
      : a(std::move(a_)), tasks(cut_tasks(a.row_ptr.data(), a.rows, constants, stream)) {}
};

/// The two entries: tasks are cut in prepare, and in each run C is set before the tasks add to it.
/// AddTasks{}(matrix, product, per_lane, stream): C += alpha A B, for a Tasked with any row pointers.
template <class T, class AddTasks>
class TaskPlan final : public RowMajorPlan<T> {
 public:
  /// `constants`: as default_constants() takes them.
  TaskPlan(const SpmmProblem<T>& problem, Exec& exec, const Constants& constants)
      : RowMajorPlan<T>(problem, exec),
        constants_(default_constants(problem, constants)),
        matrix_(cut(to_device(*problem.a))) {}

  static Cost cost(const SpmmProblem<T>& problem) {
    const double rows = problem.a->rows, nnz = static_cast<double>(problem.a->nnz());
    const double tasks = rows + nnz / default_constants(problem, {}).step;
    return RowMajorPlan<T>::cost(problem).plus_memory(12 * rows + sizeof(Task<Offset>) * tasks);
  }

  std::vector<Metric> metrics() const override {
    const auto tasks = std::visit([](const auto& m) { return m.tasks.size(); }, matrix_);
    return {{"tasks", static_cast<double>(tasks), ""},
            {"step", static_cast<double>(constants_.step), ""},
            {"merged_rows", static_cast<double>(constants_.merged_rows), ""},
            {"short_row", static_cast<double>(constants_.short_row), ""},
            {"columns_per_lane", static_cast<double>(constants_.per_lane), ""}};
  }

 private:
  using AnyTasked = std::variant<Tasked<T, std::int32_t>, Tasked<T, Offset>>;

  void multiply(const Product<T>& product) override {
    scale_c(product, this->a().rows, this->stream());
    std::visit([&](const auto& m) { AddTasks{}(m, product, constants_.per_lane, this->stream()); }, matrix_);
  }
  AnyTasked cut(AnyDeviceCsr<T> matrix) {
    return std::visit([&](auto& a) { return AnyTasked(Tasked(std::move(a), constants_, this->stream())); },
                      matrix);
  }

  Constants constants_;
  AnyTasked matrix_;
};

template <class AddTasks>
struct TasksBy {
  template <class T>
  using Plan = TaskPlan<T, AddTasks>;
};

/// Registers an entry, and what launches its kernel: `add` as above.
template <class AddTasks>
void add_tasked(Registry& registry, EntryInfo info, const Constants& constants, AddTasks /*add*/) {
  registry.add<TasksBy<AddTasks>::template Plan>(std::move(info), constants);
}

}  // namespace stages::spmm
