#include "common/cli/help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "common/cli/terminal.hpp"

namespace stages {
namespace {

constexpr std::size_t kNameWidth = 26;

/// `text` from column `indent` on, broken between words so that lines end before column `width`. The first
/// line is not indented: something stands there already.
std::string wrap(const std::string& text, std::size_t indent, std::size_t width) {
  std::istringstream words(text);
  std::string out;
  std::size_t column = indent;
  for (std::string word; words >> word;) {
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

std::string option_line(const CLI::Option& option, std::size_t width) {
  std::string name = option.get_name(option.get_positional(), true);
  if (option.get_items_expected_max() > 0 && !option.get_positional()) name += " " + option.get_type_name();
  // The parser puts the values that a check allows behind a colon; here the description says them.
  if (const std::size_t colon = name.find(':'); colon != std::string::npos) name.erase(colon);
  std::string what = option.get_description();
  if (!option.get_default_str().empty()) what += " [" + option.get_default_str() + "]";
  return line(name, what, width);
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const {
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

}  // namespace stages
