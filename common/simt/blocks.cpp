// A block from its begin to its end, what it does while none of its threads can run, and how it tells of its
// faults: where the thread at fault stands, and who waits where.

#include "common/simt/block_runner.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

namespace stages::simt {

// ---- what the blocks share --------------------------------------------------------------------------------

std::uint64_t GridRun::block_at(std::uint64_t turn) const {
  if (schedule.kind == Schedule::Kind::forward) return turn;
  if (schedule.kind == Schedule::Kind::reverse) return blocks - 1 - turn;
  // An affine map with a factor that has no common divisor with the count is a permutation.
  std::uint64_t factor = random::mix(schedule.seed) % blocks | 1;
  while (std::gcd(factor, blocks) != 1) factor += 2;
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(
      (static_cast<Wide>(factor) * turn + random::mix(schedule.seed + 1) % blocks) % blocks);
}

void GridRun::stop_with(Fault fault, const std::string& text) {
  t_local.observer = nullptr;  // what follows may share functions with the kernels, which note what they do
  const std::lock_guard lock(report_mutex);
  Fault expected = Fault::none;
  if (stop.compare_exchange_strong(expected, fault)) report.insert(0, text);
}

// ---- running blocks ---------------------------------------------------------------------------------------

void BlockRunner::run(GridRun& run, std::size_t self) {
  run_ = &run;
  self_ = self;
  gridDim = run.grid.grid;
  blockDim = run.grid.block;
  prepare_threads();
  t_local.runner = this;
  GridRun::Idle& mine = run.runners[self];
  static_shared_.begin_launch(run.grid.kernel);
  if (run.one_at_a_time) run.baton.take(baton_);
  t_local.observer = observer_ = run.observer.of_blocks(*this);
  for (;;) {
    const std::uint64_t turn = run.next_block.fetch_add(1);
    if (turn >= run.blocks || run.stop.load() != Fault::none) break;
    run_block(run.block_at(turn));
  }
  if (observer_ != nullptr) observer_->end_launch();
  t_local.observer = nullptr;
  if (run.one_at_a_time) run.baton.pass();
  t_local.runner = nullptr;
  mine.active.store(false);
  run.progress.fetch_add(1);
}

void BlockRunner::prepare_threads() {
  const dim3 block = run_->grid.block;
  threads_in_block_ = block.x * block.y * block.z;
  if (shape_.x == block.x && shape_.y == block.y && shape_.z == block.z) return;
  shape_ = block;
  thread_.resize(threads_in_block_);
  order_.resize(threads_in_block_);
  for (unsigned i = 0; i < threads_in_block_; ++i) thread_[i].index = place_in(block, i);
}

void BlockRunner::run_block(std::uint64_t block) {
  const Grid& grid = run_->grid;
  blockIdx = place_in(grid.grid, block);
  for (unsigned i = 0; i < threads_in_block_; ++i) {
    thread_[i].state = State::fresh;
    thread_[i].fiber = nullptr;
    order_[i] = static_cast<std::uint16_t>(
        run_->schedule.kind == Schedule::Kind::reverse ? threads_in_block_ - 1 - i : i);
  }
  random_state_ = random::mix(run_->schedule.seed + 1) ^ block;
  if (run_->schedule.kind == Schedule::Kind::random) shuffle_order();
  live_ = threads_in_block_;
  for (unsigned w = 0; w * 32 < threads_in_block_; ++w) {
    const unsigned lanes = std::min(32u, threads_in_block_ - w * 32);
    warp_[w].live = lanes == 32 ? ~0u : (1u << lanes) - 1;
    warp_[w].meetings = 0;
  }
  next_fresh_ = ready_size_ = grid_waiting_ = 0;
  barrier_ = {};
  spinners_.clear();
  dynamic_shared_.refill(grid.shared_bytes);
  static_shared_.before_block();
  if (observer_ != nullptr)
    observer_->begin_block(block, static_shared_.others(), static_shared_.span(), dynamic_shared_.span());
  if (grid.cluster > 1) run_->cluster_shared[block].store(dynamic_shared_.data());

  while (live_ > 0 && run_->stop.load(std::memory_order_relaxed) == Fault::none) {
    const int next = take_next();
    if (next >= 0) {
      hand_over(main_, next);
    } else if (live_ > 0 && run_->stop.load() == Fault::none) {
      if (run_->one_at_a_time) run_->baton.pass();
      idle();
      if (run_->one_at_a_time) run_->baton.take(baton_);
    }
  }
  if (live_ > 0) abandon();
  if (observer_ != nullptr) observer_->end_block(live_ > 0);
  if (grid.cluster > 1) run_->cluster_shared[block].store(nullptr);
  static_shared_.after_block();
  const std::size_t left = grid.shared_limit - std::min(grid.shared_limit, grid.shared_bytes);
  if (const std::size_t used = static_shared_.used_bytes(left); used > left) {
    run_->stop_with(
        Fault::device,
        fmt::format(
            "{}: a block uses {} bytes or more of static shared memory beside {} of dynamic; together "
            "they may be {} on this device; take smaller tables or tiles",
            file_line(grid.where), used, grid.shared_bytes, grid.shared_limit));
  }
  if (dynamic_shared_.canary_broken()) {
    run_->stop_with(
        Fault::device,
        fmt::format("{}: block {} wrote beyond its {} bytes of dynamic shared memory; launch with more, "
                    "or build with ASan to see the line",
                    file_line(grid.where), coordinates(blockIdx), grid.shared_bytes));
  }
}

// Drops all threads of the block where they stand, after telling where that is if it matters.
void BlockRunner::abandon() {
  if (const Fault fault = run_->stop.load(); fault != Fault::device && fault != Fault::late) {
    const std::lock_guard lock(run_->report_mutex);
    append_table(run_->report);
  }
  for (Thread& t : thread_) {
    if (t.state != State::done && t.fiber) fibers_.drop(t.fiber);
    t.fiber = nullptr;
  }
}

// ---- waiting beyond the block -----------------------------------------------------------------------------

void BlockRunner::grid_barrier(Where at, const void* code) {
  if (!run_->grid.resident())
    fault("grid_sync in a launch that is not cooperative; set LaunchConfig::cooperative", at);
  thread_[current_].state = State::grid;
  thread_[current_].at = at;
  thread_[current_].code = code;
  if (++grid_waiting_ == live_) grid_arrive();
  wait();
}

void BlockRunner::grid_arrive() {
  note_progress();
  grid_generation_ = run_->generation.load();
  const bool completes = run_->arrived_blocks.fetch_add(1) + 1 == run_->blocks;
  if (observer_ != nullptr) observer_->grid_barrier(completes);
  if (completes) {
    run_->arrived_blocks.store(0);
    run_->generation.fetch_add(1);
  }
}

void* BlockRunner::cluster_shared_memory(void* own, unsigned rank, Where at) {
  const auto offset = static_cast<std::byte*>(own) - static_cast<std::byte*>(dynamic_shared_.data());
  if (offset < 0 || static_cast<std::size_t>(offset) >= run_->grid.shared_bytes)
    fault("the address to find in another block is not in this block's dynamic shared memory", at);
  if (rank >= run_->cluster_shared.size())
    fault(fmt::format("block {} of a cluster of {}", rank, run_->cluster_shared.size()), at);
  void* const there = run_->cluster_shared[rank].load();
  if (!there)
    fault(fmt::format("block {} of the cluster has not begun or has ended; a cluster_sync must keep it there",
                      rank),
          at);
  return static_cast<std::byte*>(there) + offset;
}

void BlockRunner::spin_turn(Where at) {
  spinners_.push_back(static_cast<std::uint16_t>(current_));
  wait_as(State::spin, at);
}

void BlockRunner::pause_turn(Where at) {
  dirty_ = true;
  spin_turn(at);
}

// Nobody in this block can run: all wait, or spin. Another block may wake them; if all blocks are like this
// one and nothing has changed since everybody looked, it is a deadlock.
void BlockRunner::idle() {
  GridRun::Idle& mine = run_->runners[self_];
  if (grid_waiting_ > 0 && grid_waiting_ == live_ && run_->generation.load() != grid_generation_) {
    grid_waiting_ = 0;
    release_all(State::grid);
    return;
  }
  if (spinners_.empty() && grid_waiting_ != live_) {
    run_->stop_with(Fault::deadlock, "");
    return;
  }
  if (dirty_) {
    run_->progress.fetch_add(1);
    futile_rounds_ = 0;
  } else if (run_->progress.load() == round_began_) {
    mine.idle_at.store(round_began_);
    const auto is_idle = [&](const GridRun::Idle& runner) {
      return !runner.active.load() || runner.idle_at.load() == round_began_;
    };
    if (std::ranges::all_of(run_->runners, is_idle) && run_->progress.load() == round_began_) {
      run_->stop_with(Fault::deadlock, "");
      return;
    }
    ++futile_rounds_;
  }
  if (futile_rounds_ > 64) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  } else if (futile_rounds_ > 0) {
    std::this_thread::yield();
  }
  dirty_ = false;
  round_began_ = run_->progress.load();
  for (const unsigned thread : spinners_) push_ready(thread);
  spinners_.clear();
}

// ---- for the observer -------------------------------------------------------------------------------------

unsigned BlockRunner::able_to_run(unsigned warp) const {
  unsigned lanes = 0;
  for (unsigned t = warp * kLanes; t < std::min(warp * kLanes + kLanes, threads_in_block_); ++t) {
    const State state = thread_[t].state;
    if (state == State::fresh || state == State::ready || state == State::running) lanes |= 1u << t % kLanes;
  }
  return lanes;
}

void BlockRunner::let_others_run() {
  const unsigned self = current_;
  thread_[self].state = State::ready;
  push_ready(self);
  // Those that have not started come first here: elsewhere they come after all that can go on.
  const int next = next_fresh_ < threads_in_block_ ? order_[next_fresh_++] : take_next();
  hand_over(*thread_[self].fiber, next);
}

void BlockRunner::leave() {
  hand_over(*fiber_, -1);
  std::terminate();
}

// ---- faults ----------------------------------------------------------------------------------------------

namespace {

/// Threads as text: consecutive numbers become ranges.
std::string text_of(const std::vector<unsigned>& threads) {
  std::string text = threads.size() == 1 ? "thread" : "threads";
  const char* separator = " ";
  for (std::size_t first = 0, last = 0; first < threads.size(); first = ++last) {
    while (last + 1 < threads.size() && threads[last + 1] == threads[last] + 1) ++last;
    text += fmt::format("{}{}", separator, threads[first]);
    if (last > first) text += fmt::format("-{}", threads[last]);
    separator = ", ";
  }
  return text;
}

constexpr const char* kStateNames[] = {
    "not started",        "able to run",         "running",           "at a block barrier (__syncthreads)",
    "in a warp function", "at the grid barrier", "waiting in a loop", "exited"};
const char* name(State state) { return kStateNames[static_cast<std::size_t>(state)]; }

}  // namespace

std::string BlockRunner::place(const std::string& line) const {
  return fmt::format("{}: block {} thread {} of the kernel launched at {}: ", line, coordinates(blockIdx),
                     coordinates(thread_[current_].index), file_line(run_->grid.where));
}
std::string BlockRunner::place(Where at) const { return place(file_line(at)); }

// The frames above are never left, so the message must be the caller's only string, and is freed here.
void BlockRunner::fault(std::string what, Where at) {
  run_->stop_with(Fault::device, place(at) + what);
  std::string().swap(what);
  hand_over(*fiber_, -1);
  std::terminate();  // a stopped thread is never continued
}

std::string BlockRunner::waiters(State state, unsigned first, unsigned last) const {
  std::vector<unsigned> waiting;
  for (unsigned i = first; i < last; ++i)
    if (thread_[i].state == state) waiting.push_back(i);
  return fmt::format("{} {}", text_of(waiting), waiting.size() == 1 ? "waits" : "wait");
}

// One row for each group of threads that wait for the same at the same place.
void BlockRunner::append_table(std::string& text) const {
  std::vector<bool> told(threads_in_block_);
  for (unsigned i = 0; i < threads_in_block_; ++i) {
    if (told[i]) continue;
    const Thread& t = thread_[i];
    const bool placed = t.state != State::fresh && t.state != State::done && t.state != State::running;
    std::vector<unsigned> group;
    for (unsigned j = i; j < threads_in_block_; ++j) {
      const Thread& other = thread_[j];
      const bool same = other.state == t.state && (!placed || same_place(other.at, t.at)) &&
                        (t.state != State::warp || (other.mask == t.mask));
      if (!same) continue;
      group.push_back(j);
      told[j] = true;
    }
    text += fmt::format("\n  block {}: {}: {}", coordinates(blockIdx), text_of(group), name(t.state));
    if (t.state == State::warp) text += fmt::format(" with mask {:#010x}", t.mask);
    if (placed) text += " at " + file_line(t.at);
    if (t.state == State::running && observer_ != nullptr) text += observer_->where_ended();
  }
}

}  // namespace stages::simt
