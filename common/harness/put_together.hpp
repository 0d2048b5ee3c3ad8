#pragma once
// Results of several runs as those of one: of `stages run --append`, and of a tour's ranks.

#include "common/harness/results.hpp"

namespace stages {

/// Two runs as one: rows of a problem stand together, and the context has both command lines. What the number
/// of ranks changes stands there as "ranks=N: KEY". Throws Error for runs of other sources or machines.
Results put_together(Results first, const Results& second);

/// What a file has that was written by --json. Throws Error where that is no results file.
Results results_in(const std::string& path);

/// Copies what the number of ranks changes from one context to the other, as "ranks=N: KEY".
void copy_facts_of_ranks(const Results& from, Results& to);

}  // namespace stages
