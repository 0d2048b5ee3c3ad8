// How fast a Matrix Market file is read, and how much memory that takes: our reader beside Eigen's
// loadMarket, both to compressed rows of doubles, on one thread.
//
// The file: N entries (default 10 million) at uniformly random places of an N/10 x N/10 matrix, `real
// general`, values uniform in [0, 1) with the digits that a double needs (mostly 16 or 17). Two orders:
// `random`, the hard case, where every entry goes to another part of memory; `column`, sorted by column and
// then by row, as most files of the public collections are. The file is written just before, so it is in the
// page cache.
//
// The method: loads alternate between the readers, each in a process of its own, so that the peak of resident
// memory (getrusage) is that load's alone and no reader inherits the other's warm heap; the clock runs inside
// that process, around the load.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <Eigen/SparseCore>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <unsupported/Eigen/SparseExtra>
#include <vector>

#include "common/matrix/byte_source.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/matrix_market.hpp"

namespace {

using stages::Index;
using stages::Offset;

/// SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014).
class Random {
 public:
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  Index below(Index n) { return static_cast<Index>(next() % static_cast<std::uint64_t>(n)); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_ = 1;
};

void write_file(const std::string& path, Offset entries, const std::string& order) {
  const Index n = stages::narrow<Index>(std::max<Offset>(entries / 10, 1));
  Random random;
  stages::AtomicFile file(path);
  std::string text = fmt::format("%%MatrixMarket matrix coordinate real general\n{} {} {}\n", n, n, entries);
  const auto add = [&](Index row, Index col) {
    fmt::format_to(std::back_inserter(text), "{} {} {}\n", row + 1, col + 1, random.unit());
    if (text.size() < (1u << 20)) return;
    file.write(text);
    text.clear();
  };
  if (order == "random") {
    for (Offset k = 0; k < entries; ++k) add(random.below(n), random.below(n));
  } else {
    std::vector<Index> rows;
    for (Index j = 0; j < n; ++j) {
      rows.resize(static_cast<std::size_t>(entries * (j + 1) / n - entries * j / n));
      for (Index& row : rows) row = random.below(n);
      std::sort(rows.begin(), rows.end());
      for (const Index row : rows) add(row, j);
    }
  }
  file.write(text);
  file.commit();
}

struct Load {
  double seconds = 0;
  double cpu_seconds =
      0;  ///< of this thread, in the program and in the kernel: less troubled by other programs
  double peak_bytes = 0;
  double sum = 0;  ///< of the values, so that both readers are seen to have read the same
  Offset nnz = 0;
};

/// Both clocks, running.
class Stopwatch {
 public:
  Load stop() const {
    return {.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(),
            .cpu_seconds = cpu() - cpu_start_};
  }

 private:
  static double cpu() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double cpu_start_ = cpu();
};

Load load_ours(const std::string& path) {
  const Stopwatch watch;
  const auto a = stages::read_matrix_market<double>(path);
  Load load = watch.stop();
  load.nnz = a.nnz();
  for (const double v : a.values) load.sum += v;
  return load;
}

Load load_eigen(const std::string& path) {
  const Stopwatch watch;
  Eigen::SparseMatrix<double, Eigen::RowMajor> a;
  const bool good = Eigen::loadMarket(a, path);
  Load load = watch.stop();
  load.nnz = a.nonZeros();
  if (!good) stages::fail("Eigen does not read {}", path);
  for (Eigen::Index k = 0; k < a.nonZeros(); ++k) load.sum += a.valuePtr()[k];
  return load;
}

/// Runs `load` in a child process and adds the peak of that process's resident memory.
Load in_own_process(const std::function<Load()>& load) {
  int ends[2];
  if (::pipe(ends) != 0) stages::fail("no pipe to a child process; close some files");
  const pid_t child = ::fork();
  if (child < 0) stages::fail("no child process; close some programs");
  if (child == 0) {
    ::close(ends[0]);
    int code = 1;
    try {
      Load result = load();
      rusage usage{};
      ::getrusage(RUSAGE_SELF, &usage);
      result.peak_bytes = static_cast<double>(usage.ru_maxrss) * 1024;
      code = ::write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1;
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
    ::_exit(code);
  }
  ::close(ends[1]);
  Load result;
  const bool received = ::read(ends[0], &result, sizeof result) == sizeof result;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!received || status != 0) stages::fail("a load failed; see the message above");
  return result;
}

struct Summary {
  double median = 0, fastest = 0, slowest = 0, cpu_median = 0, peak_bytes = 0;
};

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const std::size_t half = times.size() / 2;
  return times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2;
}

Summary summarise(const std::vector<Load>& loads) {
  std::vector<double> times, cpu_times;
  Summary out;
  for (const Load& load : loads) {
    times.push_back(load.seconds);
    cpu_times.push_back(load.cpu_seconds);
    out.peak_bytes = std::max(out.peak_bytes, load.peak_bytes);
  }
  out.median = median(times);
  out.cpu_median = median(cpu_times);
  out.fastest = *std::min_element(times.begin(), times.end());
  out.slowest = *std::max_element(times.begin(), times.end());
  return out;
}

/// A directory that is removed with everything in it.
class Scratch {
 public:
  explicit Scratch(const std::string& where) {
    path_ = where + "/reader_bench.XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      stages::fail("{}: no directory can be made there; name another with --dir", where);
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

nlohmann::json measure(const std::string& directory, const std::string& order, Offset entries, int samples) {
  const Scratch scratch(directory);
  const std::string path = scratch.file("bench.mtx");
  fmt::print(stderr, "writing {} entries in {} order\n", entries, order);
  write_file(path, entries, order);

  std::vector<Load> ours, eigen;
  for (int k = 0; k < samples; ++k) {
    fmt::print(stderr, "[{}/{}] {} order: ours", k + 1, samples, order);
    ours.push_back(in_own_process([&] { return load_ours(path); }));
    fmt::print(stderr, " {:.3f} s, Eigen", ours.back().seconds);
    eigen.push_back(in_own_process([&] { return load_eigen(path); }));
    fmt::print(stderr, " {:.3f} s\n", eigen.back().seconds);
    if (ours.back().nnz != eigen.back().nnz ||
        std::abs(ours.back().sum - eigen.back().sum) > 1e-9 * ours.back().sum) {
      stages::fail("the readers differ: {} non-zeros with sum {} and {} with {}", ours.back().nnz,
                   ours.back().sum, eigen.back().nnz, eigen.back().sum);
    }
  }
  const Offset rows = std::max<Offset>(entries / 10, 1);
  const double csr_bytes = static_cast<double>((rows + 1) * 8 + ours.front().nnz * (4 + 8));
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  const auto describe = [&](const std::vector<Load>& loads) {
    const Summary s = summarise(loads);
    std::vector<double> times;
    for (const Load& load : loads) times.push_back(load.seconds);
    return nlohmann::json{{"median_s", s.median},         {"fastest_s", s.fastest},
                          {"slowest_s", s.slowest},       {"samples_s", times},
                          {"cpu_median_s", s.cpu_median}, {"mb_per_s", bytes / s.median / 1e6},
                          {"peak_bytes", s.peak_bytes},   {"peak_over_csr", s.peak_bytes / csr_bytes}};
  };
  return {{"order", order},
          {"entries", entries},
          {"rows", rows},
          {"file_bytes", bytes},
          {"csr_bytes", csr_bytes},
          {"ours", describe(ours)},
          {"eigen", describe(eigen)},
          {"ratio", summarise(eigen).median / summarise(ours).median},
          {"cpu_ratio", summarise(eigen).cpu_median / summarise(ours).cpu_median}};
}

void print_table(const nlohmann::json& results) {
  fmt::print("{:<8}{:<7}{:>10}{:>10}{:>10}{:>8}{:>10}{:>11}{:>8}{:>10}{:>10}\n", "order", "reader",
             "median s", "fastest", "slowest", "ratio", "CPU s", "CPU ratio", "MB/s", "peak MB", "peak/CSR");
  for (const auto& r : results) {
    for (const char* reader : {"ours", "eigen"}) {
      const auto& x = r[reader];
      const bool first = std::string_view(reader) == "ours";
      fmt::print(
          "{:<8}{:<7}{:>10.3f}{:>10.3f}{:>10.3f}{:>7.1f}x{:>10.3f}{:>10.1f}x{:>8.0f}{:>10.1f}{:>10.2f}\n",
          r["order"].get<std::string>(), reader, x["median_s"].get<double>(), x["fastest_s"].get<double>(),
          x["slowest_s"].get<double>(), first ? r["ratio"].get<double>() : 1.0,
          x["cpu_median_s"].get<double>(), first ? r["cpu_ratio"].get<double>() : 1.0,
          x["mb_per_s"].get<double>(), x["peak_bytes"].get<double>() / 1e6, x["peak_over_csr"].get<double>());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Offset entries = 10'000'000;
  int samples = 5;
  std::vector<std::string> orders{"random", "column"};
  std::string directory = std::filesystem::temp_directory_path().string(), json_path;
  CLI::App app{
      "Reads a large Matrix Market file by our reader and by Eigen's, in turn, and compares them.\n"
      "Example: reader_bench --entries 1000000 --samples 3 --order random"};
  app.add_option("--entries", entries, "entries in the file")->check(CLI::Range(Offset{1}, Offset{1} << 34));
  app.add_option("--samples", samples, "loads by each reader")->check(CLI::Range(1, 1000));
  app.add_option("--order", orders, "order of the entries")->check(CLI::IsMember({"random", "column"}));
  app.add_option("--dir", directory, "where the file is made, and removed again");
  app.add_option("--json", json_path, "write the results to this file as well");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    nlohmann::json results = nlohmann::json::array();
    for (const std::string& order : orders) results.push_back(measure(directory, order, entries, samples));
    print_table(results);
    if (!json_path.empty()) {
      stages::AtomicFile file(json_path);
      file.write(nlohmann::json{{"schema_version", 1}, {"reader_bench", results}}.dump(2) + "\n");
      file.commit();
    }
  } catch (const stages::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
  return 0;
}
