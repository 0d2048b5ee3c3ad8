#include "common/matrix/byte_source.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
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
#include <utility>

#include "common/matrix/error.hpp"
#include "common/matrix/temporary_files.hpp"

namespace stages {
namespace {

constexpr std::size_t kPackedBlock = std::size_t{1} << 16;

/// A packed file may unfold to this much, or to this many times its size. Text of numbers unfolds to 3 to 30
/// times its size; gzip reaches 1032, so that megabytes could ask for gigabytes.
constexpr Offset kUnfoldsFreely = Offset{128} << 20;
constexpr Offset kMostTimes = 100;

std::string reason(int error) { return std::strerror(error); }

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  void reset(int fd) {
    close();
    fd_ = fd;
  }
  /// Returns false, with errno set, if the kernel only now reports that something was not written.
  bool close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path) {
    // O_NONBLOCK: opening a pipe that nobody writes to would otherwise wait for ever, before the check below.
    file_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file_.get() < 0) fail("cannot be opened ({}); check the name and the permissions", reason(errno));
    opened_ = stat();
    if (!S_ISREG(opened_.st_mode))
      fail("is {}; the reader goes over its input twice, so give it a file",
           S_ISDIR(opened_.st_mode) ? "a directory" : "not a regular file");
  }

  std::size_t read(std::span<char> to) override {
    for (;;) {
      const ssize_t count = ::read(file_.get(), to.data(), to.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) fail("cannot be read ({}); check the disk or copy the file", reason(errno));
    }
  }

  void rewind() override {
    const struct stat now = stat();
    if (now.st_size != opened_.st_size || now.st_mtim.tv_sec != opened_.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != opened_.st_mtim.tv_nsec) {
      fail("was changed while it was being read; wait until it is complete");
    }
    if (::lseek(file_.get(), 0, SEEK_SET) != 0) fail("cannot be read again ({})", reason(errno));
  }

  Offset size() const override { return opened_.st_size; }

 private:
  struct stat stat() const {
    struct stat facts {};
    if (::fstat(file_.get(), &facts) != 0) fail("cannot be examined ({})", reason(errno));
    return facts;
  }

  Descriptor file_;
  struct stat opened_ {};
};

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> packed) : packed_(std::move(packed)) {
    // 15 bits of window, + 16: gzip's header and checksum are expected and verified.
    if (::inflateInit2(&stream_, 15 + 16) != Z_OK) fail("cannot be unpacked: zlib does not start");
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { ::inflateEnd(&stream_); }

  std::size_t read(std::span<char> to) override {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(std::min(to.size(), kMost));
    const uInt asked = stream_.avail_out;
    while (stream_.avail_out == asked) {
      if (stream_.avail_in == 0) refill();
      if (stream_.avail_in == 0) {
        if (inside_member_) fail("the compressed data end too early; the file is truncated, get it again");
        return 0;
      }
      unpack();
    }
    const std::size_t count = asked - stream_.avail_out;
    unpacked_bytes_ += static_cast<Offset>(count);
    if (unpacked_bytes_ > kUnfoldsFreely && unpacked_bytes_ / kMostTimes > packed_bytes_)
      fail(
          "the compressed data unfold to more than {} times their size; if they are meant to, unpack them "
          "first, as by gunzip",
          kMostTimes);
    return count;
  }

  void rewind() override {
    packed_->rewind();
    ::inflateReset(&stream_);
    stream_.avail_in = 0;
    inside_member_ = true;
    packed_bytes_ = unpacked_bytes_ = 0;
  }

  Offset size() const override { return -1; }
  Offset packed_size() const override { return packed_->packed_size(); }

 private:
  void refill() {
    stream_.avail_in = static_cast<uInt>(packed_->read(input_));
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    packed_bytes_ += stream_.avail_in;
  }

  void unpack() {
    if (!inside_member_) {
      // Zeros fill a block of a tape or of a disk; gzip(1) takes them, too.
      while (stream_.avail_in > 0 && *stream_.next_in == 0) {
        ++stream_.next_in;
        --stream_.avail_in;
      }
      if (stream_.avail_in == 0) return;
      // A gzip file may consist of several members, one after another: their texts are joined.
      ::inflateReset(&stream_);
      inside_member_ = true;
    }
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      inside_member_ = false;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      fail("the compressed data are damaged ({}); get the file again",
           stream_.msg != nullptr ? stream_.msg : "zlib error");
    }
  }

  std::unique_ptr<ByteSource> packed_;
  z_stream stream_{};
  std::array<char, kPackedBlock> input_;
  bool inside_member_ = true;
  Offset packed_bytes_ = 0;    ///< read since the start
  Offset unpacked_bytes_ = 0;  ///< what they became
};

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

}  // namespace

std::size_t MemorySource::read(std::span<char> to) {
  const std::size_t count = std::min(to.size(), bytes_.size() - at_);
  std::copy_n(bytes_.data() + at_, count, to.data());
  at_ += count;
  return count;
}

std::unique_ptr<ByteSource> open_file(const std::string& path) { return std::make_unique<FileSource>(path); }

std::unique_ptr<ByteSource> unpacked(std::unique_ptr<ByteSource> source) {
  std::array<char, 6> start{};
  std::size_t count = 0;
  while (count < start.size()) {
    const std::size_t more = source->read(std::span(start).subspan(count));
    if (more == 0) break;
    count += more;
  }
  source->rewind();
  const std::string_view magic(start.data(), count);
  if (magic.starts_with("\x1f\x8b")) return std::make_unique<GzipSource>(std::move(source));

  using namespace std::string_view_literals;
  constexpr std::array<std::pair<std::string_view, const char*>, 5> kOthers = {
      {{"BZh"sv, "bzip2"},
       {"\xfd"
        "7zXZ\0"sv,
        "xz"},
       {"\x28\xb5\x2f\xfd"sv, "zstd"},
       {"PK\x03\x04"sv, "zip"},
       {"7z\xbc\xaf"sv, "7z"}}};
  for (const auto& [bytes, program] : kOthers)
    if (magic.starts_with(bytes)) fail("is compressed with {}; unpack it first, or use gzip", program);
  return source;
}

std::unique_ptr<ByteSource> open_unpacked(const std::string& path) {
  try {
    return unpacked(open_file(path));
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
}

namespace {

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
  std::array<char, kPackedBlock> packed;

  ~State() {
    if (packing) ::deflateEnd(&stream);
  }

  [[noreturn]] void give_up(const char* what, int error) const {
    fail("{}: {} ({}); choose a place with room and permission to write", path, what, reason(error));
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
