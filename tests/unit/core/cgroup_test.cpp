#include "sotto/core/cgroup.h"

#include <gtest/gtest.h>

#include "support/bytes.h"
#include "support/temp_folder.h"

namespace sotto {
namespace {

using test::kGiB;

class Cgroup : public testing::Test {
 protected:
  CgroupLimits read() const { return read_cgroup_limits(tree_.path()); }

  test::TempFolder tree_;
};

TEST_F(Cgroup, NoGroupsMeanNoLimits) {
  const CgroupLimits limits = read();
  EXPECT_FALSE(limits.memory_limit_bytes.has_value());
  EXPECT_FALSE(limits.memory_free_bytes.has_value());
  EXPECT_FALSE(limits.cpu_quota_cores.has_value());
}

// The group itself has no limit, its parent is full up to 1 GiB of file cache, and the level above
// has the lowest limit: limit and free memory come from different levels.
TEST_F(Cgroup, Version2TakesTheTightestLevel) {
  tree_.write("proc/self/cgroup", "0::/kube/pod/box\n");
  tree_.write("sys/fs/cgroup/kube/pod/box/memory.max", "max\n");
  tree_.write("sys/fs/cgroup/kube/pod/box/memory.current", "1000\n");
  tree_.write("sys/fs/cgroup/kube/pod/memory.max", "17179869184\n");
  tree_.write("sys/fs/cgroup/kube/pod/memory.current", "17179869184\n");
  tree_.write("sys/fs/cgroup/kube/pod/memory.stat",
              "anon 5\ninactive_file_not 7\ninactive_file 1073741824\nactive_file 9\n");
  tree_.write("sys/fs/cgroup/kube/memory.max", "8589934592\n");
  tree_.write("sys/fs/cgroup/kube/memory.current", "2147483648\n");
  const CgroupLimits limits = read();
  EXPECT_EQ(limits.memory_limit_bytes, 8 * kGiB);
  EXPECT_EQ(limits.memory_free_bytes, 1 * kGiB);
}

TEST_F(Cgroup, Version2ReadsTheQuota) {
  tree_.write("proc/self/cgroup", "0::/a/b\n");
  tree_.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  tree_.write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(read().cpu_quota_cores, 1.5);
}

// Inside a container with its own namespace the path is "/"; seen from outside its group it starts
// with "..".
TEST_F(Cgroup, MountPointIsReadForAnyPath) {
  tree_.write("sys/fs/cgroup/memory.max", "4294967296\n");
  for (const char* group : {"0::/\n", "0::/../../other\n", "0::/system.slice/docker-1.scope\n"}) {
    tree_.write("proc/self/cgroup", group);
    const CgroupLimits limits = read();
    EXPECT_EQ(limits.memory_limit_bytes, 4 * kGiB) << group;
    EXPECT_EQ(limits.memory_free_bytes, 4 * kGiB) << group;
  }
}

TEST_F(Cgroup, Version1ReadsItsOwnNames) {
  tree_.write("proc/self/cgroup",
              "9:name=systemd:/x\n4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n2:cpuset:/\n0::/\n");
  tree_.write("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "4294967296\n");
  tree_.write("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "3221225472\n");
  tree_.write("sys/fs/cgroup/memory/docker/1/memory.stat",
              "inactive_file 7\ntotal_inactive_file 1073741824\n");
  tree_.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree_.write("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "250000\n");
  tree_.write("sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n");
  tree_.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  tree_.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const CgroupLimits limits = read();
  EXPECT_EQ(limits.memory_limit_bytes, 4 * kGiB);
  EXPECT_EQ(limits.memory_free_bytes, 2 * kGiB);
  EXPECT_EQ(limits.cpu_quota_cores, 2.5);
}

TEST_F(Cgroup, LimitsOfBothVersionsAreCombined) {
  tree_.write("proc/self/cgroup", "4:memory:/a\n0::/b\n");
  tree_.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4294967296\n");
  tree_.write("sys/fs/cgroup/unified/b/memory.max", "2147483648\n");
  EXPECT_EQ(read().memory_limit_bytes, 2 * kGiB);
}

TEST_F(Cgroup, UsageAboveTheLimitLeavesNothing) {
  tree_.write("proc/self/cgroup", "0::/\n");
  tree_.write("sys/fs/cgroup/memory.max", "1000\n");
  tree_.write("sys/fs/cgroup/memory.current", "1500\n");
  EXPECT_EQ(read().memory_free_bytes, 0);
}

TEST_F(Cgroup, BrokenFilesAreIgnored) {
  tree_.write("proc/self/cgroup", "nonsense\n\n0:\n0::/a\n");
  tree_.write("sys/fs/cgroup/a/memory.max", "12x\n");
  tree_.write("sys/fs/cgroup/a/cpu.max", "0 0\n");
  // A folder where a file should be.
  tree_.write("sys/fs/cgroup/memory.max/file", "5\n");
  const CgroupLimits limits = read();
  EXPECT_FALSE(limits.memory_limit_bytes.has_value());
  EXPECT_FALSE(limits.cpu_quota_cores.has_value());
}

}  // namespace
}  // namespace sotto
