#pragma once
// A loop over blocks on several threads, for work whose result does not depend on who does which block.

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "common/matrix/processors.hpp"
#include "common/matrix/types.hpp"

namespace stages {

/// `requested`, or one per processor that this process may use if that is 0 (or less).
inline int thread_count(int requested) { return requested > 0 ? requested : available_processors(); }

/// Calls work(worker, begin, end) for blocks that together cover [0, count), on up to `threads` threads;
/// worker is in [0, threads). Blocks are handed out as threads become free, because rows and columns of
/// skewed matrices differ in work by orders of magnitude. The first exception is thrown again here, after all
/// threads have ended.
template <class Work>
void parallel_blocks(Offset count, Offset block, int threads, Work&& work) {
  const Offset blocks = (count + block - 1) / block;
  const int workers = static_cast<int>(std::min<Offset>(blocks, thread_count(threads)));
  std::atomic<Offset> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  const auto run = [&](int worker) {
    try {
      for (Offset b; (b = next.fetch_add(1, std::memory_order_relaxed)) < blocks;)
        work(worker, b * block, std::min(count, (b + 1) * block));
    } catch (...) {
      const std::lock_guard hold(failure_lock);
      if (!failure) failure = std::current_exception();
      next = blocks;
    }
  };
  std::vector<std::jthread> others;
  try {
    for (int worker = 1; worker < workers; ++worker) others.emplace_back(run, worker);
  } catch (const std::system_error&) {
    // No more threads can be had (`ulimit -u`): those that there are do it.
  }
  run(0);
  others.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace stages
