// stages new: makes the directory of a step that builds, registers, and computes nothing yet.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/harness/results.hpp"
#include "common/matrix/error.hpp"
#include "common/suite/commands.hpp"

namespace stages {

// The templates, embedded by CMake from common/suite/templates.
extern const std::string_view new_spmv_cu, new_spmm_cu, new_spgemm_cu;
extern const std::string_view new_spmv_cpp, new_spmm_cpp, new_spgemm_cpp;
extern const std::string_view new_readme;

namespace {

namespace fs = std::filesystem;

struct NewOptions {
  std::string step;
  std::string entry;
  Op op = Op::spmv;
  bool host = false;
  std::string root = ".";
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

/// A word that names a file, an entry and, in capitals, a class.
bool is_name(std::string_view text) {
  return !text.empty() && is_lower(text.front()) && text.back() != '_' &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
}

/// my_first_step -> MyFirstStep.
std::string class_name(std::string_view name) {
  std::string out;
  bool capital = true;
  for (const char c : name) {
    if (c != '_') out += capital && is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c;
    capital = c == '_';
  }
  return out;
}

/// The steps that there are, by their directories.
std::vector<std::string> steps_in(const fs::path& root) {
  std::vector<std::string> out;
  for (const auto& item : fs::directory_iterator(root)) {
    const std::string name = item.path().filename().string();
    if (item.is_directory() && name.size() > 3 && is_digit(name[0]) && is_digit(name[1]) && name[2] == '_')
      out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Throws Error if the step cannot be made.
void require_possible(const NewOptions& options) {
  const std::string& step = options.step;
  if (step.size() < 4 || !is_digit(step[0]) || !is_digit(step[1]) || step[2] != '_' ||
      !is_name(std::string_view(step).substr(3))) {
    fail(
        "STEP: '{}' is no name of a step; two digits, an underline, then small letters, digits and "
        "underlines, such as 09_mine",
        step);
  }
  if (!is_name(options.entry)) {
    fail(
        "--entry: '{}' is no name of an entry; it starts with a small letter, and has small letters, digits "
        "and underlines",
        options.entry);
  }
  const fs::path root = options.root;
  if (!fs::exists(root / "cmake" / "StagesSteps.cmake")) {
    fail(
        "--root: '{}' is not the directory of sparse-stages' sources (it has no cmake/StagesSteps.cmake); go "
        "there, or name it",
        options.root);
  }
  for (const std::string& other : steps_in(root)) {
    if (other.substr(0, 2) == step.substr(0, 2))
      fail("STEP: {} is there already, and its digits are its place in the course; take others", other);
  }
}

std::string_view kernel_template(Op op, bool host) {
  switch (op) {
    case Op::spmv:
      return host ? new_spmv_cpp : new_spmv_cu;
    case Op::spmm:
      return host ? new_spmm_cpp : new_spmm_cu;
    case Op::spgemm:
      return host ? new_spgemm_cpp : new_spgemm_cu;
  }
  fail("--op: no template for it");
}

std::string with_names(std::string_view text, const NewOptions& options) {
  std::string out(text);
  const std::string number = options.step.substr(0, 2);
  const std::pair<std::string_view, std::string> names[] = {
      {"@STEP@", options.step},
      {"@ENTRY@", options.entry},
      {"@CLASS@", class_name(options.entry)},
      {"@NUMBER@", number},
      {"@OP@", std::string(to_string(options.op))},
  };
  for (const auto& [name, value] : names) {
    for (std::size_t at = 0; (at = out.find(name, at)) != std::string::npos; at += value.size())
      out.replace(at, name.size(), value);
  }
  return out;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail("{}: cannot be written; is there room?", path.string());
}

int work(NewOptions options) {
  if (options.entry.empty() && options.step.size() > 3) options.entry = options.step.substr(3);
  require_possible(options);
  const fs::path root = options.root, step = root / options.step;
  const fs::path unfinished = root / fmt::format(".{}.unfinished", options.step);
  const std::string kernel = fmt::format("{}.{}", options.entry, options.host ? "cpp" : "cu");
  std::error_code ignored;
  try {
    fs::remove_all(unfinished);
    fs::create_directory(unfinished);
    write(unfinished / kernel, with_names(kernel_template(options.op, options.host), options));
    write(unfinished / "README.md", with_names(new_readme, options));
    fs::rename(unfinished, step);  // all of it or nothing
  } catch (const fs::filesystem_error& error) {
    fs::remove_all(unfinished, ignored);
    fail("{}: cannot be made: {}", step.string(), error.code().message());
  } catch (...) {
    fs::remove_all(unfinished, ignored);
    throw;
  }
  fmt::print(
      "{0}/{1}: the {2}, which computes nothing yet: write what its line \"Yours\" says\n"
      "{0}/README.md: the lesson, to be written\n"
      "Then, from the directory of the sources:\n"
      "  tools/build.sh cpu\n"
      "  ctest --test-dir build/cpu -R battery --output-on-failure     (fails until the kernel is right)\n"
      "  build/cpu/bin/stages run --op {3} --stage 01,{4} -m data:fem\n",
      options.step, kernel, options.host ? "entry" : "kernel", to_string(options.op),
      options.step.substr(0, 2));
  return kGood;
}

}  // namespace

void add_new_command(CommandLine& line, const Program& program) {
  Command command = line.add("new", "Make the directory of a step of your own");
  const auto options = std::make_shared<NewOptions>();
  command.option("STEP", options->step, "Its name: two digits, its place in the course, and a word: 09_mine")
      .required();
  command
      .option_function(
          "--op", [options](const std::string& name) { options->op = value_named(kOps, name).value(); },
          "What it multiplies")
      .one_of(names_in(kOps))
      .type_name("spmv|spmm|spgemm")
      .default_text("spmv");
  command.option("--entry", options->entry, "Name of its entry (default: the step's, without the digits)");
  command.flag("--host", options->host, "C++ for one core instead of a CUDA kernel");
  command.option("--root", options->root, "Directory of the project's sources").shows_default();
  command.footer([&program] {
    return examples(program, {{"new 09_mine --op spmv", "a CUDA kernel that a student fills in"},
                              {"new 10_blocked --op spgemm --host", "the same for one core"}}) +
           "\nNothing else needs to be changed: the next build has the step, the battery checks it, and\n"
           "tables and the report show it. docs/adding-a-step.md has the rest.\n";
  });
  command.does([options] { return work(*options); });
}

}  // namespace stages
