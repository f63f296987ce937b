// `sotto train` on a GPU as a user meets it.
#include <ATen/Context.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

class CudaTrain : public TrainRuns {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no GPU, or a build without CUDA";
  }
  CommandResult train_on_gpu(const std::string& out, std::vector<std::string> more) const {
    more.insert(more.begin(), {"--device", "cuda", "--memory", "2GiB"});
    return train(out, more);
  }
};

TEST_F(CudaTrain, LearnsAndEvaluatesWithinItsBudget) {
  const CommandResult result = train_on_gpu("run", {"--set", "epochs=25"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.err, "equal to the byte");
  EXPECT_PRED2(contains, result.err, "of which the driver and its libraries take");
  const nlohmann::json summary = nlohmann::json::parse(result.out);
  EXPECT_LT(summary["best_wer"], 0.3);
  for (const char* device : {"cuda", "cpu"}) {
    const CommandResult eval =
        run_sotto({"eval", "--checkpoint", run("run").string(), "--data",
                   (folder_.path() / "dev.jsonl").string(), "--device", device, "--json"});
    ASSERT_EQ(eval.exit_code, 0) << eval.err;
    EXPECT_NEAR(nlohmann::json::parse(eval.out)["wer"]["rate"], summary["best_wer"], 0.05)
        << device;
  }
}

TEST_F(CudaTrain, ResumesBitExactlyAfterKillIfDeterministic) {
  std::vector<std::string> longer = {"--device", "cuda",
                                     "--memory", "2GiB",
                                     "--set",    "epochs=20",
                                     "--set",    "deterministic=true",
                                     "--set",    "numerics=bf16-exact",
                                     "--set",    "checkpoint_every=5",
                                     "--resume"};
  ASSERT_EQ(train("whole", longer).exit_code, 0);
  for (const int64_t lines : {9, 60}) {
    EXPECT_EQ(run_sotto_and_signal(words("killed", longer), SIGKILL,
                                   [&] { return num_lines("killed") > lines; }),
              -SIGKILL);
  }
  ASSERT_EQ(train("killed", longer).exit_code, 0);
  EXPECT_EQ(weights("killed", 120), weights("whole", 120));
}

TEST_F(CudaTrain, CanPretendToBeAnotherCard) {
  const CommandResult good =
      train_on_gpu("t4", {"--pretend-device", "t4", "--set", "numerics=fp16"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_PRED2(contains, good.err, "t4 (pretended on ");
  EXPECT_PRED2(contains, good.err, "equal to the byte");
  const CommandResult no_bf16 =
      train_on_gpu("no", {"--pretend-device", "t4", "--set", "numerics=bf16-exact"});
  EXPECT_EQ(no_bf16.exit_code, 2);
  EXPECT_PRED2(contains, no_bf16.err, "numerics: fp16");
  const CommandResult too_much =
      train("no", {"--device", "cuda", "--pretend-device", "t4", "--memory", "20GiB"});
  EXPECT_EQ(too_much.exit_code, 2);
  EXPECT_PRED2(contains, too_much.err, "14.7 GiB");
}

TEST_F(CudaTrain, RefusesBudgetSmallerThanLibraries) {
  const CommandResult refused = train("run", {"--device", "cuda", "--memory", "100MiB"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_PRED2(contains, refused.err, "the driver and its libraries alone take");
}

}  // namespace
}  // namespace sotto::test
