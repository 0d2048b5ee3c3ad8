#pragma once
// How a run's results are reported: the table, and the files of --json and --csv.

#include <string>

#include "common/cli/run_options.hpp"
#include "common/harness/results.hpp"

namespace stages {

class Publisher {
 public:
  /// With --append: what the file of --json has already, to which `begun`'s are added. Throws Error where that
  /// cannot be. The arguments outlive this object.
  Publisher(const RunArguments& arguments, const Results& begun);

  /// Files before the table, which may go into a closed pipe; and the table also where a file cannot be
  /// written, which throws Error, as does --metrics with what no entry that ran has.
  void publish(Results results) const;
  /// What was found out before the run was ended by `what`; nothing where nothing was, so that it replaces no
  /// results of an earlier run. Says errors, and throws none.
  void publish_part(Results part, const std::string& what) const;

 private:
  const RunArguments& arguments_;
  Results earlier_;
};

}  // namespace stages
