#pragma once
// The battery as the grader gives it: its cases in classes of input, each of which counts the same.

#include <vector>

#include "common/battery/battery.hpp"

namespace stages::judge {

/// The class of what has no products. A file that only writes zeros is right there, and has earned nothing.
constexpr const char* kNothingToMultiply = "nothing to multiply";

/// A case of the battery with values of one type.
struct Task {
  battery::Case c;
  const char* of = "";  ///< the class of input
  bool single = true;   ///< float, else double
};

/// All tasks for an operation, class by class.
std::vector<Task> tasks_for(Op op, battery::Size size);

}  // namespace stages::judge
