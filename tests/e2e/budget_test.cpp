// Budgets and limits of `sotto train` that are too small, absent or below what the data needs.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

using Budgets = TrainRuns;

// The smallest budget for all of the data, as the refusal of a smaller one names it: what a
// step takes differs from processor to processor.
std::string named_budget(const CommandResult& refused) {
  const size_t at = refused.err.find("--memory ") + 9;
  return refused.err.substr(at, refused.err.find(' ', at) - at);
}

TEST_F(Budgets, RefusesTooSmallBudgetAndNamesSufficientOne) {
  const CommandResult refused = train("run", {"--memory", "300KiB"});
  expect_refusal(refused, 2, {"--memory ", "would do", "budget of 300 KiB"});
  const std::string named = named_budget(refused);
  EXPECT_EQ(train("run", {"--memory", named, "--max-steps", "2"}).exit_code, 0) << named;
}

TEST_F(Budgets, SkipsWhatDoesNotFitIfPolicySaysSo) {
  const std::string enough = named_budget(train("run", {"--memory", "300KiB"}));
  std::ofstream(folder_.path() / "train.jsonl", std::ios::app)
      << R"({"feature_filepath": "train.f16", "frame_offset": 0, "num_frames": 3000,)"
      << R"( "feature_dim": 8, "duration": 30.0, "text": "abcd"})" << '\n';
  const CommandResult result =
      train("run", {"--memory", enough, "--set", "data.too_large=skip", "--max-steps", "7"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "skipped 1 training utterance; the first: ");
  EXPECT_PRED2(contains, result.err, "48 utterances, 31.2 s; 1 skipped");
}

// As from a variable of the shell that is not set.
TEST_F(Budgets, RefusesEmptyMemory) {
  expect_refusal(train("run", {"--memory", ""}), 2, {"--memory", "an empty value"});
}

// Found before the data is read, so that no line can be named.
TEST_F(Budgets, RefusesLimitBelowAnUtterance) {
  expect_refusal(train("run", {"--set", "max_frames=20"}), 2,
                 {"an utterance has 26 frames", "at most 20 frames", "Raise max_frames"});
}

}  // namespace
}  // namespace sotto::test
