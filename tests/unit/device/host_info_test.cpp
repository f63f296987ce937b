#include "sotto/device/host_info.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/bytes.h"
#include "support/temp_folder.h"

namespace sotto::device {
namespace {

using test::kGiB;

constexpr const char* kX86Cpu =
    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\n"
    "model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\nflags\t\t: fpu avx2 fma f16c bmi2\n\n"
    "processor\t: 1\nmodel name\t: another\nflags\t\t: fpu\n\n";
constexpr const char* kArmCpu =
    "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd bf16\nCPU implementer\t: 0x41\n"
    "CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n\n";
constexpr const char* k32GiB =
    "MemTotal:       33554432 kB\nMemFree:         1048576 kB\nMemAvailable:   16777216 kB\n";

class Host : public testing::Test {
 protected:
  HostInfo read(const std::string& architecture = "x86_64", int64_t num_cores = 8) const {
    return read_host(
        {.root = tree_.path(), .architecture = architecture, .num_scheduled_cores = num_cores});
  }

  test::TempFolder tree_;
};

TEST_F(Host, ReadsAnX86Machine) {
  tree_.write("proc/cpuinfo", kX86Cpu);
  tree_.write("proc/meminfo", k32GiB);
  tree_.write("etc/os-release", "ID=ubuntu\nPRETTY_NAME=\"Ubuntu 24.04 LTS\"\n");
  const HostInfo host = read();
  EXPECT_EQ(host.operating_system, "Ubuntu 24.04 LTS");
  EXPECT_EQ(host.architecture, "x86_64");
  EXPECT_EQ(host.cpu_model, "Intel(R) Xeon(R) CPU @ 2.20GHz");
  EXPECT_EQ(host.cpu_features, (std::vector<std::string>{"fpu", "avx2", "fma", "f16c", "bmi2"}));
  EXPECT_EQ(host.num_cores, 8);
  EXPECT_FALSE(host.cpu_quota_cores.has_value());
  EXPECT_EQ(host.machine_bytes, 32 * kGiB);
  EXPECT_EQ(host.total_bytes, 32 * kGiB);
  EXPECT_EQ(host.free_bytes, 16 * kGiB);
  EXPECT_FALSE(host.container_limit_bytes.has_value());
}

TEST_F(Host, NamesAnArmCpuByItsNumbers) {
  tree_.write("proc/cpuinfo", kArmCpu);
  tree_.write("proc/meminfo", k32GiB);
  const HostInfo host = read("aarch64");
  EXPECT_EQ(host.operating_system, "Linux");
  EXPECT_EQ(host.architecture, "aarch64");
  EXPECT_EQ(host.cpu_model, "Arm Neoverse-N1");
  EXPECT_EQ(host.cpu_features, (std::vector<std::string>{"fp", "asimd", "bf16"}));
}

TEST_F(Host, UnknownArmCpuKeepsItsNumbers) {
  tree_.write("proc/meminfo", k32GiB);
  tree_.write("proc/cpuinfo", "CPU implementer\t: 0x41\nCPU part\t: 0xfff\n");
  EXPECT_EQ(read("aarch64").cpu_model, "Arm part 0xfff");
  tree_.write("proc/cpuinfo", "CPU implementer\t: 0x4e\nCPU part\t: 0x004\n");
  EXPECT_EQ(read("aarch64").cpu_model, "NVIDIA part 0x004");
  tree_.write("proc/cpuinfo", "CPU implementer\t: 0x99\nCPU part\t: 0x001\n");
  EXPECT_EQ(read("aarch64").cpu_model, "aarch64 CPU of implementer 0x99 part 0x001");
  tree_.write("proc/cpuinfo", "");
  EXPECT_EQ(read("aarch64").cpu_model, "aarch64");
}

TEST_F(Host, ContainerLimitsRamAndCores) {
  tree_.write("proc/meminfo", k32GiB);
  tree_.write("proc/self/cgroup", "0::/box\n");
  tree_.write("sys/fs/cgroup/box/memory.max", "8589934592\n");
  tree_.write("sys/fs/cgroup/box/memory.current", "2147483648\n");
  tree_.write("sys/fs/cgroup/box/cpu.max", "250000 100000\n");
  const HostInfo host = read();
  EXPECT_EQ(host.container_limit_bytes, 8 * kGiB);
  EXPECT_EQ(host.total_bytes, 8 * kGiB);
  EXPECT_EQ(host.free_bytes, 6 * kGiB);
  EXPECT_EQ(host.machine_bytes, 32 * kGiB);
  EXPECT_EQ(host.cpu_quota_cores, 2.5);
  EXPECT_EQ(host.num_cores, 3);
}

// The machine may have less free memory than the container.
TEST_F(Host, FreeIsTheLesserOfMachineAndContainer) {
  tree_.write("proc/meminfo", "MemTotal:       33554432 kB\nMemAvailable:   1048576 kB\n");
  tree_.write("proc/self/cgroup", "0::/\n");
  tree_.write("sys/fs/cgroup/memory.max", "8589934592\n");
  EXPECT_EQ(read().free_bytes, 1 * kGiB);
}

TEST_F(Host, LimitAboveTheMachineIsIgnored) {
  tree_.write("proc/meminfo", k32GiB);
  tree_.write("proc/self/cgroup", "4:memory:/\n3:cpu:/\n");
  tree_.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree_.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  tree_.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "1600000\n");
  tree_.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const HostInfo host = read();
  EXPECT_FALSE(host.container_limit_bytes.has_value());
  EXPECT_EQ(host.total_bytes, 32 * kGiB);
  EXPECT_EQ(host.free_bytes, 16 * kGiB);
  EXPECT_FALSE(host.cpu_quota_cores.has_value());
  EXPECT_EQ(host.num_cores, 8);
}

TEST_F(Host, MemoryCanBeReadSeparately) {
  tree_.write("proc/meminfo", k32GiB);
  tree_.write("proc/self/cgroup", "0::/a\n");
  tree_.write("sys/fs/cgroup/a/memory.max", std::to_string(8 * kGiB) + "\n");
  tree_.write("sys/fs/cgroup/a/memory.current", std::to_string(5 * kGiB) + "\n");
  const MemoryAvailable memory = read_host_memory(tree_.path());
  EXPECT_EQ(memory.total_bytes, 8 * kGiB);
  EXPECT_EQ(memory.free_bytes, 3 * kGiB);
}

TEST_F(Host, OldKernelsHaveNoMemAvailable) {
  tree_.write("proc/meminfo", "MemTotal: 4096 kB\nMemFree: 1024 kB\n");
  EXPECT_EQ(read().free_bytes, 1 << 20);
}

TEST_F(Host, ReportsMissingProc) {
  EXPECT_THROW(read(), DataError);
  EXPECT_TRUE(read_cpu_features(tree_.path()).empty());
}

TEST(ThisHost, IsRead) {
  const HostInfo host = read_host();
  EXPECT_FALSE(host.cpu_model.empty());
  EXPECT_EQ(host.cpu_features, read_cpu_features());
  EXPECT_GE(host.num_cores, 1);
  EXPECT_GT(host.free_bytes, 0);
  EXPECT_LE(host.free_bytes, host.total_bytes);
  EXPECT_LE(host.total_bytes, host.machine_bytes);
}

}  // namespace
}  // namespace sotto::device
