// 16-bit WAV and FLAC on the command line, which every build trains on, evaluates and transcribes:
// whole files and segments, on the disk and inside of an archive.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "support/flac_bytes.h"
#include "support/run_command.h"
#include "support/tar_bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/wav_bytes.h"

namespace sotto::test {
namespace {

class PlainAudioRuns : public ::testing::Test {
 protected:
  PlainAudioRuns() {
    const std::vector<int16_t> samples = noise_samples(16'000);
    const std::string wav = wav_file(samples), flac = flac_file(samples);
    folder_.write("a.wav", wav);
    folder_.write("a.flac", flac);
    folder_.write(
        "x.tar", tar_file({.name = "b.wav"}, wav) + tar_file({.name = "b.flac"}, flac) + tar_end());
    std::string lines;
    for (const char* name : {"a.wav", "a.flac", "x.tar:b.wav", "x.tar:b.flac"}) {
      lines += fmt::format(R"({{"audio_filepath": "{}", "duration": 1.0, "text": "ab"}})", name);
      lines += fmt::format(
          "\n"
          R"({{"audio_filepath": "{}", "offset": 0.3, "duration": 0.5, "text": "b"}})"
          "\n",
          name);
    }
    folder_.write("m.jsonl", lines);
  }

  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }

  CommandResult train(const std::string& manifest) const {
    return run_sotto({"train", "--train", at(manifest), "--dev", at(manifest), "--out", at("run"),
                      "--max-steps", "2", "--memory", "200MiB", "--set", "model.layers=1", "--set",
                      "model.width=16", "--set", "model.hidden=32", "--set", "model.heads=2"});
  }

  TempFolder folder_;
};

TEST_F(PlainAudioRuns, TrainEvaluateAndTranscribe) {
  const CommandResult trained = train("m.jsonl");
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const CommandResult evaluated =
      run_sotto({"eval", "--model", at("run"), "--data", at("m.jsonl"), "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const auto evaluation = nlohmann::json::parse(evaluated.out);
  EXPECT_EQ(evaluation["utterances"], 8);
  EXPECT_NEAR(evaluation["audio_seconds"].get<double>(), 6.0, 1e-6);
  const CommandResult heard =
      run_sotto({"transcribe", "--model", at("run"), at("a.wav"), at("a.flac"), "--json"});
  ASSERT_EQ(heard.exit_code, 0) << heard.err;
  const auto transcripts = nlohmann::json::parse(heard.out);
  ASSERT_EQ(transcripts.size(), 2u);
  EXPECT_EQ(transcripts[0]["duration"], 1.0);
  // The samples are the same.
  EXPECT_EQ(transcripts[0]["text"], transcripts[1]["text"]);
}

// One process answers every request, those that it cannot fulfil too.
TEST_F(PlainAudioRuns, ServeTranscripts) {
  ASSERT_EQ(train("m.jsonl").exit_code, 0);
  folder_.write("requests", fmt::format(R"({{"id": 7, "audio_filepath": "{}"}})"
                                        "\n"
                                        R"({{"id": "none", "audio_filepath": "none.wav"}})"
                                        "\nnot JSON\n"
                                        R"({{"id": null, "audio_filepath": "{}"}})"
                                        "\n",
                                        at("a.wav"), at("a.flac")));
  const CommandResult served = run_sotto_in_shell({"transcribe", "--model", at("run"), "--serve"},
                                                  "<'" + at("requests") + "'");
  ASSERT_EQ(served.exit_code, 0) << served.err;
  std::vector<nlohmann::json> answers;
  std::istringstream lines(served.out);
  for (std::string line; std::getline(lines, line);) answers.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(answers.size(), 5u) << served.out;
  EXPECT_EQ(answers[0]["ready"], true);
  EXPECT_EQ(answers[0]["format_version"], 1);
  EXPECT_EQ(answers[1]["id"], 7);
  EXPECT_EQ(answers[1]["duration"], 1.0);
  EXPECT_EQ(answers[2]["id"], "none");
  EXPECT_EQ(answers[2]["failure"]["error"], "DataError");
  EXPECT_EQ(answers[3]["failure"]["error"], "ConfigError");
  EXPECT_EQ(answers[4]["text"], answers[1]["text"]);
  const CommandResult both =
      run_sotto({"transcribe", "--model", at("run"), "--serve", at("a.wav")});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_PRED2(contains, both.err, "--serve and files");
  EXPECT_EQ(run_sotto({"transcribe", "--model", at("run")}).exit_code, 2);
}

TEST_F(PlainAudioRuns, FailOnTruncatedFile) {
  const std::string flac = content_of(folder_.path() / "a.flac");
  folder_.write("a.flac", flac.substr(0, flac.size() / 2));
  folder_.write("cut.jsonl", R"({"audio_filepath": "a.flac", "duration": 1.0, "text": "ab"})");
  const CommandResult result = train("cut.jsonl");
  EXPECT_EQ(result.exit_code, 2) << result.err;
  // One block of the two that it has a part of.
  EXPECT_PRED2(contains, result.err, "a.flac: 0.256 s could be decoded. Expected 1.000 s");
}

}  // namespace
}  // namespace sotto::test
