// What can happen to a run, 210 times.
#include <fmt/ranges.h>

#include "support/fault_campaign.h"

namespace sotto::test {
namespace {

TEST_F(FaultCampaign, LosesNothingIn210Trials) {
  const std::vector<std::string> failures = run_trials(210, /*seed=*/23);
  EXPECT_TRUE(failures.empty()) << fmt::format("{}", fmt::join(failures, "\n"));
}

}  // namespace
}  // namespace sotto::test
