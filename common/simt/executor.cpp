#include "common/simt/executor.hpp"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "common/simt/block_runner.hpp"
#include "common/simt/numbers.hpp"

namespace stages::simt {
namespace {

constinit Observer nobody;

Observer* wanted_from_the_start() {
  const char* const text = std::getenv("STAGES_RACES");
  if (text == nullptr || *text == '\0' || std::string_view(text) == "0") return &nobody;
  if (std::string_view(text) != "1") fail("STAGES_RACES is '{}'; it must be 1 or 0", text);
  Observer* const wanted = observer_of_races != nullptr ? observer_of_races() : nullptr;
  if (wanted == nullptr)
    fail("STAGES_RACES is set, and this build has no lens: it needs g++, and no sanitizers");
  return wanted;
}

Observer*& current() {
  static Observer* observer = wanted_from_the_start();
  return observer;
}

/// OS threads that wait for launches. They are made when first needed and kept: making one costs as much as a
/// small kernel.
class Pool {
 public:
  ~Pool() {
    for (auto& w : workers_) {
      w->run = nullptr;
      w->wake.release();
    }
    for (auto& w : workers_) w->thread.join();
  }

  /// Runs `run` on `count` OS threads and waits. Stops it when nothing has moved for `patience` seconds, and
  /// at the deadline.
  void execute(GridRun& run, std::size_t count, double patience, std::optional<Moment> deadline) {
    try {
      while (workers_.size() < count) workers_.push_back(std::make_unique<Worker>(*this, workers_.size()));
    } catch (const std::system_error& error) {
      fail(
          "the executor can have {} of the {} threads it needs ({}); close other programs, raise `ulimit "
          "-u`, or lower STAGES_WORKERS",
          workers_.size(), count, error.what());
    }
    unfinished_ = count;
    for (std::size_t i = 0; i < count; ++i) {
      workers_[i]->run = &run;
      workers_[i]->wake.release();
    }
    using Clock = std::chrono::steady_clock;
    auto moved = Clock::now();
    std::uint64_t beats = 0;
    std::unique_lock lock(mutex_);
    while (!finished_.wait_for(lock, std::chrono::milliseconds(200), [&] { return unfinished_ == 0; })) {
      std::uint64_t now = 0;
      for (const auto& runner : run.runners) now += runner.beats.load(std::memory_order_relaxed);
      if (now != beats || run.stop.load() == Fault::device) {
        beats = now;
        moved = Clock::now();
      }
      const double idle = std::chrono::duration<double>(Clock::now() - moved).count();
      if (idle > patience) run.stop_with(Fault::timeout, "");
      if (deadline && Clock::now() > *deadline) run.stop_with(Fault::late, "");
      if (idle <= 2 * patience + 1) continue;
      bool interrupted = false;
      for (std::size_t i = 0; i < count; ++i)
        if (run.runners[i].active.load()) interrupted |= run.observer.interrupt(workers_[i]->thread);
      if (idle > 2 * patience + (interrupted ? 10 : 1)) give_up(run, idle);
    }
  }

 private:
  struct Worker {
    Worker(Pool& pool, std::size_t index)
        : thread([this, &pool, index] {
            for (;;) {
              wake.acquire();
              if (!run) return;
              runner.run(*run, index);
              const std::lock_guard lock(pool.mutex_);
              if (--pool.unfinished_ == 0) pool.finished_.notify_one();
            }
          }) {}
    GridRun* run = nullptr;
    BlockRunner runner;
    std::binary_semaphore wake{0};
    std::thread thread;
  };

  // A thread that neither waits nor uses atomics cannot be stopped from outside: end with a message, not a
  // hang.
  [[noreturn]] static void give_up(const GridRun& run, double seconds) {
    std::fprintf(
        stderr,
        "%s:%u: the kernel launched here has not moved for %.0f s and does not stop: an endless loop without "
        "a wait in it. STAGES_WATCHDOG=seconds sets the patience.\n",
        run.grid.where.file_name(), run.grid.where.line(), seconds);
    std::abort();
  }

  std::mutex mutex_;
  std::condition_variable finished_;
  std::size_t unfinished_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
};

Schedule parse_schedule(std::string_view text) {
  if (text.empty() || text == "forward") return {};
  if (text == "reverse") return {Schedule::Kind::reverse, 0};
  constexpr std::string_view kRandom = "random:";
  if (text.starts_with(kRandom)) {
    std::uint64_t seed = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + kRandom.size(), end, seed);
    if (parsed.ec == std::errc() && parsed.ptr == end) return {Schedule::Kind::random, seed};
  }
  throw Error(fmt::format(
      "the thread order (STAGES_SCHEDULE) is '{}'; it must be forward, reverse or random:SEED", text));
}

struct Settings {
  std::mutex mutex;                  ///< also makes launches take turns
  std::optional<Schedule> schedule;  ///< nothing: the environment's
  double watchdog = 0;
  std::optional<Moment> deadline;
  bool missed = false;  ///< that one
  std::set<const void*> ran;
  Pool pool;
};

Settings& settings() {
  static Settings instance;
  return instance;
}

std::string headline(Fault fault, const GridRun& run, double patience) {
  const std::uint64_t begun = std::min(run.next_block.load(), run.blocks);
  const bool dead = fault == Fault::deadlock;
  return fmt::format("{} in the kernel launched at {}{}{}. Who waits where:",
                     dead ? "deadlock: nobody can go on" : fmt::format("no progress for {:.0f} s", patience),
                     file_line(run.grid.where),
                     begun == run.blocks
                         ? ""
                         : fmt::format(" ({} of {} blocks not started)", run.blocks - begun, run.blocks),
                     dead ? "" : " (STAGES_WATCHDOG)");
}

}  // namespace

Observer& observer() { return *current(); }
void set_observer(Observer* observer) { current() = observer != nullptr ? observer : &nobody; }

std::set<const void*> take_kernels_that_ran() {
  const std::lock_guard lock(settings().mutex);
  return std::exchange(settings().ran, {});
}

void set_schedule(const std::string& schedule) {
  Settings& s = settings();
  const Schedule parsed = parse_schedule(schedule);
  const std::lock_guard lock(s.mutex);
  s.schedule.reset();
  if (!schedule.empty()) s.schedule = parsed;
}

void set_watchdog(double seconds) {
  const std::lock_guard lock(settings().mutex);
  settings().watchdog = seconds;
}

void set_deadline(std::optional<Moment> moment) {
  const std::lock_guard lock(settings().mutex);
  settings().deadline = moment;
  settings().missed = false;
}

bool missed_deadline() {
  const std::lock_guard lock(settings().mutex);
  return settings().missed;
}

Fault run_grid(const Grid& grid, std::string& report) {
  Settings& s = settings();
  const std::lock_guard lock(s.mutex);
  if (s.deadline && std::chrono::steady_clock::now() > *s.deadline) {
    s.missed = true;
    return Fault::late;
  }
  const char* const wanted = std::getenv("STAGES_SCHEDULE");
  const Schedule schedule = s.schedule ? *s.schedule : parse_schedule(wanted != nullptr ? wanted : "");
  Observer& told = observer();
  const std::uint64_t at_once = told.one_at_a_time() ? 1 : numbers().workers;
  const std::uint64_t workers = grid.resident() ? grid.blocks() : std::min(grid.blocks(), at_once);
  const double patience = s.watchdog > 0 ? s.watchdog : numbers().patience;
  GridRun run{.grid = grid,
              .schedule = schedule,
              .blocks = grid.blocks(),
              .observer = told,
              .one_at_a_time = told.one_at_a_time(),
              .runners = std::vector<GridRun::Idle>(workers),
              .cluster_shared = std::vector<std::atomic<void*>>(grid.cluster > 1 ? grid.blocks() : 0)};
  s.ran.insert(grid.kernel);
  told.begin_launch(grid);
  s.pool.execute(run, workers, patience, s.deadline);
  told.end_launch();
  const Fault fault = run.stop.load();
  s.missed |= fault == Fault::late;
  if (fault == Fault::deadlock || fault == Fault::timeout)
    run.report.insert(0, headline(fault, run, patience));
  report = std::move(run.report);
  return fault;
}

}  // namespace stages::simt
