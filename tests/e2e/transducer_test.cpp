// Transducers as users meet them: trained in a budget, searched greedily and by a beam, transcripts
// with the times of words.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tone_recordings.h"

namespace sotto::test {
namespace {

class TransducerRuns : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    write_recordings(folder_, 24);
    std::vector<std::string> words = {"train",
                                      "--model",
                                      GetParam(),
                                      "--train",
                                      path("speech.jsonl"),
                                      "--dev",
                                      path("speech.jsonl"),
                                      "--out",
                                      path("run"),
                                      "--memory",
                                      "150MiB",
                                      "--json"};
    for (const char* setting : {"model.layers=2",
                                "model.width=32",
                                "model.heads=2",
                                "model.hidden=64",
                                "model.kernel=7",
                                "model.subsampling_channels=8",
                                "model.subsampling_factor=4",
                                "model.features.num_mels=24",
                                "model.dropout=0",
                                "model.input_dropout=0",
                                "model.activation_dropout=0",
                                "model.transducer.layers=1",
                                "model.transducer.width=32",
                                "model.transducer.joint_width=32",
                                "model.transducer.dropout=0",
                                "model.transducer.joint_dropout=0",
                                "effective_batch=8",
                                "epochs=60",
                                "evaluate_every=180",
                                "checkpoint_every=180",
                                "optimizer.schedule.kind=cosine",
                                "optimizer.schedule.rate=0.005",
                                "optimizer.schedule.warmup_steps=20"}) {
      words.emplace_back("--set");
      words.emplace_back(setting);
    }
    const CommandResult result = run_sotto(words);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_PRED2(contains, result.err, "equal to the byte");
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  nlohmann::json json_of(const std::vector<std::string>& words) const {
    const CommandResult result = run_sotto(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }

  TempFolder folder_;
};

TEST_P(TransducerRuns, LearnAndTranscribe) {
  for (const char* beam : {"1", "4"}) {
    const nlohmann::json result = json_of(
        {"eval", "--model", path("run"), "--data", path("speech.jsonl"), "--beam", beam, "--json"});
    EXPECT_LT(result["cer"]["rate"], 0.1) << "beam " << beam;
  }
  const Recording recording = draw_recording(3);
  const nlohmann::json found =
      json_of({"transcribe", "--model", path("run"), path("u3.wav"), "--json"}).at(0);
  double last = 0.0;
  for (const nlohmann::json& word : found["words"]) {
    EXPECT_GE(word["start"].get<double>(), last);
    EXPECT_GT(word["end"].get<double>(), word["start"].get<double>());
    EXPECT_LE(word["end"].get<double>(), recording.seconds() + 1e-9);
    last = word["start"].get<double>();
  }
  const CommandResult refused = run_sotto(
      {"eval", "--model", path("run"), "--data", path("speech.jsonl"), "--ctc-weight", "0.3"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(contains, refused.err, "a transducer alone");
}

INSTANTIATE_TEST_SUITE_P(Kinds, TransducerRuns,
                         ::testing::Values("parakeet-rnnt-0.6b", "parakeet-tdt-0.6b-v3"),
                         [](const auto& one) {
                           return std::string(one.param).find("tdt") != std::string::npos
                                      ? std::string("Tdt")
                                      : std::string("Rnnt");
                         });

}  // namespace
}  // namespace sotto::test
