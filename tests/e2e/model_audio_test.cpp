// Models of Hugging Face as a user meets them on the command line: trained on audio files, resumed,
// exported.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sotto/core/build_info.h"
#include "sotto/core/formats/safetensors.h"
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

TEST_F(HuggingFaceRuns, StartFromAndProduceTransformersFolders) {
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

TEST_F(HuggingFaceRuns, ResumeBitExactly) {
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

TEST_F(HuggingFaceRuns, AddHeadToPretrainedModel) {
  const CommandResult trained =
      train("pretraining", "run", {"--max-steps", "1", "--set", "model.freeze_layers=1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_PRED2(contains, trained.err, "2 tensors are new: lm_head.weight, lm_head.bias");
  EXPECT_PRED2(contains, trained.err, "skipped: project_hid");
}

TEST_F(HuggingFaceRuns, WriteLogitsOfAFile) {
  const CommandResult result = run_sotto({"logits", "--model", model("stable"), "--audio",
                                          path("u0.wav"), "--out", path("logits.safetensors")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "24 frames of 12 entries");
}

// The model "processor" hears 8 kHz; the files have 16.
bool can_resample() {
  return build_info().audio.starts_with("libsndfile");
}
constexpr const char* kNeedsSoxr = "this build does not resample";

nlohmann::json json_of(const CommandResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

// As written by transformers, exported, exported as shards, and as a run: the same transcripts.
TEST_F(HuggingFaceRuns, TranscribeEquallyInEveryFormat) {
  if (!can_resample()) GTEST_SKIP() << kNeedsSoxr;
  ASSERT_EQ(run_sotto({"export", "--model", model("processor"), "--out", path("out")}).exit_code,
            0);
  ASSERT_EQ(run_sotto({"export", "--model", model("processor"), "--out", path("shards"),
                       "--max-shard", "20KiB"})
                .exit_code,
            0);
  EXPECT_FALSE(fs::exists(folder_.path() / "shards" / "model.safetensors"));
  const auto transcribe = [&](const std::string& folder) {
    return json_of(run_sotto({"transcribe", "--model", folder, path("u0.wav"), "--json"}));
  };
  const auto evaluate = [&](const std::string& folder) {
    return json_of(
        run_sotto({"eval", "--model", folder, "--data", path("speech.jsonl"), "--json"}))["cer"];
  };
  const auto logits = [&](const std::string& folder) {
    const CommandResult result = run_sotto({"logits", "--model", folder, "--audio", path("u0.wav"),
                                            "--out", path("logits.safetensors")});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_PRED2(contains, result.out, "12 frames of 16 entries");  // half a second at 8 kHz
    return content_of(folder_.path() / "logits.safetensors");
  };
  const nlohmann::json transcript = transcribe(model("processor"));
  EXPECT_EQ(transcript[0]["duration"], 0.5);
  for (const char* folder : {"out", "shards"}) {
    EXPECT_EQ(transcribe(path(folder)), transcript) << folder;
    EXPECT_EQ(evaluate(path(folder)), evaluate(model("processor"))) << folder;
    EXPECT_EQ(logits(path(folder)), logits(model("processor"))) << folder;
  }
  // Transcripts in capitals, for a vocabulary of small letters.
  std::string capitals = content_of(folder_.path() / "speech.jsonl");
  for (size_t at = 0; (at = capitals.find("\"gab\"", at)) != std::string::npos;)
    capitals.replace(at, 5, "\"GAB\"");
  folder_.write("capitals.jsonl", capitals);
  const auto of_capitals = [&](const std::string& folder, std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "--model", folder, "--data", path("capitals.jsonl")});
    return run_sotto(more);
  };
  EXPECT_PRED2(contains, of_capitals(path("out"), {}).err, "unknown characters 'G'");
  const CommandResult lower = of_capitals(path("out"), {"--json", "--set", "data.text.case=lower"});
  EXPECT_EQ(json_of(lower)["cer"], evaluate(path("out")));
  const CommandResult preset = run_sotto({"transcribe", "--model", "xls-r-300m", path("u0.wav")});
  EXPECT_EQ(preset.exit_code, 2);
  EXPECT_PRED2(contains, preset.err, "a preset, which has no weights");
}

// Found by its id in the cache, and as a sharded export of a run.
TEST_F(HuggingFaceRuns, LoadFromHubCacheAndShards) {
  if (!can_resample()) GTEST_SKIP() << kNeedsSoxr;
  const fs::path snapshot = folder_.path() / "hub/models--me--mine/snapshots/abc";
  fs::create_directories(snapshot);
  fs::copy(model("processor"), snapshot);
  folder_.write("hub/models--me--mine/refs/main", "abc");
  const CommandResult found = run_sotto({"transcribe", "--model", "me/mine", path("u0.wav")},
                                        {"HF_HUB_CACHE=" + path("hub")});
  EXPECT_EQ(found.exit_code, 0) << found.err;
  const CommandResult absent = run_sotto({"transcribe", "--model", "me/other", path("u0.wav")},
                                         {"HF_HUB_CACHE=" + path("hub")});
  EXPECT_EQ(absent.exit_code, 2);
  EXPECT_PRED2(contains, absent.err, "hf download me/other");

  ASSERT_EQ(train("stable", "run", {"--max-steps", "1"}).exit_code, 0);
  ASSERT_EQ(
      run_sotto({"export", "--model", path("run"), "--out", path("shards"), "--max-shard", "60KiB"})
          .exit_code,
      0);
  const auto cer = [&](const std::string& folder) {
    return json_of(
        run_sotto({"eval", "--model", folder, "--data", path("speech.jsonl"), "--json"}))["cer"];
  };
  EXPECT_EQ(cer(path("shards")), cer(path("run")));
}

TEST_F(HuggingFaceRuns, KeepHeadTypeAndSettingsOfTheirModel) {
  if (!can_resample()) GTEST_SKIP() << kNeedsSoxr;
  const CommandResult trained = train("processor", "run", {"--max-steps", "1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(trained.err.find("are new"), std::string::npos) << trained.err;
  const fs::path checkpoint = folder_.path() / "run/checkpoints/step-1";
  const auto config = nlohmann::json::parse(content_of(checkpoint / "config.json"));
  EXPECT_EQ(config["attention_dropout"], 0.1);
  EXPECT_EQ(config["ctc_loss_reduction"], "mean");
  EXPECT_EQ(config["vocab_size"], 16);
  EXPECT_EQ(config["pad_token_id"], 2);
  EXPECT_EQ(config["dtype"], "float32");
  const auto extractor = nlohmann::json::parse(content_of(checkpoint / "preprocessor_config.json"));
  EXPECT_EQ(extractor["do_normalize"], false);
  EXPECT_EQ(extractor["sampling_rate"], 8000);
  const auto tokenizer = nlohmann::json::parse(content_of(checkpoint / "tokenizer_config.json"));
  EXPECT_EQ(tokenizer["pad_token"], "[PAD]");

  ASSERT_EQ(run_sotto({"export", "--model", model("processor"), "--out", path("out")}).exit_code,
            0);
  const auto exported = nlohmann::json::parse(content_of(folder_.path() / "out" / "config.json"));
  EXPECT_EQ(exported["attention_dropout"], 0.1);
  EXPECT_EQ(exported["dtype"], "bfloat16");
  EXPECT_EQ(exported["ctc_zero_infinity"], true);
  // Every weight in the type and with the bytes that it had.
  const SafetensorsFile theirs =
      SafetensorsFile::open(fs::path(model("processor")) / "model.safetensors");
  const SafetensorsFile ours = SafetensorsFile::open(folder_.path() / "out/model.safetensors");
  ASSERT_EQ(ours.names().size(), theirs.names().size());
  for (const std::string& name : theirs.names()) {
    ASSERT_NE(ours.find(name), nullptr) << name;
    EXPECT_EQ(ours.find(name)->type, TensorType::kBFloat16) << name;
    EXPECT_TRUE(std::ranges::equal(ours.find(name)->bytes, theirs.find(name)->bytes)) << name;
  }
}

TEST_F(HuggingFaceRuns, CanTurnMaskingOff) {
  const CommandResult trained =
      train("stable", "run", {"--max-steps", "1", "--set", "model.mask_time_probability=0"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_PRED2(contains, trained.err, "skipped: wav2vec2.masked_spec_embed");
  const CommandResult idle = train("stable", "idle",
                                   {"--max-steps", "1", "--set", "model.mask_time_probability=0",
                                    "--set", "model.mask_time_length=20"});
  EXPECT_EQ(idle.exit_code, 2);
  EXPECT_PRED2(contains, idle.err, "model.mask_time_length: 20, which has no effect");
}

// Checkpoints contain how often each layer was skipped.
TEST_F(HuggingFaceRuns, ResumeBitExactlyWithLayerDrop) {
  const auto run = [&](const std::string& out, const char* steps) {
    return train("base", out,
                 {"--max-steps", steps, "--resume", "--set", "optimizer.schedule.kind=constant",
                  "--set", "model.layer_drop=0.5"});
  };
  ASSERT_EQ(run("whole", "6").exit_code, 0);
  ASSERT_EQ(run("stopped", "4").exit_code, 0);
  const auto state =
      nlohmann::json::parse(content_of(folder_.path() / "stopped/checkpoints/step-4/state.json"));
  EXPECT_FALSE(state["skipped_steps"]["of_layers"].empty());
  const CommandResult resumed = run("stopped", "6");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const std::string last = "checkpoints/step-6/model.safetensors";
  EXPECT_EQ(content_of(folder_.path() / "stopped" / last),
            content_of(folder_.path() / "whole" / last));
}

}  // namespace
}  // namespace sotto::test
