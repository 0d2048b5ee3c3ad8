#include "common/matrix/types.hpp"

#include "common/matrix/error.hpp"

namespace stages {

template <class T>
Dense<T>::Dense(Index rows_, Index cols_, Layout layout_, Offset ld_)
    : rows(rows_), cols(cols_), layout(layout_) {
  const Offset line = layout == Layout::row_major ? cols : rows;
  ld = ld_ == 0 ? line : ld_;
  if (ld < line)
    fail("leading dimension {} is smaller than a line of {} elements; give at least {}", ld, line, line);
  data.resize(static_cast<std::size_t>(elements(rows, cols, layout, ld)));
}

template struct Dense<float>;
template struct Dense<double>;

}  // namespace stages
