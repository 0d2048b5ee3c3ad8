#pragma once
// How many processors this process may use.

namespace stages {

/// Logical processors that this process may run on (its affinity); at least 1.
int available_processors();

}  // namespace stages
