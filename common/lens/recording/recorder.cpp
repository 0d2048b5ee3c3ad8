#include "common/lens/recording/recorder.hpp"

#include <algorithm>
#include <bit>
#include <csignal>
#include <map>
#include <mutex>
#include <unordered_map>

#include "common/lens/recording/code.hpp"
#include "common/matrix/error.hpp"
#include "common/simt/runtime.hpp"

namespace stages::simt {
namespace {

void join(StreamClock& into, const StreamClock& other) {
  for (const auto& [stream, phase] : other) {
    std::uint32_t& known = into[stream];
    known = std::max(known, phase);
  }
}

/// Of the process: begin_counting(), begin_races() and STAGES_RACES=1 have it observe.
class Recorder final : public Observer {
 public:
  struct Looking {
    RaceDetector detector;
    bool collected = false;                    ///< races are kept; otherwise work that has one is a fault
    std::map<const void*, StreamClock> known;  ///< at the host, on a stream, at an event
    const void* working = nullptr;             ///< the stream of the work at hand
    StreamClock& clock() { return known[working]; }
  };
  bool counting = false;
  std::vector<KernelCounts> kernels;  ///< in the order of first launches
  std::unique_ptr<Looking> looking;   ///< null: races are not looked for

  /// From here on, as these two say.
  void begin_or_end(bool catches_crashes) {
    catch_crashes(catches_crashes);
    set_observer(counting || looking ? this : nullptr);
  }

  void order(const void* after, const void* before) override {
    if (looking) join(looking->known[after], looking->known[before]);
  }

  void order_host_after_all() override {
    if (!looking) return;
    StreamClock& host = looking->known[&kHost];
    for (const auto& [which, clock] : looking->known) join(host, clock);
  }

  bool forget(const void* which) override {
    if (!looking) return true;
    // Another stream may get the same handle. That comes after this one's work only if the host does.
    StreamClock& host = looking->known[&kHost];
    const auto clock = looking->known.find(which);
    if (clock == looking->known.end()) return true;
    if (const auto last = clock->second.find(which);
        last != clock->second.end() && host[which] < last->second)
      return false;
    looking->known.erase(clock);
    return true;
  }

  void forget_memory(Span memory) override {
    if (looking) looking->detector.give_back(memory);
  }

  void begin_work(const void* stream) override {
    if (looking) looking->working = stream;
  }

  void copy(const void* to, const void* from, std::size_t bytes) override {
    if (!looking) return;
    for (const auto& [side, access] : {std::pair{from, Access::load}, std::pair{to, Access::store}})
      if (side != nullptr)
        looking->detector.copy({reinterpret_cast<std::uintptr_t>(side), bytes}, access, looking->working,
                               looking->clock());
  }

  void begin_launch(const Grid& grid) override {
    if (counting) {
      auto loops = loops_.find(grid.kernel);
      if (loops == loops_.end()) loops = loops_.emplace(grid.kernel, loops_of(grid.kernel)).first;
      launch_ = {.loops = loops->second, .arrays = global_memory()};
      launch_.read.resize(launch_.arrays.size());
      auto kernel = std::ranges::find(kernels, grid.kernel, &KernelCounts::kernel);
      if (kernel == kernels.end()) kernel = kernels.insert(kernel, KernelCounts{.kernel = grid.kernel});
      launch_.kernel = &*kernel;
      grid_ = &grid;
    }
    if (looking) looking->detector.begin_launch(grid, looking->working, looking->clock());
  }

  void end_launch() override {
    if (!counting) return;
    KernelCounts& kernel = *launch_.kernel;
    const std::uint64_t blocks = grid_->blocks(), threads = grid_->threads_of_block();
    ++kernel.launches;
    kernel.blocks += blocks;
    kernel.threads += blocks * threads;
    const double of_block = static_cast<double>(launch_.requests.all) / static_cast<double>(blocks);
    kernel.block.add({static_cast<double>(launch_.requests.of_block), of_block});
    kernel.warp.add({static_cast<double>(launch_.requests.of_warp),
                     of_block / static_cast<double>((threads + kLanes - 1) / kLanes)});
    for (const auto& bits : launch_.read)
      for (const std::uint64_t word : bits) kernel.read_sectors += static_cast<unsigned>(std::popcount(word));
  }

  std::string end_work() override {
    if (!looking) return "";
    RaceDetector& detector = looking->detector;
    detector.settle();
    looking->clock()[looking->working] = detector.phase();
    if (looking->collected) return "";
    if (!detector.shortage().empty()) return detector.shortage();
    const std::vector<Race> found = detector.take();
    if (found.empty()) return "";
    return text_of(found.front()) +
           (found.size() > 1 ? fmt::format(" ({} more pairs of lines)", found.size() - 1) : "");
  }

  bool one_at_a_time() const override { return looking != nullptr; }

  BlockObserver* of_blocks(BlockRunner& runner) override {
    const std::lock_guard lock(mutex_);
    BlockRecorder& recorder = of_blocks_.try_emplace(&runner, runner).first->second;
    recorder.begin_launch(looking ? &looking->detector : nullptr, counting ? &launch_ : nullptr);
    return &recorder;
  }

  bool interrupt(std::thread& hanging) override {
    return catching_crashes() && pthread_kill(hanging.native_handle(), interrupt_signal()) == 0;
  }

 private:
  std::unordered_map<const void*, Loops> loops_;  ///< by kernel
  const Grid* grid_ = nullptr;
  LaunchCounts launch_;
  std::mutex mutex_;  ///< of:
  std::map<const BlockRunner*, BlockRecorder> of_blocks_;
};

Recorder& recorder() {
  // Never destroyed: a program may hold streams in statics that end after this one would.
  static Recorder* const instance = new Recorder;
  return *instance;
}

}  // namespace

/// STAGES_RACES=1: every launch is looked at, and a race is a fault.
Observer* observer_of_races() {
  if (!recorder().looking) recorder().looking = std::make_unique<Recorder::Looking>();
  return has_hooks() ? &recorder() : nullptr;
}

void begin_counting() {
  recorder().kernels.clear();
  recorder().counting = true;
  recorder().begin_or_end(true);
}

std::vector<KernelCounts> end_counting() {
  recorder().counting = false;
  recorder().begin_or_end(false);
  return std::exchange(recorder().kernels, {});
}

void begin_races(bool collected) {
  recorder().looking = std::make_unique<Recorder::Looking>();
  recorder().looking->collected = collected;
  recorder().begin_or_end(collected);
}

RaceFindings end_races() {
  const std::unique_ptr<Recorder::Looking> looking = std::move(recorder().looking);
  recorder().begin_or_end(false);
  RaceFindings found;
  if (!looking) return found;
  found.races = looking->detector.take();
  found.shortage = looking->detector.shortage();
  for (const auto& [stream, clock] : looking->known) {
    const auto last = clock.find(stream);
    if (last != clock.end() && looking->known[&Observer::kHost][stream] < last->second) found.awaited = false;
  }
  return found;
}

// ---- what happens in a block ------------------------------------------------------------------------------

void BlockRecorder::begin_launch(RaceDetector* races, LaunchCounts* counts) {
  stop_ = &runner_.launch().stop;
  races_ = races;
  counting_ = counts != nullptr;
  if (counting_) tracer_.begin_launch(*counts, runner_.threads());
  if (catching_crashes()) prepare_for_crashes(signal_stack_);
}

void BlockRecorder::end_launch() {
  if (counting_) tracer_.end_launch();
}

void BlockRecorder::begin_block(std::uint64_t number, Span own, Span fixed, Span dynamic) {
  left_at_ = 0;
  last_code_ = nullptr;
  own_ = own;
  if (counting_) tracer_.begin_block(dynamic, fixed);
  if (!races_) return;
  clocks_.shared = {fixed, dynamic};
  races_->begin_block(clocks_, number, runner_.threads());
}

void BlockRecorder::end_block(bool dropped) {
  if (counting_ && dropped) put_all_together();
  if (races_) races_->settle();
}

void BlockRecorder::enter(unsigned thread, Span stack) {
  running_ = thread;
  stack_ = stack;
  if (counting_) tracer_.enter(thread);
}

void BlockRecorder::exit(unsigned thread, bool last_of_warp) {
  if (races_) clocks_.near[thread].left_at = clocks_.clock[thread];
  if (counting_ && last_of_warp) put_together(thread / kLanes);
}

void BlockRecorder::barrier(Where at) {
  if (races_) races_->barrier(clocks_);
  if (!counting_) return;
  tracer_.barrier(at);
  put_all_together();
}

void BlockRecorder::grid_barrier(bool completes) {
  if (counting_) put_all_together();
  if (races_ && completes) races_->next_phase();
}

void BlockRecorder::meet(unsigned warp, unsigned lanes, bool all, Where at) {
  if (races_) races_->meet(clocks_, warp, lanes, all);
  if (!counting_) return;
  tracer_.barrier(at);
  if (all && !tracer_.others_left(warp, lanes)) {
    put_together(warp);
  } else {
    tracer_.meet(warp, lanes, code_address(runner_.code_of(warp * kLanes + first_lane(lanes))));
  }
}

void BlockRecorder::take(const volatile void* p, unsigned bytes, Access access, const AtomicHow* how,
                         const void* code) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  if (stack_.holds(address) || own_.holds(address)) return;
  if (races_) races_->access(clocks_, running_, address, bytes, access, how, code_address(code));
  if (!counting_) return;
  if (access == Access::atomic)
    access = static_cast<Access>(static_cast<int>(access) + static_cast<int>(how->way));
  while (!tracer_.note(address, code, bytes, access)) make_room();
}

void BlockRecorder::change(const volatile void* p, unsigned bytes, AtomicHow how, const void* code) {
  last_code_ = code;
  take(p, bytes, Access::atomic, &how, code);
}

void BlockRecorder::fence(Scope scope) {
  if (races_) races_->fence(clocks_, running_, scope);
}

void BlockRecorder::look(bool begins) {
  if (races_) clocks_.near[running_].looks = begins;
}

void BlockRecorder::note(const volatile void* p, unsigned bytes, Access access, const void* code) {
  last_code_ = code;
  if (stop_->load(std::memory_order_relaxed) != Fault::none) [[unlikely]]
    leave(code_address(code));
  const bool atomic = next_atomic_.first == p;
  next_atomic_.first = nullptr;
  take(p, bytes, access, atomic ? &next_atomic_.second : nullptr, code);
}

// The running thread has done so much since its warp met that there is no room to note more. The others of
// the warp are let come as far; what they have in common is then put together.
void BlockRecorder::make_room() {
  const unsigned warp = running_ / kLanes, open = runner_.able_to_run(warp);
  bool others = false;
  each_lane(open, [&](unsigned lane) { others |= !tracer_.full(warp * kLanes + lane); });
  if (others) {
    runner_.let_others_run();
  } else {
    tracer_.put_together(warp, open);
  }
}

// All lanes of the warp wait, or are gone; they go on from where they wait.
void BlockRecorder::put_together(unsigned warp) {
  tracer_.put_together(warp, 0);
  for (unsigned t = warp * kLanes; t < std::min(warp * kLanes + kLanes, runner_.threads()); ++t)
    tracer_.goes_on(t, code_address(runner_.code_of(t)));
}

void BlockRecorder::put_all_together() {
  for (unsigned w = 0; w * kLanes < runner_.threads(); ++w) put_together(w);
}

// ---- where it ends ----------------------------------------------------------------------------------------

std::uint64_t BlockRecorder::end_of_stack() const {
  const Span stack = runner_.stack_of_fiber();
  return stack.begin + stack.bytes;
}

void BlockRecorder::leave(std::uint64_t code) {
  left_at_ = code;
  runner_.leave();
}

std::string BlockRecorder::where_ended() const { return left_at_ == 0 ? "" : " at " + line_of(left_at_); }

void BlockRecorder::end_after_crash() {
  t_local.observer = nullptr;  // as in GridRun::stop_with
  GridRun& launch = runner_.launch();
  // The fault is told at once: to find the line may take longer than the watchdog waits.
  Fault none = Fault::none;
  const bool interrupted = crash_.signal == interrupt_signal();
  const bool first = !interrupted && launch.stop.compare_exchange_strong(none, Fault::device);
  const std::uint64_t here = code_address(reinterpret_cast<const void*>(crash_.code)) + 1;
  // A function of the system has no line; then it is that of the last access, if there was one.
  const bool known = own_line(here).has_value() || last_code_ == nullptr;
  const std::uint64_t code = known ? here : code_address(last_code_);
  if (interrupted) leave(code);
  const std::uint64_t guard = runner_.stack_of_fiber().begin;
  std::string what = fmt::format("a crash: it touches address {:#x}, where it has no memory", crash_.address);
  if (crash_.signal == SIGFPE) what = "a crash: an integer is divided by zero";
  if (crash_.signal == SIGILL) what = "a crash: an instruction that this processor does not have";
  if (crash_.signal != SIGFPE && guard - crash_.address < 64 * 1024)
    what = "a crash: its stack is used up, as by a recursion without end";
  if (first) {
    const std::lock_guard lock(launch.report_mutex);
    launch.report.insert(0, runner_.place(line_of(code)) + what);
  }
  std::string().swap(what);
  leave(0);
}

}  // namespace stages::simt
