#include "sotto/device/gpu_memory_watch.h"

#include <gtest/gtest.h>

#include "sotto/device/run_device.h"
#include "support/bytes.h"

namespace sotto::device {
namespace {

using test::kGiB;

TEST(GpuMemoryWatch, ReadsTheGpuWithTheUuidRepeatedly) {
  const GpuMemoryWatch watch("GPU-22222222", SOTTO_FAKE_NVML);
  for (int i = 0; i < 2; ++i) {
    const std::optional<GpuMemory> memory = watch.read();
    ASSERT_TRUE(memory.has_value());
    EXPECT_EQ(memory->total_bytes, 15 * kGiB);
    EXPECT_EQ(memory->used_bytes, 0);
  }
  EXPECT_EQ(GpuMemoryWatch("GPU-11111111", SOTTO_FAKE_NVML).read()->used_bytes, 5 * kGiB);
}

TEST(GpuMemoryWatch, ReturnsNothingForMissingGpuOrLibrary) {
  EXPECT_FALSE(GpuMemoryWatch("GPU-33333333", SOTTO_FAKE_NVML).read().has_value());
  EXPECT_FALSE(GpuMemoryWatch("GPU-11111111", "libnothing.so").read().has_value());
}

TEST(WatchMemory, OnTheCpuIsHostRam) {
  const MemoryReading read = watch_memory({});
  const std::optional<MemoryAvailable> memory = read();
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->total_bytes, open_device("cpu").memory.total_bytes);
  EXPECT_GT(memory->free_bytes, 0);
  EXPECT_LE(memory->free_bytes, memory->total_bytes);
}

}  // namespace
}  // namespace sotto::device
