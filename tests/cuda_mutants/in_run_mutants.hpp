#pragma once
// A kernel of SpMV whose run() does not multiply, or not where it is timed.

#include "common/harness/registry.hpp"

namespace stages::cuda_mutants {

enum class InRunFault {
  none,
  copies_from_load,     ///< load() multiplies, and run() copies the result
  copies_by_a_kernel,   ///< the same, and a kernel copies
  replays,              ///< run() multiplies after a load, and later ones leave what is there
  multiplies_in_fetch,  ///< run() notes that it was called
  first_answer,         ///< the first result again, whatever was loaded
  on_the_host,          ///< operands go to the host, and the result comes back
  in_another_stream,    ///< that nobody waits for, and whose time nobody takes
};
Entry in_run_entry(InRunFault fault);

}  // namespace stages::cuda_mutants
