#pragma once
// Text in lines: from a source of bytes, with the number of each line, for messages that say where.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  for (const char c : text.substr(0, kShown))
    out += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out + (text.size() > kShown ? "...'" : "'");
}

/// Editors and shells of Windows write text with a mark in front, or in two bytes a character.
inline void refuse_encodings(const std::string& name, std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf"))
    fail_at(name, 1,
            "the text begins with a byte-order mark (of UTF-8); remove these 3 bytes, as by `tail -c +4`");
  const bool wide = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
                    text.substr(0, 2).find('\0') != std::string_view::npos;
  if (wide) fail_at(name, 1, "the text is in UTF-16 or UTF-32; convert it, as by `iconv -f UTF-16 -t ASCII`");
}

/// The source's text, line by line; the last line needs no '\n'.
class Lines {
 public:
  /// The format allows 1024 characters a line.
  static constexpr std::size_t kLongestLine = std::size_t{1} << 18;

  Lines(ByteSource& source, const std::string& name) : source_(source), name_(name) {}

  const std::string& name() const { return name_; }
  Offset source_size() const { return source_.size(); }
  Offset packed_size() const { return source_.packed_size(); }

  /// The number of the line that was taken last.
  Offset line() const { return line_; }

  void rewind() {
    located([&] { source_.rewind(); });
    at_ = filled_ = 0;
    line_ = 0;
  }

  /// Takes the next line, without its '\n'; it is there until the one after it is taken. False at the end.
  bool next(std::string_view& text) {
    for (std::size_t searched = 0;;) {
      const std::string_view rest(buffer_.data() + at_, filled_ - at_);
      std::size_t stop = rest.find('\n', searched);
      if (stop == std::string_view::npos) {
        searched = rest.size();
        if (fill()) continue;
        // Zeros fill a block of a tape or of a disk, as behind packed data.
        while (filled_ > at_ && buffer_[filled_ - 1] == '\0') --filled_;
        if (filled_ == at_) return false;
        stop = filled_ - at_;
      }
      text = {buffer_.data() + at_, stop};
      at_ = std::min(at_ + stop + 1, filled_);
      ++line_;
      return true;
    }
  }

 private:
  /// Runs `action`; puts the place in front of what it complains about.
  template <class Action>
  void located(Action action) {
    try {
      action();
    } catch (const Error& error) {
      fail_at(name_, line_ + 1, "{}", error.what());
    }
  }

  /// Reads more behind what was not taken yet. False at the end.
  bool fill() {
    std::memmove(buffer_.data(), buffer_.data() + at_, filled_ - at_);
    filled_ -= at_;
    at_ = 0;
    if (filled_ == kLongestLine)
      fail_at(name_, line_ + 1, "the line is longer than {} bytes; is this a text of numbers?", kLongestLine);
    std::size_t count = 0;
    located([&] { count = source_.read(std::span(buffer_).subspan(filled_)); });
    filled_ += count;
    return count > 0;
  }

  ByteSource& source_;
  const std::string& name_;
  std::vector<char> buffer_ = std::vector<char>(kLongestLine);
  std::size_t at_ = 0;      ///< what was taken ends here
  std::size_t filled_ = 0;  ///< what was read ends here
  Offset line_ = 0;
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
