// SpGEMM for a second product with the same structure: only the numbers are computed.
//
// The idea: in a multigrid solver or in Newton's method the same product is computed again and again with new
// values at the same places. How many products and results a row has, which form suits it, and where it begins
// in C are then known from the first time. binned.cu finds these out in the first of its two halves; here
// prepare does that half, from the structures alone, and run() is the second: allocation (of small products
// prepare does that, too) and arithmetic. Columns are written anew, because the forms find them on the way to
// the sums. It does less than entries that must count, so it is marked `structure_reuse` and never ranked.
//
// Input: any CSR matrices. Cost: binned.cu's without analysis and counting.

#include "08_spgemm_multigpu/stage.hpp"

namespace stages {
void add_structure_reuse(Registry& registry, const std::string& name, const spgemm::Settings& settings) {
  registry.add({.name = name,
                .idea = "the second half of binned: rows are counted and binned in prepare",
                .claims = {.structure_reuse = true}},
               spgemm::binned_plans(settings, true));
}

}  // namespace stages
