#include "sotto/train/run/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sotto/core/error.h"
#include "sotto/train/run/run_files.h"
#include "sotto/train/run/trainer.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"

namespace sotto::train {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> tags(const std::vector<Scalar>& scalars) {
  std::vector<std::string> names;
  for (const Scalar& scalar : scalars) names.emplace_back(scalar.tag);
  return names;
}

TEST(Metrics, FilesContinueOnceTheDiskHasRoom) {
  const test::TempFolder folder;
  std::vector<std::string> warnings;
  std::vector<int64_t> told;
  Metrics metrics(
      folder.path(), 1, [&](const std::string& text) { warnings.push_back(text); },
      [&](const nlohmann::json& line) { told.push_back(line["step"]); });
  const std::vector<Scalar> scalars = {{.tag = "train/loss", .value = 1.0}};
  metrics.add({{"kind", "step"}, {"step", 1}}, scalars);
  {
    const test::FullDisk full(40);
    metrics.add({{"kind", "step"}, {"step", 2}}, scalars);
    metrics.add({{"kind", "step"}, {"step", 3}}, scalars);
  }
  EXPECT_EQ(warnings.size(), 1u) << "it is said once";
  metrics.add({{"kind", "step"}, {"step", 4}}, scalars);
  {
    const test::FullDisk full(40);
    metrics.add({{"kind", "step"}, {"step", 5}}, scalars);
  }
  EXPECT_EQ(warnings.size(), 2u) << "it was not so in between";
  std::vector<int64_t> steps;
  for (const nlohmann::json& record : read_run_record(folder.path() / kMetricsFile).records)
    steps.push_back(record["step"]);
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(told, (std::vector<int64_t>{1, 2, 3, 4, 5})) << "whoever listens needs no disk";
}

TEST(Metrics, HaveOneLineForARepeatedStep) {
  const test::TempFolder folder;
  const auto add = [&](int64_t first, int64_t last) {
    Metrics metrics(folder.path(), first, {});
    for (int64_t step = first; step <= last; ++step) {
      metrics.add({{"kind", "step"}, {"step", step}});
      if (step % 2 == 0) metrics.add({{"kind", "evaluation"}, {"step", step}});
    }
  };
  add(1, 5);
  add(4, 6);  // killed behind step 5, its checkpoint is of step 3
  add(7, 7);
  std::vector<std::string> lines;
  for (const nlohmann::json& record : read_run_record(folder.path() / kMetricsFile).records)
    lines.push_back(
        fmt::format("{}{}", record["kind"] == "step" ? "" : "e", record["step"].get<int64_t>()));
  EXPECT_EQ(lines, (std::vector<std::string>{"1", "2", "e2", "3", "4", "e4", "5", "6", "e6", "7"}));
  add(1, 1);
  EXPECT_EQ(read_run_record(folder.path() / kMetricsFile).records.size(), 1u);
}

TEST(Metrics, MissingFolderIsAnErrorAtStart) {
  const test::TempFolder folder;
  EXPECT_THROW(Metrics(folder.path() / "none", 1, {}), DataError);
}

TEST(Metrics, SpeechAndTextStepsHaveTheirSpeeds) {
  StepReport speech{.num_utterances = 2, .audio_seconds = 12.0, .seconds = 0.5};
  speech.result.num_frames = 300;
  speech.peak_bytes = 1 << 20;
  const std::vector<Scalar> of_speech = step_scalars(speech);
  EXPECT_EQ(tags(of_speech),
            (std::vector<std::string>{"train/loss", "train/learning_rate", "train/gradient_norm",
                                      "memory/peak_bytes", "train/audio_seconds_per_second"}));
  EXPECT_EQ(of_speech[3].value, 1 << 20);
  EXPECT_EQ(of_speech[4].value, 24.0);
  StepReport text = speech;
  text.audio_seconds = 0.0;
  EXPECT_EQ(step_scalars(text).back().tag, "train/tokens_per_second");
  EXPECT_EQ(step_scalars(text).back().value, 600.0);
  text.num_utterances = 0;  // all were left out
  EXPECT_TRUE(step_scalars(text).empty());
}

TEST(Metrics, SpeechAndTextEvaluationsHaveTheirRates) {
  Evaluation speech;
  speech.words = {.substitutions = 1, .reference_length = 4};
  speech.characters = {.deletions = 1, .reference_length = 10};
  EXPECT_EQ(tags(evaluation_scalars(speech)),
            (std::vector<std::string>{"evaluation/loss", "evaluation/wer", "evaluation/cer"}));
  EXPECT_EQ(evaluation_scalars(speech)[1].value, 0.25);
  EXPECT_EQ(evaluation_scalars(speech)[2].value, 0.1);
  Evaluation text;
  text.task = &kLanguageModelling;
  text.num_tokens = 7;
  text.loss = 2.0;
  EXPECT_EQ(tags(evaluation_scalars(text)),
            (std::vector<std::string>{"evaluation/loss", "evaluation/perplexity"}));
  EXPECT_EQ(evaluation_scalars(text)[1].value, std::exp(2.0));
}

}  // namespace
}  // namespace sotto::train
