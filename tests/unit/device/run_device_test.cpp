#include "sotto/device/run_device.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <set>

#include "sotto/core/error.h"
#include "sotto/device/device_table.h"
#include "sotto/device/host_info.h"
#include "sotto/device/staging_buffer.h"
#include "support/thrown.h"

namespace sotto::device {
namespace {

using test::contains;
using test::message_of;

TEST(RunDevice, CpuIsAvailable) {
  const RunDevice device = open_device("cpu");
  EXPECT_TRUE(device.torch.is_cpu());
  EXPECT_FALSE(device.target.is_cuda());
  EXPECT_GT(device.memory.free_bytes, 0);
  EXPECT_LE(device.memory.free_bytes, device.memory.total_bytes);
}

TEST(RunDevice, InvalidDevicesAreRefusedByName) {
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:-1", ""}) {
    const std::string text = message_of<ConfigError>([&] { open_device(name); });
    EXPECT_PRED2(contains, text, "cpu, cuda or cuda:N") << name;
  }
  const std::string text = message_of<ConfigError>([] { open_device("cpu", "t4"); });
  EXPECT_PRED2(contains, text, "--device cuda");
  if (at::hasCUDA()) return;
  EXPECT_PRED2(contains, message_of<ConfigError>([] { open_device("cuda"); }), "SOTTO_CUDA=ON");
}

TEST(HostBudget, NeedsAGpuOrDataKeptOnTheHost) {
  const std::string text = message_of<ConfigError>(
      [] { resolve_host_budget(MemorySize::parse("1GiB"), {}, /*keeps=*/false); });
  EXPECT_PRED2(contains, text, "a run on the CPU");
  EXPECT_EQ(resolve_host_budget(MemorySize::parse("1MiB"), {}, /*keeps=*/true), int64_t{1} << 20);

  const Target gpu{.processor = Processor::kCuda, .capability = 90};
  EXPECT_EQ(resolve_host_budget(MemorySize::parse("1MiB"), gpu, /*keeps=*/false), int64_t{1} << 20);
  const std::string too_much = message_of<ConfigError>(
      [&] { resolve_host_budget(MemorySize::parse("900000GiB"), gpu, /*keeps=*/true); });
  EXPECT_PRED2(contains, too_much, "--host-memory auto");
}

// Other programs allocate and free memory meanwhile.
TEST(HostBudget, AutoIsThreeQuartersOfFreeRam) {
  const auto free = static_cast<double>(read_host().free_bytes);
  for (const Target& target : {Target{}, Target{.processor = Processor::kCuda, .capability = 90}}) {
    for (const bool keeps : {false, true}) {
      const auto bytes = static_cast<double>(resolve_host_budget({}, target, keeps));
      EXPECT_NEAR(bytes / free, 0.75, 0.1);
    }
  }
}

TEST(DeviceTable, KnowsCardCapabilities) {
  EXPECT_FALSE(find_device("t4").target().has_bf16());
  EXPECT_FALSE(find_device("t4").target().has_flash_attention());
  EXPECT_TRUE(find_device("rtx3060").target().has_flash_attention());
  EXPECT_LT(find_device("t4").usable_bytes(), int64_t{15} << 30);
  std::set<std::string_view> names;
  for (const KnownDevice& device : known_devices()) {
    EXPECT_TRUE(names.insert(device.name).second) << device.name << " is there twice";
    EXPECT_GE(device.capability, 75) << device.name;
    EXPECT_GT(device.num_sms, 0) << device.name;
  }
  const std::string text = message_of<ConfigError>([] { find_device("rtx409"); });
  EXPECT_PRED2(contains, text, "Did you mean 'rtx4090'?");
}

TEST(Target, ScopesNest) {
  EXPECT_FALSE(current_target().is_cuda());
  {
    const TargetScope outer({.processor = Processor::kCuda, .capability = 75});
    EXPECT_FALSE(current_target().has_bf16());
    {
      const TargetScope inner({.processor = Processor::kCuda, .capability = 90});
      EXPECT_TRUE(current_target().has_flash_attention());
    }
    EXPECT_EQ(current_target().capability, 75);
  }
  EXPECT_TRUE(current_target().has_bf16()) << "the CPU's kernels have every type";
}

TEST(StagingBuffer, HasItsOwnBudget) {
  HostMemory host(c10::kCUDA, int64_t{8} << 20);
  StagingBuffer staging(host);
  const std::string text = message_of<OutOfMemory>([&] { staging.take(int64_t{9} << 20); });
  EXPECT_PRED2(contains, text, "--host-memory");
  EXPECT_EQ(staging.reserved_bytes(), 0);
}

}  // namespace
}  // namespace sotto::device
