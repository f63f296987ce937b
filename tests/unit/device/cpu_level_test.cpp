#include "sotto/device/cpu_level.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"

namespace sotto::device {
namespace {

TEST(CpuLevel, AcceptsCpuWithAllFeatures) {
  EXPECT_NO_THROW(check_cpu_level("x86-64-v3", {"sse", "bmi2", "avx2", "f16c", "fma", "avx512f"}));
}

TEST(CpuLevel, NamesMissingFeatures) {
  try {
    check_cpu_level("x86-64-v3", {"sse", "avx", "f16c", "avx2_x", "bmi1"});
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("it lacks avx2, fma, bmi2."), std::string::npos) << text;
  }
}

TEST(CpuLevel, EachFeatureIsRequired) {
  const std::vector<std::string> all = {"avx2", "fma", "f16c", "bmi2"};
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<std::string> features = all;
    features.erase(features.begin() + static_cast<int64_t>(i));
    EXPECT_THROW(check_cpu_level("x86-64-v3", features), ConfigError) << all[i];
  }
}

TEST(CpuLevel, RequiresNothingOfTheBaselineOrAnUnknownCpu) {
  EXPECT_NO_THROW(check_cpu_level("baseline", {"asimd"}));
  EXPECT_NO_THROW(check_cpu_level("x86-64-v3", {}));
}

}  // namespace
}  // namespace sotto::device
