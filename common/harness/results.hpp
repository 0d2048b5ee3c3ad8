#pragma once
// What a run found out, as data, and its forms: JSON (everything), CSV (one line a row), a table for people.

#include <array>
#include <cmath>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/check.hpp"
#include "common/harness/clock.hpp"
#include "common/harness/exec.hpp"
#include "common/harness/plan.hpp"

namespace stages {

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
inline constexpr int kSchemaVersion = 1;

/// A problem as the results name it.
struct ProblemFacts {
  std::string matrix;        ///< file or spec of A, as the user gave it
  std::string options = {};  ///< "N = 32", "chain of 1000"; empty: nothing special
  Op op = Op::spmv;
  std::string type;  ///< "f32" or "f64"
  Index rows = 0;    ///< of A
  Index cols = 0;
  Offset nnz = 0;
  Index result_cols = 0;       ///< columns of the result
  Index n_vectors = 1;         ///< SpMV: results of the stream or chain (`products` in files)
  Offset multiplications = 0;  ///< in one run
  Index round = 0;             ///< SpGEMM: of a chain; 0: it is none
};

enum class Status {
  good,     ///< checked, and timed unless `timed` says why not
  wrong,    ///< the checker rejected a result
  failed,   ///< the plan threw
  skipped,  ///< a limit or a need rules it out: `reason` has the number
};
inline constexpr std::array<Named<Status>, 4> kStatuses = {{{Status::good, "good"},
                                                            {Status::wrong, "wrong"},
                                                            {Status::failed, "failed"},
                                                            {Status::skipped, "skipped"}}};
inline std::string to_string(Status status) { return name_of(kStatuses, status); }

/// One entry on one problem. Times are seconds; `run` and `phases` are per product.
struct ResultRow {
  ProblemFacts problem;
  std::string entry;
  std::string idea;
  std::string previous;  ///< the entry that it changes; empty: none
  bool vendor = false;   ///< a vendor library's
  bool structure_reuse = false;
  Status status = Status::good;
  std::string reason = {};  ///< why wrong, failed or skipped
  std::string note = {};    ///< what the plan said about how it ran
  bool checked = false;
  CheckReport check = {};
  bool simulated = false;  ///< ran on the executor: checked, never timed
  bool mpi = false;        ///< ran on the ranks of MPI, be it one
  int ranks = 1;

  double prepare = 0;        ///< the median of several prepares, where one does not take long
  double prepare_noise = 0;  ///< half of what the others lie apart, as a share of it; infinite: there was one
  double load = 0;
  double fetch = 0;
  Summary run = {};
  Summary busy = {};  ///< for how long of that the device did something; no samples: that is not known
  std::vector<PhaseTime> phases = {};
  Cost cost = {};               ///< for one run; model_bytes with the true nnz(C)
  Offset result_nnz = 0;        ///< SpGEMM: nnz(C)
  double gflops = 0;            ///< operations of the problem over the median
  double bandwidth_share = 0;   ///< model bytes over the median, as a share of the measured copy bandwidth
  double copy_bandwidth = 0;    ///< that one, bytes a second
  double speedup_previous = 0;  ///< over `previous`; 0: that was not timed
  double speedup_vendor = 0;    ///< over the fastest vendor library; 0: there is none
  double speedup_serial = 0;  ///< of a row on ranks, over the fastest entry of one process; 0: there is none
  /// Products after which prepare is paid for, against the entry cheapest for one; 0: from the first on;
  /// infinite: never. With the one or two digits that are known of it, or not known at all.
  double break_even = 0;
  bool break_even_known = true;
  std::vector<Metric> metrics = {};

  bool timed() const { return !run.samples.empty(); }
  /// Its median is not known to 5 %.
  bool is_unsteady() const { return std::isfinite(run.noise) && run.noise > 0.05; }
  /// Timed, and all of the multiplication: what reuses the structure of C is no equal of the others.
  bool ranked() const { return timed() && !structure_reuse; }
  /// More than a fifth of its time the device had nothing to do.
  bool is_host_bound() const { return !busy.samples.empty() && busy.median < 0.8 * run.median; }
  bool is_bad() const { return status == Status::wrong || status == Status::failed; }
  void add_note(const std::string& text) { note += (note.empty() ? "" : "; ") + text; }
};

/// A step in the table of steps (steps.hpp): its plainest and its best entry on one matrix. An entry's name
/// is without its step; it is empty where the step has none to show.
struct StepLine {
  struct Time {
    std::string entry;
    std::string outcome;   ///< "1.23 ms", "checked", "WRONG", "skipped"
    double seconds = 0;    ///< 0: not timed
    std::string recorded;  ///< the record's time in words; empty: there is none
    double recorded_seconds = 0;
  };
  std::string step;
  std::string matrix;   ///< A
  std::string options;  ///< the operation, and what else the problem needs
  Time plainest, best;
  std::string record;   ///< machine and matrix of the recorded times
  std::string missing;  ///< why there is nothing to show
};

struct Results {
  std::vector<std::pair<std::string, std::string>> context;  ///< what ran where: command line, build, machine
  std::vector<ResultRow> rows;
  std::vector<StepLine> steps;  ///< of a tour through all steps; else empty

  int count(Status status) const;
};

/// Fills speedup_previous, speedup_vendor and break_even of rows of one problem. What the noise leaves of a
/// speed-up is 1.
void relate_rows(std::span<ResultRow> rows);
/// Of each problem.
void relate_all(Results& results);
/// The ranked row with the least median, and those that do not differ from it.
std::vector<const ResultRow*> fastest(std::span<const ResultRow> rows);

/// Fills speedup_serial of all rows that ran on ranks, where the same problem was also run on one process: by
/// entries of the row's own step (one GPU against several), or, where that has none, by step 1.
void relate_to_serial(Results& results);

/// Whether two rows are about the same multiplication.
bool same_problem(const ProblemFacts& a, const ProblemFacts& b);

nlohmann::json to_json(const Results& results);
/// The results that to_json has written, but for what a Cost says of limits (Cost::work). Throws a
/// nlohmann::json::exception where something is missing, and Error for an operation or status that is none.
Results results_from_json(const nlohmann::json& text);
/// What a file has that was written by --json. Throws Error where that is no results file.
Results results_in(const std::string& path);
/// An object as the text of a file that people look into and version control compares: a line for each field,
/// and for each element of a field that is a list. Numbers with a fraction have five significant digits.
std::string json_lines(const nlohmann::json& object);

/// Two runs as one: rows of a problem stand together, and the context has both command lines. What both have
/// timed is one row, of the processes of both. What the number of ranks changes stands there as "ranks=N: KEY".
/// Throws Error for runs of other sources or machines.
Results put_together(Results first, const Results& second);
/// Copies what the number of ranks changes from one context to the other, as "ranks=N: KEY".
void copy_facts_of_ranks(const Results& from, Results& to);

std::string to_csv(const Results& results);
/// One table a problem, widths fitted; `colour` adds ANSI colours. Skipped rows fold into a line a table,
/// unless there is only one, or `all` is set. The entries' own `metrics` of these names are columns.
std::string to_table(const Results& results, bool colour, bool all = false,
                     const std::vector<std::string>& metrics = {});
/// The rows that ran on ranks: speed-up over serial, clocks, bytes, balance. Empty where there are none.
std::string to_scaling_table(const Results& results, bool colour);

/// A share of a copy's bandwidth above this is of data in a cache, or of a copy that something disturbed: it
/// is measured once more, and the larger counts for all rows held against it.
inline constexpr double kInCache = 1.2;
void measure_copy_again(Exec& exec, Results& results);

/// "5.05 k of 40.0 k rows checked in full", where the check took a sample, and what of that has no bound.
std::string left_open(const CheckReport& check);
/// What the lens tells of an entry that was checked and not timed, beside at_least_seconds.
inline constexpr std::array kCounted = {"asked_of_L1",  "sectors_a_nonzero", "sectors_a_product",
                                        "busiest_warp", "warp_over_mean",    "block_over_mean"};
/// "1,233", "5.56", "1.64 MB" of the metric of that name; empty: there is none.
std::string metric_text(const std::vector<Metric>& metrics, const std::string& name);
/// "asked of L1".
std::string spaced(std::string name);
/// Columns that a text takes when it is printed: code points, which are one column each in what we print.
std::size_t printed_width(std::string_view text);
/// `text` for n ranks, in weak scaling: each number that is followed by xR is multiplied by n, as in
/// gen:uniform:rows=1e5xR. `scaled` becomes true if there was one.
std::string scaled_spec(const std::string& text, int ranks, bool& scaled);

/// "1.23 ms", "456 us", with three digits.
std::string format_seconds(double seconds);
/// "1.5%" of a median, how far it is known; "?": not at all.
std::string format_noise(double share);
/// The text with bytes that are no UTF-8, as file names may hold them, replaced.
std::string valid_utf8(const std::string& text);
/// That as a terminal may show it, on one line: control characters, and what turns the direction of writing,
/// as file names may hold them, as \x1b.
std::string printable(std::string_view bytes);
/// Text as it may stand between quotes in HTML, and in XML 1.0, which knows no control characters.
std::string as_markup(std::string_view text);
/// "1.2 GB", "34 MB".
std::string format_bytes(double bytes);
/// "12.3 M", "456 k": for counts.
std::string format_count(double count);
/// "1,234,567", all digits.
std::string grouped(std::int64_t n);

/// Writes `text` to `path`: the file is either complete or untouched. Throws Error if that cannot be done.
void write_file(const std::string& path, const std::string& text);

}  // namespace stages
