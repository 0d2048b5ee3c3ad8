#include "common/matrix/atomic_file.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>

#include "common/matrix/descriptor.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/temporary_files.hpp"

namespace stages {
namespace {

/// Keeps the signal that the kernel sends when a file passes the size limit (RLIMIT_FSIZE) from ending the
/// program: write(2) then returns EFBIG, an error like any other. For this thread, for this object's life.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;
  ~NoSizeSignal() {
    if (sigismember(&before_, SIGXFSZ) == 0) {
      const timespec at_once{};
      ::sigtimedwait(&signal_, nullptr, &at_once);  // takes it away if it came
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t signal_, before_;
};

/// The number of this process's stream that a path names, or -1. A file behind it belongs to who opened it:
/// it must not be replaced, and is to be written from where the others are.
int own_stream(std::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view directory : {"/dev/fd/", "/proc/self/fd/"}) {
    int number = -1;
    const char* const end = path.data() + path.size();
    if (path.starts_with(directory) &&
        std::from_chars(path.data() + directory.size(), end, number).ptr == end)
      return number;
  }
  return -1;
}

}  // namespace

struct AtomicFile::State {
  std::string path;                        ///< as the caller named it, for messages
  std::string target;                      ///< where the bytes belong, links resolved
  std::optional<TemporaryName> temporary;  ///< where they are written; none: the target is written directly
  Descriptor file;
  bool packing = false;
  z_stream stream{};
  std::array<char, std::size_t{1} << 16> packed;

  ~State() {
    if (packing) ::deflateEnd(&stream);
  }

  [[noreturn]] void give_up(const char* what, int error) const {
    fail("{}: {} ({}); choose a place with room and permission to write", path, what, std::strerror(error));
  }

  void open() {
    struct stat facts {};
    target = path;
    if (const int ours = own_stream(path); ours >= 0) {
      file.reset(::fcntl(ours, F_DUPFD_CLOEXEC, 0));
      if (file.get() < 0) give_up("cannot be written", errno);
      return;
    }
    if (::stat(path.c_str(), &facts) == 0) {
      if (S_ISFIFO(facts.st_mode)) return open_pipe();
      if (!S_ISREG(facts.st_mode)) {
        file.reset(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
        if (file.get() < 0) give_up("cannot be written", errno);
        return;
      }
      if (char* real = ::realpath(path.c_str(), nullptr)) {
        target = real;
        std::free(real);
      }
      if (::access(target.c_str(), W_OK) != 0) give_up("cannot be written", errno);
    }
    open_temporary();
  }

  /// Waits for who reads it, as every program does, but not for ever: there may be more to tell.
  void open_pipe() {
    constexpr auto kPatience = std::chrono::seconds(10);
    const auto start = std::chrono::steady_clock::now();
    while (file.get() < 0) {
      file.reset(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
      if (file.get() >= 0) break;
      if (errno != ENXIO) give_up("cannot be written", errno);
      if (std::chrono::steady_clock::now() - start > kPatience)
        fail("{}: nobody reads from this pipe; start its reader first", path);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ::fcntl(file.get(), F_SETFL, O_WRONLY);  // writing waits again
  }

  void open_temporary() {
    for (int attempt = 0;; ++attempt) {
      temporary.emplace(fmt::format("{}.{}-{}.tmp", target, ::getpid(), attempt));
      file.reset(::open(temporary->path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (file.get() >= 0) return;
      const int error = errno;
      temporary->forget();
      if (error != EEXIST) give_up("cannot be written", error);
    }
  }

  void put(std::string_view bytes) {
    const NoSizeSignal guard;
    while (!bytes.empty()) {
      const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) give_up("writing stopped", errno);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  void pack(std::string_view bytes, int flush) {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    do {
      const std::size_t part = std::min(bytes.size(), kMost);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream.avail_in = static_cast<uInt>(part);
      bytes.remove_prefix(part);
      do {
        stream.next_out = reinterpret_cast<Bytef*>(packed.data());
        stream.avail_out = static_cast<uInt>(packed.size());
        ::deflate(&stream, flush);
        put({packed.data(), packed.size() - stream.avail_out});
      } while (stream.avail_out == 0);
    } while (!bytes.empty());
  }
};

AtomicFile::AtomicFile(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->open();
  if (path.ends_with(".gz")) {
    // + 16: gzip's header. It holds no time, so equal contents make equal files.
    if (::deflateInit2(&state_->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
      fail("{}: cannot be compressed: zlib does not start; write it without .gz", path);
    }
    state_->packing = true;
  }
}

AtomicFile::~AtomicFile() = default;

void AtomicFile::write(std::string_view bytes) {
  if (state_->packing) {
    state_->pack(bytes, Z_NO_FLUSH);
  } else {
    state_->put(bytes);
  }
}

void AtomicFile::commit() {
  State& s = *state_;
  if (s.packing) s.pack({}, Z_FINISH);
  // EINVAL: a pipe or a device that cannot be synced.
  if (::fsync(s.file.get()) != 0 && errno != EINVAL && errno != EROFS) s.give_up("writing stopped", errno);
  if (!s.file.close()) s.give_up("writing stopped", errno);
  if (!s.temporary) return;
  if (::rename(s.temporary->path().c_str(), s.target.c_str()) != 0) s.give_up("cannot be written", errno);
  s.temporary.reset();
  // The new name is safe on the disk only after its directory is; where that fails the file is whole anyway.
  const std::size_t slash = s.target.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : s.target.substr(0, slash + 1);
  const Descriptor parent(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() >= 0) ::fsync(parent.get());
}

}  // namespace stages
