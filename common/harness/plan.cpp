#include "common/harness/plan.hpp"

#include <algorithm>
#include <limits>

namespace stages {

template <class T>
void poison(Buffer<T>& values) {
  std::fill(values.begin(), values.end(), std::numeric_limits<T>::quiet_NaN());
}

template void poison(Buffer<float>&);
template void poison(Buffer<double>&);

}  // namespace stages
