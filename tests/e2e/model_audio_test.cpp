// Models of Hugging Face as a user meets them on the command line: trained on audio files, resumed,
// exported.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/fixture.h"
#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/wav_bytes.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class HuggingFaceRuns : public ::testing::Test {
 protected:
  HuggingFaceRuns() {
    std::string lines;
    for (int64_t u = 0; u < 6; ++u) {
      const int64_t num_samples = 8'000 + 1'000 * u;
      const std::string name = "u" + std::to_string(u) + ".wav";
      folder_.write(name, wav_bytes(num_samples, 0.02 + 0.01 * static_cast<double>(u)));
      lines += nlohmann::json({{"audio_filepath", name},
                               {"duration", static_cast<double>(num_samples) / 16'000.0},
                               {"text", u % 2 == 0 ? "ab" : "gab"}})
                   .dump() +
               "\n";
    }
    folder_.write("speech.jsonl", lines);
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  static std::string model(const std::string& name) {
    return (fixture_folder() / "wav2vec2" / name).string();
  }

  CommandResult train(const std::string& name, const std::string& out,
                      std::vector<std::string> more) const {
    std::vector<std::string> words = {"train",
                                      "--model",
                                      model(name),
                                      "--train",
                                      path("speech.jsonl"),
                                      "--dev",
                                      path("speech.jsonl"),
                                      "--out",
                                      path(out),
                                      "--memory",
                                      "150MiB",
                                      "--set",
                                      "effective_batch=3",
                                      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_sotto(words);
  }

  TempFolder folder_;
};

TEST_F(HuggingFaceRuns, BeginWithTheFoldersWeightsAndEndInOneThatTransformersReads) {
  const CommandResult trained = train("stable", "run", {"--max-steps", "2"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_PRED2(contains, trained.err, "equal to the byte");
  EXPECT_PRED2(contains, trained.err, "the feature encoder is frozen");
  const fs::path checkpoint = folder_.path() / "run" / "checkpoints" / "step-2";
  const auto config = nlohmann::json::parse(content_of(checkpoint / "config.json"));
  EXPECT_EQ(config["model_type"], "wav2vec2");
  EXPECT_EQ(config["hidden_size"], 32);
  for (const char* file : {"preprocessor_config.json", "vocab.json", "model.safetensors"})
    EXPECT_TRUE(fs::exists(checkpoint / file)) << file;

  const CommandResult exported =
      run_sotto({"export", "--model", checkpoint.string(), "--out", path("exported")});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_EQ(content_of(folder_.path() / "exported" / "model.safetensors"),
            content_of(checkpoint / "model.safetensors"));
  const CommandResult eval =
      run_sotto({"eval", "--checkpoint", path("run"), "--data", path("speech.jsonl"), "--json"});
  EXPECT_EQ(eval.exit_code, 0) << eval.err;
}

TEST_F(HuggingFaceRuns, GoOnToTheBit) {
  // A constant rate: a schedule would know of the shorter run's end.
  const auto run = [&](const std::string& out, const char* steps) {
    return train("base", out,
                 {"--max-steps", steps, "--resume", "--set", "optimizer.schedule.kind=constant"});
  };
  ASSERT_EQ(run("whole", "4").exit_code, 0);
  ASSERT_EQ(run("stopped", "2").exit_code, 0);
  const CommandResult resumed = run("stopped", "4");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const std::string last = "checkpoints/step-4/model.safetensors";
  EXPECT_EQ(content_of(folder_.path() / "stopped" / last),
            content_of(folder_.path() / "whole" / last));
}

TEST_F(HuggingFaceRuns, GiveAHeadToAPretrainedModel) {
  const CommandResult trained =
      train("pretraining", "run", {"--max-steps", "1", "--set", "model.freeze_layers=1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_PRED2(contains, trained.err, "2 tensors are new: lm_head.weight, lm_head.bias");
  EXPECT_PRED2(contains, trained.err, "left out: project_hid");
}

TEST_F(HuggingFaceRuns, LogitsOfAFile) {
  const CommandResult result = run_sotto({"logits", "--model", model("stable"), "--audio",
                                          path("u0.wav"), "--out", path("logits.safetensors")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "24 frames of 12 entries");
}

}  // namespace
}  // namespace sotto::test
