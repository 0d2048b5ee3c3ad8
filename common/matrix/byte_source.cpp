#include "common/matrix/byte_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "common/matrix/descriptor.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

constexpr std::size_t kPackedBlock = std::size_t{1} << 16;

/// A packed file may unfold to this much, or to this many times its size. Text of numbers unfolds to 3 to 30
/// times its size; gzip reaches 1032, so that megabytes could ask for gigabytes.
constexpr Offset kUnfoldsFreely = Offset{128} << 20;
constexpr Offset kMostTimes = 100;

std::string reason(int error) { return std::strerror(error); }

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

}  // namespace stages
