#include "sotto/device/cpu_features.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/thrown.h"

namespace sotto::device {
namespace {

TEST(CpuFeaturesTest, AreReadFromTheFlagsOfBothArchitectures) {
  EXPECT_EQ(find_cpu_features({"fp", "asimd"}, ""), CpuFeatures{});  // Neoverse-N1
  EXPECT_EQ(find_cpu_features({"fp", "asimd", "bf16"}, ""), CpuFeatures{.bf16 = true});
  EXPECT_EQ(find_cpu_features({"avx2", "fma"}, ""), CpuFeatures{});
  EXPECT_EQ(find_cpu_features({"avx2", "avx512f", "avx512bw"}, ""), CpuFeatures{.avx512 = true});
  const CpuFeatures both{.bf16 = true, .avx512 = true};
  EXPECT_EQ(find_cpu_features({"avx512f", "avx512_bf16"}, ""), both);
  EXPECT_EQ(find_cpu_features({"avx512f", "amx_bf16"}, ""), both);
}

TEST(CpuFeaturesTest, CanBeMasked) {
  const std::vector<std::string> flags = {"avx512f", "avx512_bf16"};
  EXPECT_EQ(find_cpu_features(flags, "bf16"), CpuFeatures{.avx512 = true});
  EXPECT_EQ(find_cpu_features(flags, "avx512"), CpuFeatures{.bf16 = true});
  EXPECT_EQ(find_cpu_features(flags, "bf16,avx512"), CpuFeatures{});
  EXPECT_PRED2(test::contains,
               test::message_of<ConfigError>([&] { find_cpu_features(flags, "bf16,sse"); }),
               "'sse'");
}

}  // namespace
}  // namespace sotto::device
