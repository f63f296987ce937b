#include "sotto/train/hub/model_card.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <string>

#include "support/thrown.h"

namespace sotto::train {
namespace {

using test::contains;

// A wav2vec2 that was fine-tuned, with everything known.
ModelFacts speech_facts() {
  ModelFacts facts{.title = "xls-r-iban", .repository = "me/xls-r-iban"};
  facts.model = models::ModelOptions::of_preset("wav2vec2-base");
  facts.profile = models::profile_model(facts.model, {.vocabulary = 32});
  facts.tokenizer = CardTokenizer::kCharacters;
  facts.has_pipeline = true;
  facts.is_checkpoint = true;
  facts.languages = {"iba", "no"};
  facts.license = "apache-2.0";
  facts.base_model = "facebook/wav2vec2-base";
  RunFacts run;
  run.config.data.train = "somewhere/private/train.jsonl";
  run.config.data.dev = "somewhere/private/dev: clean.jsonl";
  run.config.numerics = Numerics::kBf16Exact;
  run.config.precision.moments = optim::Moments::k8Bit;
  run.config.memory = MemorySize::parse("8GiB");
  run.config.device = "cuda";
  run.config.effective_batch = data::EffectiveBatch::parse("24");
  run.config.optimizer.schedule.rate = 3e-4;
  run.config.optimizer.schedule.warmup_steps = 500;
  run.step = 1200;
  run.epoch = EpochAmount{.num_items = 4000, .audio_seconds = 9000.0};
  run.evaluation = Evaluation{};
  run.evaluation->words = {
      .insertions = 1, .deletions = 2, .substitutions = 3, .reference_length = 48};
  run.evaluation->characters = {
      .insertions = 0, .deletions = 0, .substitutions = 5, .reference_length = 200};
  run.evaluation->num_utterances = 30;
  run.evaluation->audio_seconds = 90.0;
  run.evaluated_step = 1200;
  run.planned_peak_bytes = 7'000'000'000;
  run.measured_peak_bytes = 7'000'000'000;
  run.largest_peak_bytes = 7'100'000'000;
  facts.run = run;
  return facts;
}

// A network of ours of which nothing but its sizes is known.
ModelFacts bare_facts() {
  ModelFacts facts{.title = "tiny"};
  facts.model = models::ModelOptions::of_preset("tiny");
  facts.profile = models::profile_model(facts.model, {.vocabulary = 32});
  return facts;
}

YAML::Node front_matter(const std::string& card) {
  EXPECT_EQ(card.find("---\n"), 0u);
  const size_t end = card.find("\n---\n", 3);
  EXPECT_NE(end, std::string::npos);
  return YAML::Load(card.substr(4, end - 4));
}

TEST(ModelCard, HasTheMetadataTheHubReads) {
  const YAML::Node front = front_matter(model_card(speech_facts()));
  EXPECT_EQ(front["library_name"].as<std::string>(), "transformers");
  EXPECT_EQ(front["pipeline_tag"].as<std::string>(), "automatic-speech-recognition");
  EXPECT_EQ(front["license"].as<std::string>(), "apache-2.0");
  EXPECT_EQ(front["base_model"].as<std::string>(), "facebook/wav2vec2-base");
  // YAML would take a plain no for false.
  EXPECT_EQ(front["language"].as<std::vector<std::string>>(),
            (std::vector<std::string>{"iba", "no"}));
  EXPECT_EQ(front["tags"].as<std::vector<std::string>>(),
            (std::vector<std::string>{"sotto", "wav2vec2"}));
  EXPECT_EQ(front["metrics"].as<std::vector<std::string>>(),
            (std::vector<std::string>{"wer", "cer"}));
  const YAML::Node result = front["model-index"][0]["results"][0];
  EXPECT_EQ(front["model-index"][0]["name"].as<std::string>(), "xls-r-iban");
  EXPECT_EQ(result["task"]["type"].as<std::string>(), "automatic-speech-recognition");
  EXPECT_EQ(result["dataset"]["name"].as<std::string>(), "dev: clean.jsonl");
  EXPECT_EQ(result["metrics"][0]["type"].as<std::string>(), "wer");
  EXPECT_EQ(result["metrics"][0]["value"].as<double>(), 12.5);
  EXPECT_EQ(result["metrics"][1]["value"].as<double>(), 2.5);
}

TEST(ModelCard, StatesTheFactsOfTheRun) {
  const std::string card = model_card(speech_facts());
  for (const char* part :
       {"# xls-r-iban\n", "94.40 million parameters, 12 layers of width 768",
        "weights of `facebook/wav2vec2-base`", "audio at 16000 Hz",
        "| WER | 12.50 % (insertions 1, deletions 2, substitutions 3 of 48) |",
        "30 utterances, 1 min 30 s of audio", "`train.jsonl`: 4000 utterances, 2.50 hours",
        "| steps | 1200 |", "| effective batch | 24 utterances |",
        "| learning rate | 0.0003, linear, 500 steps of warm-up |", "moments in 8bit",
        "| numerics | bf16-exact |", "| budget | 8.00 GiB |",
        "| first step, planned | 6.52 GiB (7000000000 bytes) |",
        "| first step, measured | 6.52 GiB (7000000000 bytes) |",
        "| largest step | 6.61 GiB (7100000000 bytes) |", "hf download me/xls-r-iban",
        "sotto transcribe --model xls-r-iban speech.wav", "model=\"me/xls-r-iban\""})
    EXPECT_PRED2(contains, card, part);
  // Files go by their names: paths of a machine are nobody's business.
  EXPECT_EQ(card.find("private"), std::string::npos);
}

TEST(ModelCard, OmitsUnknownFacts) {
  const std::string card = model_card(bare_facts());
  const YAML::Node front = front_matter(card);
  EXPECT_EQ(front["library_name"].as<std::string>(), "sotto");
  for (const char* key : {"language", "license", "base_model", "metrics", "model-index"})
    EXPECT_FALSE(front[key]) << key;
  for (const char* part :
       {"## Results", "## Training", "## Memory", "WER", "python", "hf download"})
    EXPECT_EQ(card.find(part), std::string::npos) << part;
  EXPECT_PRED2(contains, card, "1.10 million parameters");

  ModelFacts facts = speech_facts();
  facts.run->epoch.reset();
  facts.run->evaluation.reset();
  facts.run->planned_peak_bytes.reset();
  const std::string without = model_card(facts);
  EXPECT_PRED2(contains, without, "| data | `train.jsonl` |");
  EXPECT_EQ(without.find("## Results"), std::string::npos);
  EXPECT_EQ(without.find("planned"), std::string::npos);
  EXPECT_FALSE(front_matter(without)["model-index"]);
}

// The weights are not those that were evaluated: the card says so, and its metadata has no results.
TEST(ModelCard, DoesNotReportResultsOfOtherWeightsToTheHub) {
  ModelFacts facts = speech_facts();
  facts.run->evaluated_step = 1000;
  const std::string card = model_card(facts);
  EXPECT_FALSE(front_matter(card)["model-index"]);
  EXPECT_FALSE(front_matter(card)["metrics"]);
  EXPECT_PRED2(contains, card, "for the weights after step 1000, not for these");
}

TEST(ModelCard, HasThePerplexityOfALanguageModel) {
  ModelFacts facts = bare_facts();
  facts.model = models::ModelOptions::of_preset("decoder-lm");
  facts.is_checkpoint = true;
  facts.run = RunFacts{};
  facts.run->config.model = facts.model;
  facts.run->config.data.dev = "dev.txt";
  facts.run->epoch = EpochAmount{.num_items = 7, .num_tokens = 900};
  facts.run->evaluation = Evaluation{};
  facts.run->evaluation->loss = 4.0;
  facts.run->evaluation->task = &kLanguageModelling;
  facts.run->evaluation->num_tokens = 100;
  const std::string card = model_card(facts);
  const YAML::Node front = front_matter(card);
  EXPECT_EQ(front["pipeline_tag"].as<std::string>(), "text-generation");
  EXPECT_EQ(front["model-index"][0]["results"][0]["metrics"][0]["value"].as<double>(), 54.6);
  EXPECT_PRED2(contains, card, "| perplexity | 54.60 |");
  EXPECT_PRED2(contains, card, "7 rows, 900 tokens");
  EXPECT_PRED2(contains, card, "sotto eval --model tiny --data text.txt");
}

}  // namespace
}  // namespace sotto::train
