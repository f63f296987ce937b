#include "sotto/device/budget.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/bytes.h"
#include "support/thrown.h"

namespace sotto::device {
namespace {

using test::kGiB;
const MemoryAvailable kSome{.total_bytes = 16 * kGiB, .free_bytes = 10 * kGiB};

TEST(Budget, BytesAreUsedAsGiven) {
  EXPECT_EQ(resolve_budget(MemorySize::parse("10GiB"), kSome, "cpu"), 10 * kGiB);
  EXPECT_EQ(resolve_budget(MemorySize::parse("1B"), kSome, "cpu"), 1);
}

TEST(Budget, PercentagesAreOfFreeMemory) {
  EXPECT_EQ(resolve_budget(MemorySize::parse("50%"), kSome, "cpu"), 5 * kGiB);
  EXPECT_EQ(resolve_budget({}, kSome, "cpu"), static_cast<int64_t>(0.85 * 10 * kGiB));
}

TEST(Budget, MoreThanFreeIsRefusedWithAdvice) {
  const std::string message = test::message_of<ConfigError>(
      [] { resolve_budget(MemorySize::parse("11GiB"), kSome, "cpu"); });
  for (const char* part : {"11.0 GiB", "10.0 GiB", "16.0 GiB", "--memory 10240MiB", "cpu"}) {
    EXPECT_PRED2(test::contains, message, part);
  }
}

TEST(Budget, RefusalNamesWhoHoldsTheRest) {
  MemoryAvailable shared = kSome;
  shared.held_by = "python3 (pid 4242) 6.00 GiB";
  const std::string message = test::message_of<ConfigError>(
      [&] { resolve_budget(MemorySize::parse("11GiB"), shared, "NVIDIA H200"); });
  EXPECT_PRED2(test::contains, message,
               "10.0 GiB of 16.0 GiB are free; held by python3 (pid 4242) 6.00 GiB. Expected");
}

}  // namespace
}  // namespace sotto::device
