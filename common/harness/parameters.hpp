#pragma once
// Numbers that a user may choose for an entry, as `chunk` of 07_spmm/split_rows; by default its own rule does.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/matrix/types.hpp"

namespace stages {

struct Parameter {
  std::string_view name;     ///< also that of the metric by which a plan tells the value that it took
  std::string_view meaning;  ///< one line
  std::string_view rule;     ///< what the entry takes where none is chosen, in words
  Index least = 1;
  Index most = 1;
};

/// Names of parameters and the values chosen for them, in the order of the entry's parameters.
using ParameterValues = std::vector<std::pair<std::string_view, Index>>;

/// The value chosen; 0: none is, and the entry's rule decides.
Index chosen(const ParameterValues& values, std::string_view name);

/// ":chunk=64,columns=2", which stands behind the name of an entry with these values.
std::string name_of(const ParameterValues& values);

/// Every combination of the values in `text`, "chunk=32,64,128,columns=1,2", in the order of `parameters`; what
/// `text` leaves out is in none of them. `entry`, for messages: whose parameters they are. Throws Error for an
/// unknown name, and for what is no number in the parameter's range.
std::vector<ParameterValues> combinations(std::string_view text, const std::vector<Parameter>& parameters,
                                          std::string_view entry);

}  // namespace stages
