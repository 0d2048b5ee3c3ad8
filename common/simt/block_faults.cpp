// How a block tells of its faults: where the thread at fault stands, and who waits where.

#include <exception>

#include "common/simt/block_runner.hpp"

namespace stages::simt {
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
