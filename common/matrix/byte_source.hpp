#pragma once
// Where the readers of files take their bytes from. A reader may go over its input twice, so a source can be
// rewound. Messages thrown here carry no place: the caller, who counts lines, puts `file:line: ` in front.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/matrix/types.hpp"

namespace stages {

/// A stream of bytes that can be read again from its start.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Fills `to` with the next bytes and returns how many there were: 0 only at the end. Throws Error.
  virtual std::size_t read(std::span<char> to) = 0;

  /// Goes back to the first byte. Throws Error if what was read before is no longer what is there.
  virtual void rewind() = 0;

  /// How many bytes there are in all, or -1 where only reading tells (compressed input).
  virtual Offset size() const = 0;

  /// How many bytes it takes where it lies; fewer than it yields where it is compressed.
  virtual Offset packed_size() const { return size(); }
};

/// Bytes in memory, borrowed: `bytes` must outlive the source.
class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  std::size_t read(std::span<char> to) override;
  void rewind() override { at_ = 0; }
  Offset size() const override { return std::ssize(bytes_); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

/// A regular file, read with read(2). Throws Error if it cannot be opened or is not a regular file.
std::unique_ptr<ByteSource> open_file(const std::string& path);

/// `source` as it is, or unpacked if it starts with gzip's two magic bytes, whatever its name. Throws Error
/// for other compressions, by name.
std::unique_ptr<ByteSource> unpacked(std::unique_ptr<ByteSource> source);

/// The file, unpacked. Throws Error, which names the path.
std::unique_ptr<ByteSource> open_unpacked(const std::string& path);

}  // namespace stages
