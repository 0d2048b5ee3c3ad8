#pragma once
// Which form `adaptive` takes, for those who time it beside the others.

#include <functional>

#include "07_spmm/fast/granularity.hpp"
#include "07_spmm/stage.hpp"
#include "07_spmm/tiles.hpp"

namespace stages::spmm {

enum class SpmmForm { balanced, whole_rows, dense_tiles };

/// A form, and what decided for it.
struct Decision {
  SpmmForm form;
  std::string why;
};

/// By the rules of adaptive.cu; what they need to know of tiles they ask for only where it matters.
template <class T>
Decision form_for(const SpmmShape& shape, const std::function<TileSample()>& sampled_tiles);

}  // namespace stages::spmm
