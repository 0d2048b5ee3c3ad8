#include "common/matrix/temporary_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/matrix/descriptor.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

/// A name where a signal handler finds it: it can neither wait for a lock nor allocate.
struct Slot {
  std::atomic<bool> taken = false, filled = false;
  std::array<char, PATH_MAX> path{};
};

std::array<Slot, 16> slots;

void remove(const char* path) {
  if (::unlink(path) != 0) ::rmdir(path);
}

int take_slot(const std::string& path) {
  for (std::size_t k = 0; k < slots.size() && path.size() < PATH_MAX; ++k) {
    if (slots[k].taken.exchange(true)) continue;
    std::memcpy(slots[k].path.data(), path.c_str(), path.size() + 1);
    slots[k].filled = true;
    return static_cast<int>(k);
  }
  return -1;
}

/// Throws Error if it is not there.
std::filesystem::path temporary_directory() {
  std::error_code why;
  const std::filesystem::path directory = std::filesystem::temp_directory_path(why);
  if (!why) return directory;
  if (const char* const value = std::getenv("TMPDIR"); value != nullptr)
    fail("TMPDIR={}: there is no such directory; name another or leave it out", value);
  fail("the directory for temporary files is not there; name one in TMPDIR");
}

constexpr const char* kUnknown = "-XXXXXX";  ///< behind a directory's name, for mkdtemp
/// The sticky bit says that a directory is locked while its process lives, however that ends. It comes after
/// the lock, and nobody else's directory of such a name has it.
constexpr mode_t kLocked = S_ISVTX;

int open_directory(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool lock(int directory) { return ::flock(directory, LOCK_EX | LOCK_NB) == 0; }

/// What processes left that were killed: ours, and not locked any more.
void remove_left(const std::filesystem::path& parent, const std::string& name) {
  std::error_code none;
  for (const auto& there : std::filesystem::directory_iterator(parent, none)) {
    const std::string known = there.path().filename().string();
    if (!known.starts_with(name + '-') || known.size() != name.size() + std::strlen(kUnknown)) continue;
    const Descriptor directory(open_directory(there.path().string()));
    struct stat facts {};
    const bool ours = ::fstat(directory.get(), &facts) == 0 && facts.st_uid == ::geteuid();
    if (ours && (facts.st_mode & kLocked) != 0 && lock(directory.get()))
      std::filesystem::remove_all(there.path(), none);
  }
}

std::string new_temporary_directory(const std::string& name) {
  const std::filesystem::path parent = temporary_directory();
  remove_left(parent, name);
  std::string path = (parent / (name + kUnknown)).string();
  if (::mkdtemp(path.data()) == nullptr)
    fail("{}: cannot be made: {}; name another directory in TMPDIR", path, std::strerror(errno));
  // Stays open: the lock ends with the process. A file system that has no locks keeps what is left.
  const int directory = open_directory(path);
  if (directory >= 0 && lock(directory)) ::fchmod(directory, S_IRWXU | kLocked);
  return path;
}

}  // namespace

TemporaryName::TemporaryName(std::string path) : path_(std::move(path)), slot_(take_slot(path_)) {}

TemporaryName::~TemporaryName() {
  if (!path_.empty()) remove(path_.c_str());
  forget();
}

void TemporaryName::forget() {
  path_.clear();
  if (slot_ < 0) return;
  Slot& slot = slots[static_cast<std::size_t>(slot_)];
  slot.filled = false;
  slot.taken = false;
  slot_ = -1;
}

TemporaryDirectory::TemporaryDirectory(const std::string& name) : name_(new_temporary_directory(name)) {}

void TemporaryDirectory::clear() const {
  std::error_code none;
  for (const auto& left : std::filesystem::directory_iterator(path(), none))
    std::filesystem::remove_all(left.path(), none);
}

void remove_temporary_files() {
  for (std::size_t k = slots.size(); k-- > 0;)
    if (slots[k].filled) remove(slots[k].path.data());
}

}  // namespace stages
