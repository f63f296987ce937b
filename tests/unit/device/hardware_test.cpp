#include "sotto/device/hardware.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/temp_folder.h"

namespace sotto::device {
namespace {

TEST(Hardware, JsonHasBytesAsWholeNumbers) {
  const test::TempFolder tree;
  tree.write("proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\n");
  tree.write("proc/self/cgroup", "0::/\n");
  tree.write("sys/fs/cgroup/memory.max", "8589934592\n");
  const auto json = to_json(
      read_hardware({.root = tree.path(), .architecture = "aarch64", .num_scheduled_cores = 4},
                    {.library = SOTTO_FAKE_NVML, .root = tree.path()}));
  EXPECT_EQ(json.at("format_version"), 1);
  const auto& host = json.at("host");
  EXPECT_EQ(host.at("cpu"), "aarch64");
  EXPECT_EQ(host.at("cores"), 4);
  EXPECT_TRUE(host.at("cpu_quota_cores").is_null());
  EXPECT_TRUE(host.at("memory_total_bytes").is_number_integer());
  EXPECT_EQ(host.at("machine_memory_bytes"), int64_t{32} << 30);
  EXPECT_EQ(host.at("memory_total_bytes"), int64_t{8} << 30);
  EXPECT_EQ(host.at("container_limit_bytes"), int64_t{8} << 30);
  EXPECT_EQ(json.at("driver_version"), "580.95.05");
  EXPECT_EQ(json.at("cuda_version"), "13.1");
  const auto& gpu = json.at("gpus").at(0);
  EXPECT_EQ(gpu.at("capability"), "9.0");
  EXPECT_EQ(gpu.at("sms"), 132);
  EXPECT_EQ(gpu.at("memory_free_bytes"), int64_t{135} << 30);
  const auto& unknown = gpu.at("processes").at(2);
  EXPECT_EQ(unknown.at("pid"), 4243);
  EXPECT_TRUE(unknown.at("name").is_null());
  EXPECT_TRUE(unknown.at("memory_used_bytes").is_null());
  EXPECT_EQ(json.at("notes").size(), 1u);
}

TEST(Hardware, UnknownValuesAreNullInJson) {
  const auto json = to_json(read_hardware({}, {.library = SOTTO_FAKE_NVML_OLD}));
  EXPECT_TRUE(json.at("driver_version").is_null());
  for (const char* key : {"uuid", "capability", "sms", "memory_total_bytes", "memory_free_bytes"})
    EXPECT_TRUE(json.at("gpus").at(0).at(key).is_null()) << key;
}

}  // namespace
}  // namespace sotto::device
