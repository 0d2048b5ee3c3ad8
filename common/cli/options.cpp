#include "common/cli/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <sstream>
#include <type_traits>

#include "common/cli/machines/child.hpp"
#include "common/cli/terminal.hpp"
#include "common/matrix/error.hpp"
#include "common/matrix/nearest.hpp"

namespace stages {
namespace {

constexpr std::size_t kNameWidth = 26;

/// `text` from column `indent` on, broken between words so that lines end before column `width`. The first
/// line is not indented: something stands there already.
std::string wrap(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  for (const std::string& word : words_in(text)) {
    if (column > indent && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

/// "  name     what it is", with the second part wrapped beside or, if the name is long, below the first.
std::string line(const std::string& name, const std::string& what, std::size_t width) {
  std::string out = "  " + name;
  if (what.empty()) return out + "\n";
  const std::size_t indent = kNameWidth + 2;
  out +=
      name.size() + 2 > kNameWidth ? "\n" + std::string(indent, ' ') : std::string(indent - out.size(), ' ');
  return out + wrap(what, indent, width) + "\n";
}

/// A colon of ours in the name of a type.
constexpr char kColon = '\x1f';

std::string option_line(const CLI::Option& option, std::size_t width) {
  std::string name = option.get_name(option.get_positional(), true);
  if (option.get_items_expected_max() > 0 && !option.get_positional()) name += " " + option.get_type_name();
  // The parser puts the values that a check allows behind a colon; here the description says them.
  if (const std::size_t colon = name.find(':'); colon != std::string::npos) name.erase(colon);
  std::ranges::replace(name, kColon, ':');
  std::string what = option.get_description();
  if (!option.get_default_str().empty()) what += " [" + option.get_default_str() + "]";
  return line(name, what, width);
}

/// How help texts look: options in groups, texts wrapped to the terminal, choices and defaults in brackets.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const override {
    const auto width = static_cast<std::size_t>(std::clamp(terminal_width(stdout), 60, 110));
    const auto positionals = app->get_options([](const CLI::Option* o) { return o->get_positional(); });
    const auto commands = app->get_subcommands([](const CLI::App*) { return true; });

    std::string out =
        wrap(app->get_description(), 0, width) + "\n\nUsage: " + (name.empty() ? app->get_name() : name);
    for (const CLI::Option* option : positionals) out += " " + option->get_name(true);
    out += commands.empty() ? " [OPTIONS]\n" : " COMMAND [OPTIONS]\n";
    if (!positionals.empty()) out += "\n";
    for (const CLI::Option* option : positionals) out += option_line(*option, width);

    if (!commands.empty()) out += "\nCommands:\n";
    for (const CLI::App* command : commands)
      out += line(command->get_name(), command->get_description(), width);

    // What a command is about first, what is the same everywhere last.
    std::vector<std::string> groups = app->get_groups();
    const auto special = [](const std::string& g) { return g == "Options" || g == kFilesGroup; };
    std::stable_partition(groups.begin(), groups.end(), [&](const std::string& g) { return !special(g); });
    std::erase(groups, "");  // options for the program itself
    for (const std::string& group : groups) {
      const auto options = app->get_options(
          [&](const CLI::Option* o) { return o->get_group() == group && !o->get_positional(); });
      if (options.empty()) continue;
      out += "\n" + group + ":\n";
      for (const CLI::Option* option : options) out += option_line(*option, width);
    }
    out += "\n" + app->get_footer();
    if (out.back() != '\n') out += '\n';
    return out;
  }
};

/// A check of a number's text: the message says `what` it must be. What is no number the parser says.
CLI::Validator number_check(std::string what, bool (*right)(double)) {
  return CLI::Validator(
      [what = std::move(what), right](const std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        return end != text.c_str() + text.size() || right(value) ? "" : text + " is no " + what;
      },
      "");
}

/// Empty, or what is wrong with a text that may not be empty: the parser takes that for 0.
std::string emptiness(const std::string& text) { return text.empty() ? "its value is empty" : ""; }

/// Empty, or what is wrong with the text of a number without sign: the parser takes -1 for the largest one.
std::string not_unsigned(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return fmt::format("{} is no whole number from 0 to {}", text, std::numeric_limits<std::uint64_t>::max());
}

/// Whole numbers are decimal: without this the parser takes 010 for the octal 8. Empty, or what is wrong.
std::string as_decimal(std::string& text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0), end, value);
  if (stop != end || error == std::errc::invalid_argument)
    return text.empty() ? emptiness(text) : text + " is no whole number";
  if (error == std::errc()) text = fmt::format("{}", value);  // else the parser says so
  return "";
}

/// Unknown commands, before the parser sees them: it would only say that an argument was not expected.
void require_known_command(const CLI::App& app, const std::vector<std::string>& words) {
  const std::string hint = fmt::format("see {} --help", app.get_name());
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (words.empty()) fail("no command given; the commands are {}; {}", fmt::join(names, ", "), hint);
  const std::string& first = words.front();
  if (first.empty() || first.front() == '-' || std::ranges::count(names, first) > 0) return;
  const std::vector<std::string_view> known(names.begin(), names.end());
  fail("there is no command '{}'; {}; {}", first, nearest_names(first, known), hint);
}

/// Throws Error for a list such as 1,,2: the parser leaves out what is empty.
void require_items(const CLI::App& command, const std::vector<std::string>& words) {
  for (auto word = words.begin(); word != words.end() && *word != "--"; ++word) {
    const std::string name = word->substr(0, word->find('='));
    const CLI::Option* const option = command.get_option_no_throw(name);
    if (option == nullptr || option->get_delimiter() != ',') continue;
    const std::string list = name != *word             ? word->substr(name.size() + 1)
                             : word + 1 != words.end() ? word[1]
                                                       : "";
    if (("," + list + ",").find(",,") != std::string::npos)
      fail("{} {}: an item of the list is empty; leave out the comma", name, list);
  }
}

}  // namespace

void Command::shape(CLI::Option& option, const OptionForm& form) const {
  if (form.hidden || !group_.empty()) option.group(form.hidden ? "" : group_);
  std::string type = form.type.empty() ? fmt::format("{}", fmt::join(form.one_of, "|")) : form.type;
  std::ranges::replace(type, ':', kColon);
  if (!type.empty()) option.type_name(type);
  if (form.shows_default) option.capture_default_str();
  if (!form.default_text.empty()) option.default_str(form.default_text);
  if (form.required) option.required();
  if (form.commas) option.delimiter(',')->allow_extra_args(false);
  if (!form.one_of.empty()) option.check(CLI::IsMember(form.one_of));
  if (form.positive) option.check(number_check("number above 0", [](double value) { return value > 0; }));
  if (form.not_negative)
    option.check(number_check("number from 0 on", [](double value) { return value >= 0; }));
  if (form.not_empty) option.check(CLI::Validator(emptiness, ""));
  if (words_ != nullptr)
    option.each([words = words_, name = option.get_name()](const std::string& value) {
      words->push_back(name + "=" + CLI::detail::trim_copy(value));
    });
}

template <class Value>
void Command::option(const std::string& names, Value& to, const std::string& meaning,
                     const OptionForm& form) {
  CLI::Option& option = *app_->add_option(names, to, meaning);
  constexpr bool kReal = std::is_same_v<Value, double> || std::is_same_v<Value, std::optional<double>>;
  if constexpr (kReal) {  // an infinite limit would let everything pass, and one that is none nothing
    option.check(CLI::Validator(emptiness, ""));
    option.check(number_check("finite number", [](double value) { return std::isfinite(value); }));
  } else if constexpr (std::is_same_v<Value, std::uint64_t>) {
    option.check(CLI::Validator(not_unsigned, ""));
  } else if constexpr (!std::is_same_v<Value, std::string> &&
                       !std::is_same_v<Value, std::vector<std::string>>) {
    option.transform(CLI::Validator(as_decimal, ""));
  }
  if (form.least < form.most && kReal) option.check(CLI::Range(form.least, form.most));
  if (form.least < form.most && !kReal)
    option.check(CLI::Range(static_cast<int>(form.least), static_cast<int>(form.most)));
  shape(option, form);
}
template void Command::option(const std::string&, std::string&, const std::string&, const OptionForm&);
template void Command::option(const std::string&, double&, const std::string&, const OptionForm&);
template void Command::option(const std::string&, int&, const std::string&, const OptionForm&);
template void Command::option(const std::string&, std::uint64_t&, const std::string&, const OptionForm&);
template void Command::option(const std::string&, std::optional<double>&, const std::string&,
                              const OptionForm&);
template void Command::option(const std::string&, std::optional<int>&, const std::string&, const OptionForm&);
template void Command::option(const std::string&, std::vector<std::string>&, const std::string&,
                              const OptionForm&);
template void Command::option(const std::string&, std::vector<int>&, const std::string&, const OptionForm&);

void Command::flag(const std::string& names, bool& to, const std::string& meaning, const OptionForm& form) {
  shape(*app_->add_flag(names, to, meaning), form);
}

void Command::footer(std::function<std::string()> text) {
  app_->footer("");  // not that of the whole program, which commands inherit
  app_->footer(std::move(text));
}

void Command::does(std::function<int()> work) {
  app_->callback([chosen = chosen_, work = std::move(work)] { *chosen = work; });
}

CommandLine::CommandLine(const std::string& name, const std::string& what,
                         std::function<std::string()> version, const std::string& footer)
    : app_(std::make_unique<CLI::App>(what, name)) {
  app_->formatter(std::make_shared<HelpFormatter>());
  app_->set_help_flag("-h,--help", "Show this text");
  app_->set_version_flag("--version", std::move(version), "Show the version");
  app_->footer(footer);
}

CommandLine::~CommandLine() = default;

Command CommandLine::add(const std::string& name, const std::string& what) {
  return Command(app_->add_subcommand(name, what), &chosen_);
}

CommandLine::Parsed CommandLine::parse(const std::vector<std::string>& words) {
  require_known_command(*app_, words);
  const auto command = [&] {
    const auto commands = app_->get_subcommands();
    return commands.empty() ? std::string() : commands.front()->get_name();
  };
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));  // which takes the last one first
  } catch (const CLI::Success& asked_for_text) {                          // --help, --version
    std::ostringstream text;
    app_->exit(asked_for_text, text, text);
    return {command(), {}, text.str()};
  } catch (const CLI::ParseError& error) {
    fail("{}; see {}{}{} --help", error.what(), app_->get_name(), command().empty() ? "" : " ", command());
  }
  for (const CLI::App* chosen : app_->get_subcommands()) require_items(*chosen, words);
  return {command(), chosen_, {}};
}

}  // namespace stages
