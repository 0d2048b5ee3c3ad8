#include "common/judge/compile.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/judge/text.hpp"
#include "common/matrix/descriptor.hpp"
#include "common/matrix/error.hpp"

namespace stages::judge {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kOursSeconds{1800};  ///< what is the same for all files, the first time
constexpr std::chrono::seconds kGppSeconds{120}, kNvccSeconds{600};  ///< a student's file
constexpr double kCompilerMemory = 4e9;                              ///< bytes
constexpr std::uintmax_t kMostSource = 1'000'000;                    ///< bytes
constexpr const char* kRooms[] = {"matrix", "harness", "gpu", "simt", "mpi", "multigpu"};

/// One at a time: what is built for all students' files lies in the build directory.
class BuildLock {
 public:
  explicit BuildLock(const fs::path& build)
      : file_(open((build / "grade/lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666)) {
    const auto must = [&](bool done) {
      if (!done)
        fail("{}/grade: cannot be locked: {}; it must be writable", build.string(), std::strerror(errno));
    };
    must(file_.get() >= 0);
    if (flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return;
    must(errno == EWOULDBLOCK);
    fmt::print(stderr, "waiting for another grader, which builds in {}\n", build.string());
    int done = 0;
    while ((done = flock(file_.get(), LOCK_EX)) != 0 && errno == EINTR) {
    }
    must(done == 0);
  }

 private:
  Descriptor file_;
};

void require_room(const std::string& output, const fs::path& place) {
  if (holds(output, "No space left on device") || holds(output, "Disk quota exceeded"))
    fail("{}: the disk is full; free some room, or name another place in TMPDIR", place.string());
}

/// How the compiler or the linker is called for the target without a student's file.
struct Call {
  fs::path directory;
  std::vector<std::string> words;
};

Call recorded(const fs::path& file) {
  const std::string text = read_text(file);
  Call call;
  for (const std::string_view line : lines_of(text)) {
    if (call.directory.empty()) {
      call.directory = line;
    } else {
      call.words.emplace_back(line);
    }
  }
  if (call.words.empty()) fail("{}: is not there; build the project again: tools/build.sh", file.string());
  return call;
}

/// Builds what all students' files share.
void build_ours(const std::string& target, const Places& places, const Confinement& confinement) {
  const BuildLock lock(places.build);
  Confined cmake(confinement, {.words = {places.cmake, "--build", places.build.string(), "--target", target},
                               .directory = places.build,
                               .ours = true});
  const auto event = cmake.wait(-1, 0, Confined::Clock::now() + kOursSeconds);
  if (event == Confined::Event::ended && cmake.exit_code() == 0 && cmake.signal() == 0) return;
  require_room(cmake.output(), places.build);
  fail("{}: what all students' files share does not build: {}; build the project again: tools/build.sh",
       places.build.string(), one_line(last_words(cmake.output())));
}

void copy_included(const fs::path& root, const fs::path& file, const fs::path& to);

/// Copies a header to the same place below `to`, and what it includes.
void copy_header(const fs::path& root, const fs::path& header, const fs::path& to) {
  std::error_code why;
  if (!fs::is_regular_file(root / header, why) || fs::exists(to / header, why)) return;
  fs::create_directories((to / header).parent_path());
  fs::copy_file(root / header, to / header);
  copy_included(root, root / header, to);
}

/// Copies what a file includes by a path from the root of the project.
void copy_included(const fs::path& root, const fs::path& file, const fs::path& to) {
  const std::string text = read_text(file);
  for (std::string_view line : lines_of(text)) {
    if (!line.starts_with("#include \"")) continue;
    line.remove_prefix(std::strlen("#include \""));
    copy_header(root, line.substr(0, line.find('"')), to);
  }
}

/// The headers that a student's file may include: all of the rooms that entries need, and what the exercise
/// itself includes.
void copy_headers(const fs::path& root, const Exercise& exercise, const fs::path& to) {
  for (const char* const room : kRooms) {
    const fs::path directory = fs::path("common") / room;
    std::error_code none;
    for (const auto& file : fs::recursive_directory_iterator(root / directory, none)) {
      if (file.path().extension() == ".hpp") copy_header(root, fs::relative(file.path(), root), to);
    }
  }
  copy_included(root, exercise.master, to);
}

/// The files and directories that the words of a call name, but for the system's own.
std::vector<fs::path> named_in(const std::vector<std::string>& words) {
  std::vector<fs::path> out;
  const auto add = [&](const fs::path& path) {
    std::error_code none;
    if (path.is_absolute() && fs::exists(path, none) && !path.string().starts_with("/usr/") &&
        std::find(out.begin(), out.end(), path) == out.end())
      out.push_back(path);
  };
  for (const std::string& word : words) {
    const std::size_t path = word.find('/');
    if (path == std::string::npos) continue;
    std::string_view rest = std::string_view(word).substr(path);
    while (!rest.empty()) {  // -Wl,-rpath,A:B
      const std::size_t end = std::min(rest.find_first_of(",:"), rest.size());
      add(fs::path(rest.substr(0, end)));
      add(fs::path(std::string(rest.substr(0, end)) + ".gch"));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  add(installed_in(words.front()));  // a compiler lies among its own headers and libraries
  return out;
}

/// Whether `path` lies in `directory`.
bool lies_in(const fs::path& path, const fs::path& directory) {
  const auto [rest, none] = std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return rest == directory.end() || rest->empty();
}

/// The first file that the compiler has read and that no student's file may include; empty: there is none.
std::string foreign_header(const fs::path& dependencies, const std::vector<fs::path>& allowed) {
  const std::string text = read_text(dependencies);
  std::string word;
  std::vector<std::string> words;
  for (std::size_t k = 0; k <= text.size(); ++k) {
    const char c = k < text.size() ? text[k] : ' ';
    if (c == '\\' && k + 1 < text.size() && (text[k + 1] == ' ' || text[k + 1] == '#')) {
      word += text[++k];
    } else if (c == ' ' || c == '\n' || (c == '\\' && k + 1 < text.size() && text[k + 1] == '\n')) {
      if (!word.empty() && word.back() != ':') words.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  for (const std::string& name : words) {
    std::error_code none;
    const fs::path real = fs::weakly_canonical(name, none);
    const bool known = std::any_of(allowed.begin(), allowed.end(), [&](const fs::path& directory) {
      return lies_in(fs::path(name).lexically_normal(), directory) || lies_in(real, directory);
    });
    const bool system = lies_in(real, "/usr") || lies_in(real, "/opt") || lies_in(real, "/nix");
    if (!known && !system) return name;
  }
  return {};
}

/// The first errors of a compiler's or a linker's output, with short names of the files.
std::string errors_in(const std::string& output, const fs::path& scratch) {
  const auto is_undefined = [](std::string_view line) {
    return holds(line, "undefined reference") || holds(line, "undefined symbol");
  };
  const std::string in = (scratch / "in").string() + "/", include = (scratch / "include").string() + "/";
  std::string out;
  int count = 0;
  for (const std::string_view said : lines_of(output)) {
    if (is_undefined(said) && holds(said, "add_task"))
      return "it defines no void stages::add_task(stages::Registry&); keep the end of the exercise's file";
    const bool error = holds(said, ": error:") || holds(said, ": error ") || holds(said, "fatal error:") ||
                       holds(said, "fatal error ") || holds(said, "Error: ") || is_undefined(said) ||
                       holds(said, "multiple definition") || holds(said, "/ld: cannot ");
    if (!error || ++count > 3) continue;
    std::string line = one_line(said, 1000);
    for (const std::string& directory : {in, include}) {
      for (std::size_t at = 0; (at = line.find(directory)) != std::string::npos;)
        line.erase(at, directory.size());
    }
    // Of a file that is none of his he is told no line; what the compiler has written for the assembler is
    // his.
    if (const std::size_t at = line.find(".s:"); at != std::string::npos && holds(line, "Error: ")) {
      if (at == line.find(':') - 2) line.erase(0, line.find("Error: "));
    }
    if (line.starts_with('/') && !line.starts_with("/usr/"))
      line = line.substr(0, line.find(':')) + ": an error in a file that is neither yours nor of the project";
    out.append(out.empty() ? "" : "\n").append(one_line(line, 500));
  }
  return out.empty() ? one_line(output, 500) : out;
}

/// Runs the compiler or the linker. Returns its errors; empty: it has done its work.
std::string run(const Confinement& confinement, const Call& call, std::vector<fs::path> reads,
                const fs::path& scratch, bool gpp) {
  for (const char* const ours : {"in", "include"}) reads.push_back(scratch / ours);
  const char* const libraries = std::getenv("LD_LIBRARY_PATH");  // the compiler's own, where modules set it
  Confined work(
      confinement,
      {.words = call.words,
       .environment = {{"LC_ALL", "C.UTF-8"}, {"LD_LIBRARY_PATH", libraries != nullptr ? libraries : ""}},
       .directory = scratch / "out",
       .reads = std::move(reads),
       .writes = {scratch / "out"},
       .home = scratch / "home",
       .limits = {.memory = kCompilerMemory, .address_space = gpp ? kCompilerMemory : 0, .file = 1e9}});
  const std::chrono::seconds seconds = gpp ? kGppSeconds : kNvccSeconds;
  const auto event = work.wait(-1, 0, Confined::Clock::now() + seconds);
  if (event != Confined::Event::ended) work.end();
  const std::string& said = work.output();
  const std::string memory =
      fmt::format("the compiler takes more than {:g} GB of memory", kCompilerMemory / 1e9);
  if (event == Confined::Event::too_late)
    return fmt::format("the compiler takes more than {} s", seconds.count());
  if (event == Confined::Event::too_much_memory) return memory;
  if (event == Confined::Event::too_much_disk) return "what the compiler makes of it is too large";
  if (event == Confined::Event::too_much_output) return errors_in(said, scratch);
  if (work.exit_code() == 0 && work.signal() == 0) return {};
  require_room(said, scratch);
  for (const char* const sign :
       {"out of memory", "virtual memory exhausted", "Killed signal", "memory exhausted", "bad_alloc"})
    if (holds(said, sign)) return memory;
  if (holds(said, "File size limit exceeded") || holds(said, "file too large"))
    return "what the compiler makes of it is too large";
  return errors_in(said, scratch);
}

}  // namespace

void require_readable(const fs::path& file, const Confinement& confinement) {
  if (!confinement.other_user()) return;
  for (fs::path part = file; part.has_relative_path(); part = part.parent_path()) {
    struct stat status {};
    const mode_t needed = part == file ? S_IROTH : S_IXOTH;
    if (stat(part.c_str(), &status) == 0 && (status.st_mode & needed) == 0)
      fail(
          "{}: students' programs run as user {}, who may not read {}; chmod o+rX it, or build elsewhere: "
          "STAGES_BUILD=/opt/stages-build",
          file.string(), confinement.user(), part.string());
  }
}

std::string compile(const fs::path& file, const Exercise& exercise, const Places& places,
                    const Confinement& confinement, const fs::path& scratch, Build build,
                    StudentProgram& program) {
  const std::string kind = file.extension().string().substr(1);
  if (fs::file_size(file) > kMostSource) return fmt::format("it has more than {} bytes", kMostSource);
  const std::string target = (build == Build::counted ? "counted_" : "graded_") + kind;
  build_ours(target, places, confinement);
  const fs::path record = places.build / "grade" / target;
  Call compiler = recorded(record.string() + ".compile"), linker = recorded(record.string() + ".link");

  for (const char* const name : {"in", "include", "out", "home"}) fs::create_directory(scratch / name);
  for (const char* const name : {"out", "home"}) confinement.give(scratch / name);
  const fs::path source = scratch / "in" / exercise.master.filename();
  fs::copy_file(file, source, fs::copy_options::overwrite_existing);
  copy_headers(places.root, exercise, scratch / "include");
  chmod(source.c_str(), 0644);

  const std::string object = (scratch / "out" / (target + ".o")).string();
  const fs::path dependencies = scratch / "out" / (target + ".d");
  const fs::path placeholder = places.build / "grade" / ("student." + kind);
  std::vector<std::string> words;
  for (std::size_t k = 0; k < compiler.words.size(); ++k) {
    const std::string& word = compiler.words[k];
    const bool last = k + 1 == compiler.words.size();
    if (word == "-MD") continue;
    if ((word == "-MF" || word == "-MT" || word == "-MQ") && !last) {
      ++k;
    } else if (word == "-o" && !last) {
      words.insert(words.end(), {"-o", object});
      ++k;
    } else if ((compiler.directory / word).lexically_normal() == placeholder) {
      words.push_back(source.string());
    } else if (word == "-I" + places.root.string()) {
      words.push_back("-I" + (scratch / "include").string());
    } else {
      words.push_back(word);
    }
  }
  words.insert(words.end(), {"-MD", "-MF", dependencies.string()});
  compiler.words = std::move(words);
  const std::vector<fs::path> read_by_compiler = named_in(compiler.words);
  for (const fs::path& path : read_by_compiler) require_readable(path, confinement);
  const bool gpp = kind == "cpp" || !holds(compiler.words.front(), "nvcc");
  if (std::string errors = run(confinement, compiler, read_by_compiler, scratch, gpp); !errors.empty())
    return errors;
  std::vector<fs::path> allowed = read_by_compiler;
  for (const char* const name : {"in", "include", "out"}) allowed.push_back(scratch / name);
  for (const char* const room : kRooms) allowed.push_back(places.root / "common" / room);
  if (const std::string foreign = foreign_header(dependencies, allowed); !foreign.empty())
    return fmt::format("it includes {}; headers are those of common/, of the exercise and of the system",
                       one_line(foreign));

  // CMake 4 has the linker write down, in a directory of CMake's, what it has read.
  std::erase_if(linker.words,
                [](const std::string& word) { return word.starts_with("-Wl,--dependency-file="); });
  for (std::size_t k = 0; k < linker.words.size(); ++k) {
    std::string& word = linker.words[k];
    std::error_code none;
    if (word.ends_with("student." + kind + ".o")) {
      word = object;
    } else if (word == "-o" && k + 1 < linker.words.size()) {
      linker.words[++k] = (scratch / "out" / target).string();
    } else if (!word.starts_with('-') && k > 0 && fs::exists(linker.directory / word, none)) {
      word = (linker.directory / word).lexically_normal().string();
    }
  }
  program = {.file = scratch / "out" / target, .reads = named_in(linker.words)};
  for (const fs::path& path : program.reads) require_readable(path, confinement);
  return run(confinement, linker, program.reads, scratch, gpp);
}

}  // namespace stages::judge
