#pragma once
// Text in lines: from a source of bytes, with the number of each line, for messages that say where.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "common/matrix/byte_source.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/types.hpp"

namespace stages {

/// Throws an Error that starts with `name:line: `.
template <class... Args>
[[noreturn]] void fail_at(const std::string& name, Offset line, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Error(fmt::format("{}:{}: {}", name, line, fmt::format(format, std::forward<Args>(args)...)));
}

/// Text from the file as a message may show it: short, printable, on one line.
inline std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out + (text.size() > kShown ? "...'" : "'");
}

/// The source's text in blocks of whole lines, the last of which ends in '\n' even where the file's does not.
/// Blocks stay in the second-level cache.
class Lines {
 public:
  /// The format allows 1024 characters a line.
  static constexpr std::size_t kLongestLine = std::size_t{1} << 18;

  Lines(ByteSource& source, const std::string& name) : source_(source), name_(name) {
    std::memset(storage_.data(), 0, kPadding);
  }

  const std::string& name() const { return name_; }
  Offset source_size() const { return source_.size(); }
  Offset packed_size() const { return source_.packed_size(); }

  /// The number of the line that was taken last.
  Offset line() const { return line_; }

  void rewind() {
    located<void>([&] { source_.rewind(); });
    at_ = end_ = filled_ = 0;
    line_ = 0;
    at_end_ = false;
  }

  /// Takes the next line, without its '\n'. False at the end.
  bool next(std::string_view& text) {
    if (at_ == end_ && !fill()) return false;
    const char* const begin = buffer_ + at_;
    const char* const stop = static_cast<const char*>(std::memchr(begin, '\n', end_ - at_));
    text = {begin, static_cast<std::size_t>(stop - begin)};
    at_ += text.size() + 1;
    ++line_;
    return true;
  }

  /// What can be taken without reading more: [begin, end) is whole lines, and empty only at the end of the
  /// text. 64 bytes on either side may be loaded.
  struct Block {
    const char* begin;
    const char* end;
  };
  Block block() {
    if (at_ == end_) fill();
    return {buffer_ + at_, buffer_ + end_};
  }

  /// The block was taken; it held `count` lines.
  void took_block(Offset count) {
    at_ = end_;
    line_ += count;
  }

 private:
  static constexpr std::size_t kPadding = 128;

  /// Runs `action`; puts the place in front of what it complains about.
  template <class Result, class Action>
  Result located(Action action) {
    try {
      return action();
    } catch (const Error& error) {
      fail_at(name_, line_ + 1, "{}", error.what());
    }
  }

  bool fill() {
    const bool more = read_lines();
    // Words are loaded past the end of the text: what is there decides nothing, yet it is to be something.
    std::memset(buffer_ + filled_, 0, kPadding);
    return more;
  }

  bool read_lines() {
    std::memmove(buffer_, buffer_ + end_, filled_ - end_);
    filled_ -= end_;
    at_ = end_ = 0;
    while (!at_end_) {
      const std::size_t count = located<std::size_t>([&] {
        return source_.read({buffer_ + filled_, kLongestLine - filled_});
      });
      const std::string_view added(buffer_ + filled_, count);
      filled_ += count;
      if (const std::size_t stop = added.rfind('\n'); stop != std::string_view::npos) {
        end_ = filled_ - count + stop + 1;
        return true;
      }
      at_end_ = count == 0 && filled_ < kLongestLine;
      if (filled_ == kLongestLine) {
        fail_at(name_, line_ + 1, "the line is longer than {} bytes; is this a Matrix Market file?",
                kLongestLine);
      }
    }
    if (filled_ == 0) return false;
    buffer_[filled_++] = '\n';
    end_ = filled_;
    return true;
  }

  ByteSource& source_;
  const std::string& name_;
  Buffer<char> storage_ = Buffer<char>(kPadding + kLongestLine + kPadding);
  char* const buffer_ = storage_.data() + kPadding;
  std::size_t at_ = 0;      ///< what was taken ends here
  std::size_t end_ = 0;     ///< whole lines end here
  std::size_t filled_ = 0;  ///< what was read ends here
  Offset line_ = 0;
  bool at_end_ = false;
};

/// What separates words within a line.
inline constexpr std::string_view kBlank = " \t\r\v\f";

/// Whether a line holds nothing to read.
inline bool is_blank_or_comment(std::string_view line) {
  const std::size_t first = line.find_first_not_of(kBlank);
  return first == std::string_view::npos || line[first] == '%';
}

/// The words of a line: how many, and the first few.
struct Words {
  static constexpr std::size_t kKept = 6;
  std::array<std::string_view, kKept> word;
  std::size_t count = 0;

  explicit Words(std::string_view line) {
    for (std::size_t from = 0; (from = line.find_first_not_of(kBlank, from)) != std::string_view::npos;) {
      const std::size_t to = std::min(line.find_first_of(kBlank, from), line.size());
      if (count < kKept) word[count] = line.substr(from, to - from);
      ++count;
      from = to;
    }
  }
};

}  // namespace stages
