#pragma once
// How help texts look: options in groups, descriptions wrapped to the terminal, choices and defaults in
// brackets.

#include <CLI/CLI.hpp>
#include <string>

namespace stages {

/// The group of the options that say how files are read.
inline constexpr const char* kFilesGroup = "Files that break the rules";

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace stages
