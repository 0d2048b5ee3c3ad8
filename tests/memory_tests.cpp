// How much memory may be taken: /proc and /sys are played by files.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/matrix/error.hpp"
#include "common/matrix/memory.hpp"

namespace stages {
namespace {

constexpr Offset kGib = Offset{1} << 30;

class Memory : public testing::Test {
 protected:
  Memory() { write("/proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n"); }
  ~Memory() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + file).parent_path());
    std::ofstream(root_ + file) << text;
  }
  void write(const std::string& file, Offset number) const { write(file, std::to_string(number) + "\n"); }
  Offset available() const { return available_memory(root_); }

 private:
  std::string root_ =
      (std::filesystem::temp_directory_path() / ("stages_memory_" + std::to_string(getpid()))).string();
};

TEST_F(Memory, IsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(available(), 32 * kGib);
}

TEST_F(Memory, IsNoMoreThanWhatACgroupLeaves) {
  write("/proc/self/cgroup", "0::/jobs/mine\n");
  write("/sys/fs/cgroup/jobs/mine/memory.max", 8 * kGib);
  write("/sys/fs/cgroup/jobs/mine/memory.current", 3 * kGib);
  EXPECT_EQ(available(), 5 * kGib);
  write("/sys/fs/cgroup/jobs/mine/memory.stat", "anon 1\ninactive_file " + std::to_string(2 * kGib) + "\n");
  EXPECT_EQ(available(), 7 * kGib) << "cached pages of files are given back";
}

TEST_F(Memory, IsNoMoreThanWhatTheCgroupsAroundItLeave) {
  write("/proc/self/cgroup", "0::/jobs/mine\n");
  write("/sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  write("/sys/fs/cgroup/jobs/memory.max", 4 * kGib);
  write("/sys/fs/cgroup/jobs/memory.current", 1 * kGib);
  EXPECT_EQ(available(), 3 * kGib);
}

TEST_F(Memory, KnowsAContainerThatSeesItsOwnCgroupAsTheTopmost) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", 2 * kGib);
  EXPECT_EQ(available(), 2 * kGib);
}

TEST_F(Memory, KnowsVersionOne) {
  write("/proc/self/cgroup", "7:cpu,cpuacct:/other\n5:memory:/docker/0123\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", 6 * kGib);  // the container's own, seen as the topmost
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", 2 * kGib);
  EXPECT_EQ(available(), 4 * kGib);
}

TEST_F(Memory, IsNothingWhereMoreIsUsedThanMayBe) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", 1 * kGib);
  write("/sys/fs/cgroup/memory.current", 2 * kGib);
  EXPECT_EQ(available(), 0);
}

TEST_F(Memory, WhatIsNotThereIsRefusedWithItsNumber) {
  EXPECT_NO_THROW(require_memory(1000, "x"));
  try {
    require_memory(1e18, "the transpose");
    FAIL() << "an exabyte is not there";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("the transpose takes 1e+09 GB of memory, and "),
              std::string::npos)
        << error.what();
  }
}

TEST_F(Memory, KnowsTheLimitsOfTheProcess) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer needs the address space";
#endif
  write("/proc/self/statm", "262144 0 0 0 0 131072 0\n");
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit before{};
    ASSERT_EQ(getrlimit(resource, &before), 0);
    rlimit limit = before;
    limit.rlim_cur = static_cast<rlim_t>(16 * kGib);
    ASSERT_EQ(setrlimit(resource, &limit), 0);
    const Offset page = sysconf(_SC_PAGESIZE);
    const Offset used = (resource == RLIMIT_AS ? 262144 : 131072) * page;
    EXPECT_EQ(available(), 16 * kGib - used);
    ASSERT_EQ(setrlimit(resource, &before), 0);
  }
}

}  // namespace
}  // namespace stages
