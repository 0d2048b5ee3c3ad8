#include "common/lens/command.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/cli/inputs.hpp"
#include "common/cli/last_words.hpp"
#include "common/cli/machines/devices.hpp"
#include "common/cli/terminal.hpp"
#include "common/harness/results.hpp"
#include "common/matrix/error.hpp"
#ifdef STAGES_HAVE_LENS
#include "common/harness/product.hpp"
#include "common/harness/runner_parts.hpp"
#include "common/lens/lens.hpp"
#endif

namespace stages {
namespace {

struct LensOptions {
  std::vector<std::string> entries;
  std::string matrix, kernel;
  std::string json, html, type = "f32";
  int n_cols = 32;
  bool all_lines = false, races = false;
  double max_work = 1e8;  // some ten seconds
  std::optional<double> max_memory_gb;
  ReadOptions input;
};

#ifdef STAGES_HAVE_LENS
/// What the entries came to, one after the other: what was counted, or (--races) their races. A signal may find
/// them while there are more to come.
struct Found {
  std::mutex mutex;
  std::vector<LensView> views;
  std::vector<RaceView> races;
  bool written = false;

  template <class View>
  const View& add(std::vector<View>& to, View view) {
    const std::lock_guard lock(mutex);
    return to.emplace_back(std::move(view));
  }
};

template <class Problem>
void look(const Entry& entry, const Problem& problem, const LensOptions& options, Found& found) {
  const Devices devices;
  RunOptions limits;
  limits.max_simulated_work = options.max_work;
  if (options.max_memory_gb) limits.max_memory = *options.max_memory_gb * 1e9;
  const std::string reason = refusal(entry, problem, devices.machine(), limits);
  if (!reason.empty()) fail("{}: {}", entry.name, reason);
  const auto run = one_product(entry, problem, devices.machine().of(entry));
  if (options.races) {
    fmt::print("{}", races_text(found.add(found.races, look_for_races(entry.name, run))));
  } else {
    const LensView& view =
        found.add(found.views, look_at(entry.name, run, running::facts_of(problem), options.kernel));
    fmt::print("{}{}", found.views.size() > 1 ? "\n" : "", lens_text(view, options.all_lines));
  }
  std::fflush(stdout);
}

template <class T>
void look_as(const Entry& entry, const LensOptions& options, Found& found) {
  const auto a = std::make_shared<const Csr<T>>(load_matrix<T>(options.matrix, finite(options.input)));
  // The executor takes some time, and the lens some memory, for each thread.
  constexpr double kLineBytes = 100, kMost = 1e9;
  require_room_for_lines(options.matrix, *a, kLineBytes,
                         options.max_memory_gb ? *options.max_memory_gb * 1e9 : kMost);
  if (entry.op == Op::spmv) return look(entry, make_spmv_problem<T>(options.matrix, a), options, found);
  if (entry.op == Op::spmm)
    return look(entry, make_spmm_problem<T>({.name = options.matrix, .a = a, .n_cols = options.n_cols}),
                options, found);
  require_product(options.matrix, a->rows, a->cols, a->rows, a->cols);
  return look(entry, make_spgemm_problem<T>(options.matrix, a, a), options, found);
}

void require_kernels(const Entry& entry) {
  if (entry.needs.mpi)
    fail("{} runs on several GPUs, and the lens looks at one; name another entry", entry.name);
  if (!entry.needs.gpu)
    fail("{} has no kernels: it runs on the host; name an entry of a CUDA step", entry.name);
}

/// Runs `action`; what it throws goes to `failure`, where nothing was thrown before.
void attempt(std::exception_ptr& failure, const std::function<void()>& action) {
  try {
    action();
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
}

/// `part`: why there is not more, and empty where all was looked at.
void write_json(const LensOptions& options, const Found& found, const std::string& part) {
  nlohmann::json entries = nlohmann::json::array();
  for (const LensView& view : found.views) entries.push_back(lens_json(view));
  for (const RaceView& view : found.races) entries.push_back(races_json(view));
  nlohmann::json all = {{"schema_version", 2},
                        {"matrix", options.matrix},
                        {"type", options.type},
                        {"n_cols", options.n_cols},
                        {"entries", entries}};
  if (!part.empty()) all["part"] = part;
  write_file(options.json, json_lines(all));
}

/// Writes the files that were asked for, both of them where one cannot be written.
void write_files(const LensOptions& options, const Found& found, const std::string& part,
                 std::exception_ptr& failure) {
  if (!options.json.empty()) attempt(failure, [&] { write_json(options, found, part); });
  if (options.html.empty()) return;
  const std::string note = part.empty() ? "" : fmt::format(" (a part: {})", part);
  attempt(failure, [&] {
    write_file(options.html,
               lens_html(fmt::format("{} through the lens{}", options.matrix, note), found.views));
  });
}

/// What was found out before the program was ended by `signal`.
void write_part(const LensOptions& options, Found& found, const std::string& signal) {
  const std::lock_guard lock(found.mutex);
  if (std::exchange(found.written, true) || (found.views.empty() && found.races.empty())) return;
  std::exception_ptr failure;
  write_files(options, found, fmt::format("ended by {}", signal), failure);
  print_stderr("the lens was ended by {}: this is a part\n", signal);
}

int work(const Program& program, const LensOptions& options) {
  if (const std::string problem = lens_problem(); !problem.empty()) fail("{}", problem);
  std::vector<const Entry*> entries;
  for (const std::string& name : options.entries)
    require_kernels(*entries.emplace_back(&program.registry.find(name)));
  require_matrix(options.matrix);
  for (const auto& [flag, value] : {std::pair{"--html", options.html}, std::pair{"--kernel", options.kernel}})
    if (options.races && !value.empty())
      fail("{} shows what was counted, and --races counts nothing; leave one of them out", flag);
  require_two_files(options.json, "--html", options.html, {options.matrix});

  Found found;
  const LastWords last_words([&](const std::string& signal) { write_part(options, found, signal); });
  std::exception_ptr failure;  // what was counted before it is shown and written all the same
  attempt(failure, [&] {
    for (const Entry* entry : entries)
      with_type(options.type, [&]<class T>() { look_as<T>(*entry, options, found); });
  });
  if (found.views.empty() && found.races.empty()) std::rethrow_exception(failure);
  if (!options.races) {
    fmt::print("{}", lens_comparison(found.views));
    fmt::print(
        "\nCounted on the executor while one product ran; nothing here is a time, and \"at least\" is a "
        "bound (docs/lens.md).\n");
  }
  {
    const std::lock_guard lock(found.mutex);
    if (!std::exchange(found.written, true)) write_files(options, found, "", failure);
  }
  bool good = true;
  const auto tell = [&](const std::string& entry, const std::string& problem) {
    print_stderr("{}\n", error_line(program, fmt::format("{}: {}", entry, problem)));
    good = false;
  };
  for (const LensView& view : found.views)
    if (!view.problem.empty()) tell(view.entry, "only a part was counted: " + view.problem);
  for (const RaceView& view : found.races) {
    if (!view.races.empty()) tell(view.entry, "its threads race");
    if (!view.problem.empty()) tell(view.entry, "only a part was looked at: " + view.problem);
  }
  if (failure) std::rethrow_exception(failure);
  return good ? kGood : kWrongResult;
}
#else
int work(const Program&, const LensOptions&) {
  fail(
      "the lens looks at kernels on the executor, and this build has none; build the preset cpu, with "
      "Boost.Context");
}
#endif

}  // namespace

Count count_by_lens() {
#ifdef STAGES_HAVE_LENS
  if (!lens_problem().empty()) return {};
  return [](const std::function<void()>& product, const ProblemFacts& problem) {
    const Bound bound = count_bound(product);
    return Counted{counted_metrics(bound, problem), bound_text(bound)};
  };
#else
  return {};
#endif
}

void add_lens_command(CommandLine& line, const Program& program) {
  Command command = line.add("lens", "Count what the lines of a kernel do to memory, without a GPU");
  const auto options = std::make_shared<LensOptions>();
  command.option("ENTRY", options->entries, "The entries to look at, as `list` names them",
                 {.required = true});
  command.option("-m,--matrix", options->matrix, "The matrix: a Matrix Market file, gen:SPEC or data:NAME",
                 {.type = "MATRIX", .required = true});
  command.option("--n-cols", options->n_cols, "Columns of B where it is dense",
                 {.type = "N", .least = 1, .most = 65536, .shows_default = true});
  add_type_option(command, options->type, "Type in which to compute");
  command.option("--kernel", options->kernel, "Only kernels whose name has this in it",
                 {.type = "NAME", .not_empty = true});
  command.flag("--all-lines", options->all_lines, "Show also the lines between those that touch memory");
  command.flag("--races", options->races, "Count nothing; look for races between threads instead");
  command.option("--max-work", options->max_work, "Refuse more elementary steps than this",
                 {.type = "N", .default_text = "1e8", .positive = true});
  command.option("--max-memory", options->max_memory_gb,
                 "Refuse if it needs more memory [half of what is free]", {.type = "GB", .positive = true});
  command.option("--json", options->json, "Write the counts to a file, with Nsight Compute's names",
                 {.type = "FILE", .not_empty = true});
  command.option("--html", options->html, "Write a page: the source as a map, with drawings",
                 {.type = "FILE", .not_empty = true});
  add_input_options(command, options->input);
  command.footer([&program] {
    return examples(program, {{"lens 05_cuda_csr/thread_per_row -m gen:uniform:rows=1000,cols=1000,nnz=9000",
                               "which line asks for most"},
                              {"lens 08_spgemm_multigpu/binned -m a.mtx --kernel multiply --html lens.html",
                               "some of its kernels, as a page"},
                              {"lens 05_cuda_csr/thread_per_row 05_cuda_csr/warp_per_row -m a.mtx",
                               "two kernels beside each other"},
                              {"lens 08_spgemm_multigpu/hash_warp_per_row -m a.mtx --races",
                               "do its threads race?"}}) +
           "\nrequests: instructions of warps that touch memory. lanes: threads of a warp that take part, of "
           "32.\n"
           "takes: sectors of 32 bytes that a request of global memory touches, or wavefronts that one of "
           "shared memory\n"
           "takes. least: what the same bytes would take, were they side by side. wanted: the share of the "
           "sectors' bytes\n"
           "that threads asked for. A line that was inlined is followed by the lines that called it. "
           "docs/lens.md tells more.\n";
  });
  command.does([&program, options] { return work(program, *options); });
}

}  // namespace stages
