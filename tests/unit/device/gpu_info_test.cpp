#include "sotto/device/gpu_info.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/bytes.h"
#include "support/temp_folder.h"

namespace sotto::device {
namespace {

using test::kGiB;

TEST(Gpus, AreReadWithTheirCapabilities) {
  const GpuProfile profile = read_gpus({.library = SOTTO_FAKE_NVML});
  EXPECT_EQ(profile.driver_version, "580.95.05");
  EXPECT_EQ(profile.cuda_version, "13.1");
  ASSERT_EQ(profile.gpus.size(), 2u);
  const GpuInfo& h200 = profile.gpus[0];
  EXPECT_EQ(h200.index, 0);
  EXPECT_EQ(h200.name, "NVIDIA H200");
  EXPECT_EQ(h200.uuid, "GPU-11111111");
  EXPECT_EQ(h200.capability, (ComputeCapability{9, 0}));
  EXPECT_EQ(h200.num_sms, 132);
  ASSERT_TRUE(h200.memory.has_value());
  EXPECT_EQ(h200.memory->total_bytes, 140 * kGiB);
  EXPECT_EQ(h200.memory->free_bytes, 135 * kGiB);
  EXPECT_EQ(h200.memory->used_bytes, 5 * kGiB);
  EXPECT_EQ(profile.gpus[1].index, 1);
  EXPECT_EQ(profile.gpus[1].name, "Tesla T4");
  EXPECT_EQ(profile.gpus[1].num_sms, 40);
}

// Largest first; one process in both lists counts once; bytes and names may be unknown.
TEST(Gpus, ProcessesThatHoldMemoryAreNamed) {
  const test::TempFolder tree;
  tree.write("proc/4242/comm", "python3\n");
  tree.write("proc/4244/cmdline", std::string("/usr/bin/Xorg\0-core\0", 20));
  const GpuProfile profile = read_gpus({.library = SOTTO_FAKE_NVML, .root = tree.path()});
  const std::vector<GpuProcess>& processes = profile.gpus.at(0).processes;
  ASSERT_EQ(processes.size(), 3u);
  EXPECT_EQ(processes[0].pid, 4242);
  EXPECT_EQ(processes[0].name, "python3");
  EXPECT_EQ(processes[0].used_bytes, 3 * kGiB);
  EXPECT_EQ(processes[1].pid, 4244);
  EXPECT_EQ(processes[1].name, "Xorg");
  EXPECT_EQ(processes[1].used_bytes, kGiB / 2);
  EXPECT_EQ(processes[2].pid, 4243);
  EXPECT_EQ(processes[2].name, "");
  EXPECT_FALSE(processes[2].used_bytes.has_value());
}

TEST(Gpus, FailingFunctionIsNotedAndLosesOnlyItsField) {
  const GpuProfile profile = read_gpus({.library = SOTTO_FAKE_NVML});
  ASSERT_EQ(profile.notes.size(), 1u);
  EXPECT_EQ(profile.notes[0], "GPU 1, compute processes: Unknown Error (NVML status 999)");
  EXPECT_TRUE(profile.gpus.at(1).processes.empty());
  EXPECT_TRUE(profile.gpus.at(1).memory.has_value());
}

TEST(Gpus, OldLibraryLeavesFieldsEmptyWithoutNote) {
  const GpuProfile profile = read_gpus({.library = SOTTO_FAKE_NVML_OLD});
  EXPECT_TRUE(profile.notes.empty());
  EXPECT_EQ(profile.driver_version, "");
  EXPECT_EQ(profile.cuda_version, "");
  ASSERT_EQ(profile.gpus.size(), 1u);
  EXPECT_EQ(profile.gpus[0].name, "Old card");
  EXPECT_EQ(profile.gpus[0].uuid, "");
  EXPECT_FALSE(profile.gpus[0].memory.has_value());
  EXPECT_FALSE(profile.gpus[0].capability.has_value());
  EXPECT_FALSE(profile.gpus[0].num_sms.has_value());
  EXPECT_TRUE(profile.gpus[0].processes.empty());
}

TEST(Gpus, DriverMismatchIsNoted) {
  setenv("FAKE_NVML_INIT", "18", 1);
  const GpuProfile profile = read_gpus({.library = SOTTO_FAKE_NVML});
  unsetenv("FAKE_NVML_INIT");
  EXPECT_TRUE(profile.gpus.empty());
  ASSERT_EQ(profile.notes.size(), 1u);
  EXPECT_NE(profile.notes[0].find("Driver/library version mismatch (NVML status 18)"),
            std::string::npos)
      << profile.notes[0];
}

TEST(Gpus, MissingLibraryIsNoted) {
  const GpuProfile profile = read_gpus({.library = "libnot-there.so.1"});
  EXPECT_TRUE(profile.gpus.empty());
  ASSERT_EQ(profile.notes.size(), 1u);
  EXPECT_NE(profile.notes[0].find("libnot-there.so.1"), std::string::npos) << profile.notes[0];
}

TEST(Gpus, LibraryWithoutFunctionsIsNoted) {
  const GpuProfile profile = read_gpus({.library = "libm.so.6"});
  EXPECT_TRUE(profile.gpus.empty());
  ASSERT_EQ(profile.notes.size(), 1u);
  EXPECT_EQ(profile.notes[0], "libm.so.6 lacks the functions to find GPUs");
}

TEST(CoresPerSm, AreKnownForSupportedCards) {
  EXPECT_EQ(cores_per_sm({7, 0}), 64);
  EXPECT_EQ(cores_per_sm({7, 5}), 64);
  EXPECT_EQ(cores_per_sm({8, 0}), 64);
  EXPECT_EQ(cores_per_sm({8, 6}), 128);
  EXPECT_EQ(cores_per_sm({8, 9}), 128);
  EXPECT_EQ(cores_per_sm({9, 0}), 128);
  EXPECT_EQ(cores_per_sm({10, 3}), 128);
  EXPECT_EQ(cores_per_sm({12, 0}), 128);
  EXPECT_EQ(cores_per_sm({6, 1}), std::nullopt);
  EXPECT_EQ(cores_per_sm({99, 0}), std::nullopt);
}

}  // namespace
}  // namespace sotto::device
