#pragma once
// Commands and their options as this program declares them. The parser behind it is CLI11, which takes long
// to compile: options.cpp alone includes it.

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace stages {

/// The group of the options that say how files are read.
inline constexpr const char* kFilesGroup = "Files that break the rules";

/// How an option looks in the help text, and what its value must be. Numbers are finite.
struct OptionForm {
  std::string type = {};          ///< the word for its value; empty: one_of
  std::string default_text = {};  ///< what stands for its default; empty: see shows_default
  std::vector<std::string> one_of = {};
  double least = 0, most = 0;  ///< the same: any
  bool shows_default = false;  ///< the value that it has now
  bool hidden = false;         ///< from the help text
  bool required = false;
  bool commas = false;  ///< a list in one word: 1,2,4
  bool positive = false, not_negative = false, not_empty = false;
};

/// A command such as `run`.
class Command {
 public:
  /// `chosen` becomes the command's work when the line names it. Both outlive this object.
  Command(CLI::App* app, std::function<int()>* chosen) : app_(app), chosen_(chosen) {}

  /// An option with a value, or, where the name has no dash, an argument. Value is std::string, double, int,
  /// std::uint64_t, a std::optional of double or int, or a std::vector of std::string or int. What has no sign
  /// is written without. `to` must outlive the parser.
  template <class Value>
  void option(const std::string& names, Value& to, const std::string& meaning, const OptionForm& form = {});
  void flag(const std::string& names, bool& to, const std::string& meaning, const OptionForm& form = {});
  /// The group of the options that are declared from here on. `words` gets those that the line has, as
  /// --name=value.
  void heading(const std::string& group, std::vector<std::string>* words = nullptr) {
    group_ = group;
    words_ = words;
  }
  /// What stands below the options in the help text, made when it is asked for.
  void footer(std::function<std::string()> text);
  /// What the command does; returns the exit code.
  void does(std::function<int()> work);

 private:
  void shape(CLI::Option& option, const OptionForm& form) const;

  CLI::App* app_;
  std::function<int()>* chosen_;
  std::string group_;
  std::vector<std::string>* words_ = nullptr;
};

/// The whole command line.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& what, std::function<std::string()> version,
              const std::string& footer);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command add(const std::string& name, const std::string& what);

  struct Parsed {
    std::string command;        ///< empty: none was given
    std::function<int()> work;  ///< what it does; empty where only a text was asked for
    std::string text;           ///< the help text or the version that was asked for
  };
  /// `words`: the line without the program's name. Throws Error where it cannot be understood.
  Parsed parse(const std::vector<std::string>& words);

 private:
  std::unique_ptr<CLI::App> app_;
  std::function<int()> chosen_;
};

}  // namespace stages
