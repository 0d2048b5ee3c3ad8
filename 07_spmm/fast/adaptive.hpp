#pragma once
// Which form `adaptive` takes, for those who time it beside the others.

#include "07_spmm/stage.hpp"

namespace stages::spmm {

enum class Form { balanced, whole_rows, dense_tiles };

/// By the rules of adaptive.cu.
template <class T>
Form form_for(const SpmmProblem<T>& problem);

}  // namespace stages::spmm
