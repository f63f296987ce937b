// Whole steps of wav2vec2 and of the language model: what the dry run says is what is taken.
#include <gtest/gtest.h>

#include <chrono>

#include "sotto/data/batch/example_list.h"
#include "sotto/device/device_table.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
#include "sotto/train/step/dry_run.h"
#include "sotto/train/step/fit.h"
#include "support/exact_steps.h"
#include "support/tiny_models.h"

namespace sotto::test {
namespace {

class ModelMemory : public ::testing::TestWithParam<TinyModel> {};

TEST_P(ModelMemory, IsExactAtEveryTier) {
  const TinyModel& tiny = GetParam();
  const std::vector<std::vector<data::Example>> steps = {tiny.examples(5, 1), tiny.examples(2, 2),
                                                         tiny.examples(7, 3)};
  for (const auto& [name, tier] : nn::kTiers) {
    for (const int64_t max_frames : {MicroBatchLimits::kUnlimited, int64_t{60}})
      expect_exact_steps(tiny.config, tiny.shape, steps,
                         {.tier = tier, .limits = {.max_frames = max_frames}});
  }
}

TEST_P(ModelMemory, IsExactIn16Bits) {
  const TinyModel& tiny = GetParam();
  train::RunConfig config = tiny.config;
  config.precision.small_below = 1;
  for (const train::Numerics numerics :
       {train::Numerics::kBf16Exact, train::Numerics::kBf16Lean, train::Numerics::kFp16}) {
    config.numerics = numerics;
    expect_exact_steps(config, tiny.shape, {tiny.examples(5, 1), tiny.examples(7, 2)},
                       {.tier = nn::Tier::kNorms, .limits = {.max_frames = 60}});
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModelMemory, ::testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test.param.name; });

// The dry run has full beams and the longest output: a search takes that much at most, and a greedy
// one exactly.
TEST(RecognitionMemory, IsThatOfTheLargestSearch) {
  for (const auto objective :
       {models::ConformerObjective::kJoint, models::ConformerObjective::kAttention}) {
    for (const train::Numerics numerics : {train::Numerics::kFp32, train::Numerics::kBf16Exact}) {
      for (const int64_t beam : {1, 5}) {
        train::RunConfig config = tiny_conformer(objective);
        config.model.as<models::ConformerOptions>().decoder_layers = 2;
        config.numerics = numerics;
        config.decode.beam = beam;
        for (const bool has_times : {false, true})
          expect_planned_recognition(config, kWaveShape, wave_examples(6, 2), has_times);
      }
    }
  }
}

// One long utterance beside many short ones makes each of them as expensive as the long one.
TEST(RecognitionMemory, HoldsForAnyMixtureOfLengths) {
  train::RunConfig config = tiny_conformer(models::ConformerObjective::kJoint);
  config.decode.beam = 20;
  std::vector<data::Example> examples;
  for (int64_t i = 0; i < 40; ++i)
    examples.push_back(data::make_dry_example(i % 8 == 0 ? 4'000 : 300, /*feature_dim=*/0,
                                              /*num_labels=*/i % 8 == 3 ? 9 : 2));
  const data::ExampleList source{std::vector<data::Example>(examples)};
  train::DryRun dry(config, kWaveShape, train::DryRun::Purpose::kRecognition);
  const int64_t alone = dry.recognise({examples.data(), 1}).high_water;
  for (const int64_t bytes : {alone + alone / 3, 3 * alone}) {
    const train::Fit fit = train::fit_recognition(dry, source, {.bytes = bytes});
    int64_t num_together = 0;
    for (const auto& indices : train::split_step(dry.model(), examples, fit.limits)) {
      std::vector<data::Example> together;
      for (const int64_t index : indices) together.push_back(examples[static_cast<size_t>(index)]);
      num_together = std::max(num_together, std::ssize(together));
      EXPECT_LE(dry.recognise(together).high_water, bytes) << together.size() << " utterances";
    }
    EXPECT_GE(num_together, bytes > 2 * alone ? 2 : 1);
  }
}

TEST(Wav2Vec2Memory, IsExactWithFrozenPartsAndLayerDrop) {
  for (const bool is_stable : {false, true}) {
    train::RunConfig config = tiny_wav2vec2(is_stable);
    config.model.as<models::Wav2Vec2Options>().layer_drop = 0.5;
    const auto steps = {wave_examples(5, 1), wave_examples(5, 2), wave_examples(4, 3)};
    config.model.as<models::Wav2Vec2Options>().freeze_feature_encoder = true;
    expect_exact_steps(config, kWaveShape, steps, {.tier = nn::Tier::kNorms});
    config.model.as<models::Wav2Vec2Options>().freeze_layers = 1;
    expect_exact_steps(config, kWaveShape, steps, {.tier = nn::Tier::kNone});
  }
}

device::MemoryReport report_of(const train::RunConfig& config,
                               const std::vector<data::Example>& examples, nn::Tier tier) {
  train::DryRun dry(config, kWaveShape, train::DryRun::Purpose::kTraining);
  return dry.run_step(examples, {.tier = tier});
}

int64_t at_peak(const device::MemoryReport& report, device::Category category) {
  return report.at_peak[static_cast<size_t>(category)];
}

TEST(Wav2Vec2Memory, FrozenPartsTakeOnlyTheirWeights) {
  train::RunConfig config = tiny_wav2vec2(true);
  const std::vector<data::Example> examples = wave_examples(6, 1);
  const device::MemoryReport all = report_of(config, examples, nn::Tier::kNone);
  config.model.as<models::Wav2Vec2Options>().freeze_layers = 1;
  const device::MemoryReport frozen = report_of(config, examples, nn::Tier::kNone);
  using device::Category;
  EXPECT_EQ(at_peak(frozen, Category::kWeights), at_peak(all, Category::kWeights));
  EXPECT_LT(at_peak(frozen, Category::kGradients), at_peak(all, Category::kGradients) * 2 / 3);
  EXPECT_LT(at_peak(frozen, Category::kOptimizer), at_peak(all, Category::kOptimizer) * 2 / 3);
  EXPECT_LT(at_peak(frozen, Category::kActivations), at_peak(all, Category::kActivations) * 2 / 3);
}

constexpr int64_t kRowTokens = 24;

// Rows of one to four documents, which end with the row or go on; the first has one that goes on.
std::vector<data::Example> rows_of_documents() {
  std::vector<data::Example> rows;
  for (const std::vector<int64_t>& documents :
       {std::vector<int64_t>{24}, {12, 12}, {5, 9, 10}, {1, 1, 20, 2}}) {
    for (const bool ends : {false, true}) {
      data::Example& row =
          rows.emplace_back(data::Example{.rows = kRowTokens, .segments = documents});
      row.tokens.assign(kRowTokens, 1);
      row.labels.assign(kRowTokens, 1);
      int64_t end = 0;
      for (const int64_t length : documents) {
        end += length;
        if (end < kRowTokens || ends)
          row.labels[static_cast<size_t>(end) - 1] = kernels::CrossEntropy::kNoTarget;
      }
    }
  }
  return rows;
}

// So many entries that the peak is where the loss is.
constexpr models::DataShape kManyEntries{.vocabulary = 2000};

// The search for limits uses a step that consists only of sizes.
TEST(LanguageModelMemory, LargestStepTakesAtLeastAsMuchAsAnyStep) {
  train::DryRun dry(tiny_lm(true), kManyEntries, train::DryRun::Purpose::kTraining);
  const std::vector<data::Example> rows = rows_of_documents();
  const data::ExampleList source(rows, std::vector<float>(rows.size(), float{kRowTokens}));
  train::BudgetFit fit(dry, source, {.bytes = int64_t{1} << 30});
  const int64_t largest =
      fit.find_limits({.utterances = 6}, {.tier = nn::Tier::kNorms}).worst.high_water;
  for (const data::Example& row : rows) {
    for (const int64_t count : {1, 3, 6}) {
      std::vector<data::Example> step(6, rows.front());
      std::fill_n(step.begin(), count, row);
      EXPECT_GE(largest, dry.run_step(step, {.tier = nn::Tier::kNorms}).high_water)
          << count << " rows of " << row.segments.size() << " documents";
    }
  }
}

TEST(LanguageModelMemory, EvaluationFitsForAnyNumberOfRows) {
  train::DryRun dry(tiny_lm(true), kManyEntries, train::DryRun::Purpose::kRecognition);
  const std::vector<data::Example> rows = rows_of_documents();
  const data::ExampleList source(rows);
  // Enough for the rows as they lie there.
  const int64_t bytes = dry.recognise(rows).high_water;
  const int64_t frames = train::fit_recognition(dry, source, {.bytes = bytes}).limits.max_frames;
  for (const data::Example& row : rows) {
    std::vector<data::Example> others(static_cast<size_t>(frames / kRowTokens), rows.front());
    others.front() = row;
    EXPECT_LE(dry.recognise(others).high_water, bytes) << row.segments.size() << " documents";
  }
}

// Both moments of a parameter with their scales; norms and biases are in fp32.
TEST(Wav2Vec2Memory, EightBitMomentsTakeTwoBytesPerParameter) {
  train::RunConfig config;
  config.model = models::ModelOptions::of_preset("wav2vec2-base");
  config.precision.moments = optim::Moments::k8Bit;
  const auto bytes_of = [&] {
    train::DryRun dry(config, {.vocabulary = 32}, train::DryRun::Purpose::kTraining);
    const auto example = data::make_dry_example(16'000, /*feature_dim=*/0, /*num_labels=*/10);
    return static_cast<double>(
        at_peak(dry.run_step({&example, 1}, {}), device::Category::kOptimizer));
  };
  const auto model = train::make_model(config, {.vocabulary = 32}, at::kMeta, /*trains=*/false);
  const auto parameters = static_cast<double>(model->parameters().num_values());
  EXPECT_GT(parameters, 94e6);
  EXPECT_LE(bytes_of() / parameters, 2.05);
  EXPECT_GE(bytes_of() / parameters, 2.03);
  config.numerics = train::Numerics::kBf16Lean;
  EXPECT_LE(bytes_of() / parameters, 3.05) << "with 8 bits of remainder";
}

// The XML report of this test contains the duration of a dry run of the largest common network.
TEST(Wav2Vec2Memory, OfXlsR1bIsPredictedWithoutItsWeights) {
  train::RunConfig config;
  config.model = models::ModelOptions::of_preset("xls-r-1b");
  config.numerics = train::Numerics::kBf16Exact;
  const device::Target h200 = device::find_device("h200").target();
  train::DryRun dry(config, {.vocabulary = 32}, train::DryRun::Purpose::kTraining, h200);
  std::vector<data::Example> examples;
  for (int64_t u = 0; u < 40; ++u)  // 480 s
    examples.push_back(data::make_dry_example(12 * 16'000, /*feature_dim=*/0, /*num_labels=*/150));
  const auto run = [&](const std::string& name, const train::StepSettings& settings) {
    const auto start = std::chrono::steady_clock::now();
    const device::MemoryReport report = dry.run_step(examples, settings);
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    RecordProperty("dry_run_ms_" + name, fmt::format("{:.1f}", elapsed.count()));
    RecordProperty("peak_gib_" + name,
                   fmt::format("{:.2f}", static_cast<double>(report.high_water) / (1 << 30)));
    EXPECT_GT(report.peak, int64_t{12} << 30);
    EXPECT_LT(report.peak, int64_t{80} << 30);
    return report.peak;
  };
  const int64_t whole = run("norms", {.tier = nn::Tier::kNorms, .drops_layers = false});
  run("block", {.tier = nn::Tier::kBlock, .drops_layers = false});
  examples.resize(32, examples.front());
  EXPECT_LT(run("norms_16_micro_batches",
                {.tier = nn::Tier::kNorms, .drops_layers = false, .limits = {.max_utterances = 2}}),
            whole);
}

// Memory between the waveform and the pack does not grow with the utterance.
TEST(Wav2Vec2Memory, WaveEncoderDoesNotGrowWithTheUtterance) {
  train::RunConfig config = tiny_wav2vec2(true);
  config.model.as<models::Wav2Vec2Options>().piece_frames = 16;
  train::DryRun dry(config, kWaveShape, train::DryRun::Purpose::kRecognition);
  const auto peak_of = [&](int64_t frames) {
    return dry.recognise({{data::make_dry_example(20 * frames + 300, 0, 1)}}).peak;
  };
  // Beyond the first pieces a frame adds its own rows alone: samples, features and a few of
  // width 32.
  const int64_t a = peak_of(2000), b = peak_of(4000), c = peak_of(8000);
  EXPECT_NEAR(static_cast<double>(c - b), 2.0 * static_cast<double>(b - a),
              0.05 * static_cast<double>(c - b));
  EXPECT_LT((b - a) / 2000, 4 * (2 * 20 + 16 + 12 * 32));
}

}  // namespace
}  // namespace sotto::test
