#include "sotto/device/memory_holders.h"

#include <gtest/gtest.h>

#include "support/bytes.h"
#include "support/temp_folder.h"

namespace sotto::device {
namespace {

using test::kGiB;

GpuInfo fake_h200(const test::TempFolder& tree) {
  tree.write("proc/4242/comm", "python3\n");
  return read_gpus({.library = SOTTO_FAKE_NVML, .root = tree.path()}).gpus.at(0);
}

// The T4 of the fake driver is idle, and the old library does not report memory.
TEST(MemoryHolders, AreProcessesAndTheRemainder) {
  const test::TempFolder tree;
  const std::vector<MemoryHolder> holders = memory_holders(fake_h200(tree));
  EXPECT_EQ(describe_holders(holders),
            "python3 (pid 4242) 3.00 GiB, a hidden process (pid 4244) 512 MiB, a hidden process "
            "(pid 4243) an unknown amount, "
            "driver and hidden processes 1.50 GiB");
  EXPECT_TRUE(memory_holders(read_gpus({.library = SOTTO_FAKE_NVML}).gpus.at(1)).empty());
  EXPECT_TRUE(memory_holders(read_gpus({.library = SOTTO_FAKE_NVML_OLD}).gpus.at(0)).empty());
  EXPECT_EQ(describe_holders({}), "");
}

// The memory of the process that is left out does not become part of the remainder.
TEST(MemoryHolders, LeaveOutOneProcess) {
  const test::TempFolder tree;
  EXPECT_EQ(describe_holders(memory_holders(fake_h200(tree), 4242)),
            "a hidden process (pid 4244) 512 MiB, a hidden process (pid 4243) an unknown amount, "
            "driver and hidden processes 1.50 GiB");
}

TEST(MemoryHolders, DriverOfAnIdleCardIsNoProgram) {
  EXPECT_FALSE(are_programs({}));
  EXPECT_FALSE(are_programs({{.name = "driver", .bytes = kGiB * 6 / 10}}));
  EXPECT_TRUE(are_programs({{.name = "driver and a hidden process", .bytes = 2 * kGiB}}));
  EXPECT_TRUE(are_programs({{.name = "python3", .pid = 4242, .bytes = 1}}));
  EXPECT_TRUE(are_programs({{.name = "", .pid = 4243, .bytes = {}}}));
}

}  // namespace
}  // namespace sotto::device
