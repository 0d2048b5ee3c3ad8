#pragma once
// Explicit instantiations of a function template that is not overloaded, for all types that there are: of
// values (<float>, <double>), of row pointers (<int32_t>, <Offset>), or of both.

#include "common/matrix/types.hpp"

#define STAGES_INSTANTIATE_ONE(function, ...) template decltype(function<__VA_ARGS__>) function<__VA_ARGS__>;
#define STAGES_FOR_VALUES(function)       \
  STAGES_INSTANTIATE_ONE(function, float) \
  STAGES_INSTANTIATE_ONE(function, double)
#define STAGES_FOR_POINTERS(function)            \
  STAGES_INSTANTIATE_ONE(function, std::int32_t) \
  STAGES_INSTANTIATE_ONE(function, stages::Offset)
#define STAGES_FOR_VALUES_AND_POINTERS(function)          \
  STAGES_INSTANTIATE_ONE(function, float, std::int32_t)   \
  STAGES_INSTANTIATE_ONE(function, float, stages::Offset) \
  STAGES_INSTANTIATE_ONE(function, double, std::int32_t)  \
  STAGES_INSTANTIATE_ONE(function, double, stages::Offset)
