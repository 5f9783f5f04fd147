#include "io/base/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "io/base/process_facts.h"
#include "tests/support/temp_dir.h"

namespace millrace {
namespace {

using testing::TempDir;

// Fake proc and sys folders.
class Machine : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = dir_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::optional<double> quota() const { return cpu_quota(dir_.path()); }

  TempDir dir_;
};

TEST_F(Machine, CoresAreUnlimitedWithoutAQuota) {
  EXPECT_FALSE(quota());
  put("proc/self/cgroup", "0::/user.slice\n");
  EXPECT_FALSE(quota());
  put("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
  EXPECT_FALSE(quota());
}

TEST_F(Machine, CoresAreTheQuotaOfVersion2) {
  put("proc/self/cgroup", "0::/pods/mine\n");
  put("sys/fs/cgroup/pods/mine/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/pods/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota(), 3.5);
  put("sys/fs/cgroup/pods/mine/cpu.max", "100000 50000\n");
  EXPECT_EQ(quota(), 2.0);
}

TEST_F(Machine, CoresAreTheQuotaOfVersion1) {
  put("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/docker/0123\n3:cpuset:/\n0::/\n");
  put("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(quota());
  put("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(Machine, CoresAreTheContainersOwnWhereThePathIsTheHosts) {
  put("proc/self/cgroup", "4:cpu,cpuacct:/docker/0123\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 4.0);
}

TEST_F(Machine, AnUnreadableLimitIsNone) {
  put("proc/self/cgroup", "\nnonsense\n0::\n0::/../..\n4:cpu:/x\n");
  put("sys/fs/cgroup/cpu.max", "a few\n");
  put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "100000\n");
  put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "0\n");
  EXPECT_FALSE(quota());
  put("sys/fs/cgroup/memory.max", "lots\n");
  EXPECT_FALSE(memory_limit(dir_.path()));
  put("sys/fs/cgroup/memory.max", "-1\n");
  EXPECT_FALSE(memory_limit(dir_.path()));
  put("proc/self/cgroup", "4:memory:/x\n");
  put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "99999999999999999999999999\n");
  EXPECT_FALSE(memory_limit(dir_.path()));
}

TEST_F(Machine, MemoryIsTheSmallestLimit) {
  EXPECT_FALSE(memory_limit(dir_.path()));
  put("proc/self/cgroup", "0::/pods/mine\n");
  put("sys/fs/cgroup/pods/mine/memory.max", "max\n");
  EXPECT_FALSE(memory_limit(dir_.path()));
  put("sys/fs/cgroup/pods/memory.max", "4294967296\n");
  EXPECT_EQ(memory_limit(dir_.path()), 4294967296U);
  put("sys/fs/cgroup/pods/mine/memory.max", "1073741824\n");
  EXPECT_EQ(memory_limit(dir_.path()), 1073741824U);
  put("proc/self/cgroup", "5:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "536870912\n");
  EXPECT_EQ(memory_limit(dir_.path()), 536870912U);
}

TEST_F(Machine, HasMemory) {
  EXPECT_GT(usable_memory(), std::uint64_t{1} << 28);
  EXPECT_LT(usable_memory(), std::uint64_t{1} << 50);
}

TEST_F(Machine, ProcessorIsTheFirstOfThem) {
  EXPECT_EQ(processor_name(dir_.path()), "");
  put("proc/cpuinfo",
      "processor\t: 0\nmodel\t\t: 17\nmodel name\t: A B: 96-Core\nmodel name\t: C\n");
  EXPECT_EQ(processor_name(dir_.path()), "A B: 96-Core");
  put("proc/cpuinfo", "processor\t: 0\nmodel name\t:\n");
  EXPECT_EQ(processor_name(dir_.path()), "");
}

TEST_F(Machine, PeakMemoryOutlivesItsUse) {
  constexpr std::size_t kMany = std::size_t{64} << 20U;
  const std::uint64_t before = peak_resident_memory();
  EXPECT_GT(before, 0U);
  std::vector<char>(before + kMany, 1);
  EXPECT_GT(peak_resident_memory(), before + kMany / 2);
}

TEST_F(Machine, CommandIsThisTests) {
  ASSERT_FALSE(command_words().empty());
  EXPECT_THAT(command_words().front(), ::testing::HasSubstr("io_tests"));
}

TEST_F(Machine, CoresAreNoMoreThanTheProcessMayRunOn) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), CPU_COUNT(&set));
}

}  // namespace
}  // namespace millrace
