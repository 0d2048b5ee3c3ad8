#pragma once
// What the L2 cache delivers, the second of the two limits of a product: B's rows are read at places that
// only the data knows, once for each product.

#include <optional>

namespace stages::spgemm {

/// Bytes a second that L2 delivers of sectors (32 bytes) at random places, each read whole by eight lanes;
/// the best of several, measured at the first call (some milliseconds) and kept. Unknown on the executor.
std::optional<double> gather_bytes_per_second();

}  // namespace stages::spgemm
