// The first trials of the campaign that tests/slow runs whole.
#include <fmt/ranges.h>

#include "support/fault_campaign.h"

namespace sotto::test {
namespace {

TEST_F(FaultCampaign, LosesNothingInFirstTrials) {
  const std::vector<std::string> failures = run_trials(10, /*seed=*/23);
  EXPECT_TRUE(failures.empty()) << fmt::format("{}", fmt::join(failures, "\n"));
}

}  // namespace
}  // namespace sotto::test
