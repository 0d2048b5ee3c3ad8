#include "common/mpi/session.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <thread>

#include "common/matrix/error.hpp"
#include "common/mpi/check.hpp"

namespace stages::mpi {

static_assert(std::atomic<int>::is_always_lock_free, "a lock would not work between processes");

Session::Session() : exceptions_at_start_(std::uncaught_exceptions()) {
  int started = 0;
  MPI_Initialized(&started);
  if (started != 0) fail("MPI was started twice in one process; keep one mpi::Session");
  // Threads read files and check results; MPI itself is called by one of them only.
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "starting MPI");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "asking MPI to return its errors");
  rank_ = own_rank(MPI_COMM_WORLD);
  size_ = rank_count(MPI_COMM_WORLD);
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node_),
        "finding the ranks of this node");
  const int node_rank = own_rank(node_);
  void* place = nullptr;
  try {
    check(MPI_Win_allocate_shared(node_rank == 0 ? sizeof(std::atomic<int>) : 0, 1, MPI_INFO_NULL, node_,
                                  &place, &speaker_window_),
          "allocating shared memory");
  } catch (const Error& error) {
    problem_ = error.what();
    return;
  }
  MPI_Aint bytes = 0;
  int unit = 0;
  check(MPI_Win_shared_query(speaker_window_, 0, &bytes, &unit, &place), "finding the shared memory");
  if (node_rank == 0) new (place) std::atomic<int>(0);
  speaker_ = static_cast<std::atomic<int>*>(place);
  check(MPI_Barrier(node_), "waiting for the other ranks");
}

Session::~Session() {
  if (std::uncaught_exceptions() > exceptions_at_start_) abort("", EXIT_FAILURE);
  if (speaker_ != nullptr) MPI_Win_free(&speaker_window_);
  MPI_Comm_free(&node_);
  MPI_Finalize();
}

bool Session::first_to_speak() { return speaker_ != nullptr ? speaker_->fetch_add(1) == 0 : rank_ == 0; }

void Session::abort(std::string_view message, int code) {
  const auto speak = [&] {
    std::fwrite(message.data(), 1, message.size(), stderr);
    std::fflush(stderr);
  };
  if (first_to_speak()) {
    speak();
  } else {
    // The first one is about to end this process too. If it can't, this one does it.
    std::this_thread::sleep_for(std::chrono::seconds(2));
    if (speaker_ == nullptr) speak();  // rank 0 has no problem
  }
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

int world_size() {
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  return started != 0 && ended == 0 ? rank_count(MPI_COMM_WORLD) : 1;
}

}  // namespace stages::mpi
