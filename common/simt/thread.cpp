#include "common/simt/thread.hpp"

#include "common/simt/block_runner.hpp"
#include "common/simt/numbers.hpp"

namespace stages::simt {
namespace {

[[noreturn, gnu::noinline, gnu::cold]] void refuse_host(const char* function, Where at) {
  fail("{}: {} outside a kernel; it exists in device code only", file_line(at), function);
}

BlockRunner& runner_or_throw(const char* function, Where at) {
  if (!t_local.runner) [[unlikely]]
    refuse_host(function, at);
  return *t_local.runner;
}

}  // namespace

int block_barrier(Vote vote, int predicate, Where at) {
  return runner_or_throw("__syncthreads", at).block_barrier(vote, predicate, at, __builtin_return_address(0));
}
std::uint64_t meet(WarpOp op, unsigned mask, std::uint64_t value, unsigned lane, Where at) {
  return runner_or_throw("a warp function", at).meet(op, mask, value, lane, at, __builtin_return_address(0));
}
void multiply_tiles(TileOperands mine, Where at) {
  runner_or_throw("multiply_tiles", at)
      .meet(WarpOp::tiles, ~0u, reinterpret_cast<std::uintptr_t>(&mine), 0, at, __builtin_return_address(0));
}
void spin_turn(Where at) { runner_or_throw("a waiting loop", at).spin_turn(at); }
void spin_end() { runner_or_throw("a waiting loop", Where::current()).spin_end(); }
void pause_turn(Where at) { runner_or_throw("a waiting loop", at).pause_turn(at); }
void grid_barrier(Where at) {
  runner_or_throw("grid_sync", at).grid_barrier(at, __builtin_return_address(0));
}
void* cluster_shared_memory(void* own, unsigned rank, Where at) {
  return runner_or_throw("cluster_shared", at).cluster_shared_memory(own, rank, at);
}
void* dynamic_shared_memory() {
  return runner_or_throw("dynamic_shared", Where::current()).dynamic_shared_memory();
}
unsigned lane_of_thread() { return runner_or_throw("a warp function", Where::current()).lane(); }
void device_fault(std::string what, Where at) {
  if (!t_local.runner) throw Error(fmt::format("{}: {}", file_line(at), what));
  t_local.runner->fault(std::move(what), at);
}

int compute_capability() { return device().major * 10 + device().minor; }

void require_capability(int needed, const char* what, Where at) {
  if (compute_capability() >= needed) return;
  device_fault(fmt::format("{} needs compute capability {}.{}; this device has {}.{}", what, needed / 10,
                           needed % 10, device().major, device().minor),
               at);
}

void misaligned_access(const void* p, std::size_t alignment, Where at) {
  device_fault(fmt::format("a misaligned access: {} is no multiple of {} bytes", p, alignment), at);
}

void trace_atomic(const volatile void* p, unsigned bytes, AtomicHow how) {
  t_local.observer->change(p, bytes, how, __builtin_return_address(0));
  t_local.in_atomic = true;
}
void trace_next(const volatile void* p, AtomicHow how) { t_local.observer->next_is_atomic(p, how); }
void trace_fence(Scope scope) { t_local.observer->fence(scope); }
void trace_look(bool begins) { t_local.observer->look(begins); }

}  // namespace stages::simt
