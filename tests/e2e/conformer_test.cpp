// Conformers with an attention decoder as users meet them: trained, searched in every way,
// transcripts with the times of words.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tone_recordings.h"
#include "support/wav_bytes.h"

namespace sotto::test {
namespace {

class ConformerRuns : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new TempFolder;
    write_recordings(*folder, 24);
    train("joint", {"model.objective=joint"});
    train("attention", {"model.objective=attention"});
  }
  static void TearDownTestSuite() {
    delete folder;
    folder = nullptr;
  }

  static std::string path(const std::string& name) { return (folder->path() / name).string(); }

  static std::vector<std::string> training(const std::string& out,
                                           const std::vector<std::string>& settings) {
    std::vector<std::string> words = {"train",
                                      "--model",
                                      "conformer-128",
                                      "--train",
                                      path("speech.jsonl"),
                                      "--dev",
                                      path("speech.jsonl"),
                                      "--out",
                                      path(out),
                                      "--memory",
                                      "150MiB",
                                      "--json"};
    std::vector<std::string> all = {"model.layers=2",
                                    "model.width=32",
                                    "model.heads=2",
                                    "model.hidden=64",
                                    "model.kernel=7",
                                    "model.decoder_layers=2",
                                    "model.subsampling_channels=8",
                                    "model.features.num_mels=24",
                                    "model.dropout=0",
                                    "effective_batch=8",
                                    "epochs=90",
                                    "evaluate_every=270",
                                    "checkpoint_every=270",
                                    "optimizer.schedule.kind=cosine",
                                    "optimizer.schedule.rate=0.005",
                                    "optimizer.schedule.warmup_steps=20"};
    all.insert(all.end(), settings.begin(), settings.end());
    for (const std::string& setting : all) {
      words.emplace_back("--set");
      words.push_back(setting);
    }
    return words;
  }
  static void train(const std::string& out, const std::vector<std::string>& settings) {
    const CommandResult result = run_sotto(training(out, settings));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_PRED2(contains, result.err, "equal to the byte");
  }

  static nlohmann::json evaluate(const std::string& model, std::vector<std::string> more) {
    std::vector<std::string> words = {
        "eval", "--model", path(model), "--data", path("speech.jsonl"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_sotto(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }

  static nlohmann::json transcribe(const std::string& model, std::vector<std::string> more) {
    std::vector<std::string> words = {"transcribe", "--model", path(model), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_sotto(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }

  static TempFolder* folder;
};
TempFolder* ConformerRuns::folder = nullptr;

// The network has learned its training data: whoever searches, alone or together, finds it.
TEST_F(ConformerRuns, AreSearchedInEveryWay) {
  for (const char* weight : {"0", "0.3", "1"}) {
    for (const char* beam : {"1", "4"}) {
      const nlohmann::json result = evaluate("joint", {"--ctc-weight", weight, "--beam", beam});
      EXPECT_LT(result["cer"]["rate"], 0.1) << weight << ", beam " << beam;
    }
  }
  for (const char* beam : {"1", "4"})
    EXPECT_LT(evaluate("attention", {"--beam", beam})["cer"]["rate"], 0.1) << beam;
}

TEST_F(ConformerRuns, EvaluateAsInTraining) {
  for (const char* model : {"joint", "attention"}) {
    const auto best =
        nlohmann::json::parse(content_of(folder->path() / model / "best" / "state.json"));
    EXPECT_DOUBLE_EQ(evaluate(model, {})["wer"]["rate"].get<double>(),
                     best["best_metric"].get<double>());
  }
}

// Times come from CTC, or from attention where there is none. Frames have 40 ms.
TEST_F(ConformerRuns, FindTheTimesOfWords) {
  struct Way {
    std::string model;
    std::vector<std::string> options;
    // Tolerance of the starts, and of the time from one to the next: an encoder may move what it
    // hears, and then all times are late.
    double tolerance_s;
    double tolerance_of_steps_s;
  };
  for (const Way& way :
       {Way{"joint", {}, 0.25, 0.25}, Way{"joint", {"--ctc-weight", "1"}, 0.25, 0.25},
        Way{"attention", {}, 0.8, 0.8}}) {
    int64_t num_found = 0;
    for (const int64_t number : {3, 8, 14}) {
      const Recording recording = draw_recording(number);
      std::vector<std::string> words = {path("u" + std::to_string(number) + ".wav")};
      words.insert(words.end(), way.options.begin(), way.options.end());
      const nlohmann::json found = transcribe(way.model, words).at(0);
      if (found["text"] != recording.text) continue;
      ASSERT_EQ(found["words"].size(), recording.words.size());
      ++num_found;
      double late_s = 0.0;  // of the word before
      for (size_t i = 0; i < recording.words.size(); ++i) {
        EXPECT_EQ(found["words"][i]["word"], recording.words[i].text);
        const double own_s = found["words"][i]["start"].get<double>() - recording.words[i].start_s;
        EXPECT_LT(std::abs(own_s), way.tolerance_s) << way.model << ", recording " << number;
        if (i > 0) {
          EXPECT_NEAR(own_s, late_s, way.tolerance_of_steps_s)
              << way.model << ", recording " << number;
        }
        late_s = own_s;
      }
    }
    EXPECT_GE(num_found, 2) << way.model;
  }
}

// Windows contribute the words of their own part, without a word twice at a seam.
TEST_F(ConformerRuns, TranscribeLongFilesInWindows) {
  Recording recording;
  for (int64_t number = 0; number < 6; ++number) {
    const Recording part = draw_recording(number);
    recording.samples.insert(recording.samples.end(), part.samples.begin(), part.samples.end());
    recording.text += (recording.text.empty() ? "" : " ") + part.text;
  }
  folder->write("long.wav", wav_file(recording.samples));
  for (const char* model : {"joint", "attention"}) {
    const nlohmann::json found =
        transcribe(model, {path("long.wav"), "--window", "2", "--overlap", "0.8"}).at(0);
    const auto count = [](const std::string& text) {
      return static_cast<double>(std::ranges::count(text, ' ') + 1);
    };
    // Networks this small, trained on two or three words, do not hear all of a window.
    EXPECT_LE(count(found["text"]), count(recording.text) + 2.0) << found["text"];
    EXPECT_GE(count(found["text"]), count(recording.text) / 3.0) << found["text"];
    double last = 0.0;
    for (const nlohmann::json& word : found["words"]) {
      EXPECT_GE(word["start"].get<double>(), last);
      last = word["start"].get<double>();
    }
    EXPECT_LT(last, recording.seconds());
  }
}

TEST_F(ConformerRuns, RefuseWhatHasNoEffect) {
  const auto refusal_of = [&](const std::string& model, std::vector<std::string> more) {
    std::vector<std::string> words = {"eval", "--model", path(model), "--data",
                                      path("speech.jsonl")};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_sotto(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_PRED2(contains, refusal_of("attention", {"--ctc-weight", "0.5"}),
               "an attention decoder alone");
  EXPECT_PRED2(contains, refusal_of("joint", {"--lm", "none.arpa", "--beam", "1"}),
               "a language model with --beam 1");
  EXPECT_PRED2(contains, refusal_of("joint", {"--set", "decode.lm_weight=0.3"}),
               "without decode.lm");
  EXPECT_PRED2(contains, refusal_of("joint", {"--lm", path("none.arpa")}), "none.arpa");
  const CommandResult wrong = run_sotto(training("wrong", {"decode.beam=0"}));
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_PRED2(contains, wrong.err, "decode.beam");
}

}  // namespace
}  // namespace sotto::test
