#include "sotto/train/step/config_aliases.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "sotto/train/step/run_config.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

using test::contains;
using test::message_of;

RunConfig read(const std::vector<std::string>& settings) {
  ConfigNode tree = load_overrides(settings);
  resolve_aliases(tree);
  return read_options<RunConfig>(tree);
}

std::string refusal_of(const std::vector<std::string>& settings) {
  return message_of<ConfigError>([&] { read(settings); });
}

TEST(ConfigAliases, BatchesAreMicroBatchTimesSteps) {
  const RunConfig config = read({"per_device_train_batch_size=4", "gradient_accumulation_steps=8"});
  EXPECT_EQ(config.micro_batch, 4);
  EXPECT_EQ(config.effective_batch.utterances, 32);
  EXPECT_EQ(read({"micro_batch=3", "accumulation_steps=5"}).effective_batch.utterances, 15);
  EXPECT_PRED2(contains, refusal_of({"gradient_accumulation_steps=8"}), "without micro_batch");
  EXPECT_PRED2(contains,
               refusal_of({"micro_batch=100000000000", "accumulation_steps=100000000000"}),
               "more utterances than can be counted");
  EXPECT_PRED2(contains, refusal_of({"epochs=9223372036854775807"}), "epochs");
  EXPECT_PRED2(contains, refusal_of({"micro_batch=3", "accumulation_steps=5", "effective_batch=9"}),
               "accumulation_steps and effective_batch");
  EXPECT_PRED2(contains, refusal_of({"micro_batch=3", "per_device_train_batch_size=5"}),
               "per_device_train_batch_size and micro_batch");
  EXPECT_PRED2(contains, refusal_of({"micro_batch=3", "accumulation_steps=0"}),
               "a whole number of at least 1");
}

TEST(ConfigAliases, BatchesWithoutAccumulationAreThoseOfAnUpdate) {
  for (const char* key : {"per_device_train_batch_size", "batch_size"}) {
    const RunConfig config = read({fmt::format("{}=16", key)});
    EXPECT_EQ(config.micro_batch, 16);
    EXPECT_EQ(config.effective_batch.utterances, 16) << key;
  }
  // Ours is a limit alone.
  EXPECT_EQ(read({"micro_batch=16"}).effective_batch.utterances,
            RunConfig().effective_batch.utterances);
  EXPECT_EQ(read({"batch_size=4", "effective_batch=12"}).effective_batch.utterances, 12);
}

TEST(ConfigAliases, RunLengths) {
  EXPECT_EQ(read({"num_train_epochs=3"}).epochs, 3);
  EXPECT_EQ(read({"num_train_epochs=3.0"}).epochs, 3);
  EXPECT_PRED2(contains, refusal_of({"num_train_epochs=2.5"}), "num_train_epochs is '2.5'");
  EXPECT_EQ(read({"max_steps=-1"}).max_steps, 0);
  EXPECT_EQ(read({"max_steps=7"}).max_steps, 7);
  EXPECT_EQ(read({"max_samples=100"}).data.utterances.max_samples, 100);
  EXPECT_EQ(read({"dataloader_num_workers=4"}).data.loader_threads, 4);
  EXPECT_EQ(read({"dataloader_num_workers=0"}).data.loader_threads, 1);
}

TEST(ConfigAliases, ReductionsOfNemo) {
  EXPECT_EQ(read({"reduction=mean_volume"}).reduction, models::Reduction::kTokens);
  EXPECT_EQ(read({"reduction=mean_batch"}).reduction, models::Reduction::kUtterances);
  EXPECT_EQ(read({"reduction=mean"}).reduction, models::Reduction::kCtcMean);
  EXPECT_EQ(read({"reduction=tokens"}).reduction, models::Reduction::kTokens);
  EXPECT_PRED2(contains, refusal_of({"reduction=median"}), "median");
}

TEST(ConfigAliases, ArithmeticAndMemory) {
  EXPECT_EQ(read({"bf16=true"}).numerics, Numerics::kBf16Exact);
  EXPECT_EQ(read({"fp16=true"}).numerics, Numerics::kFp16);
  EXPECT_EQ(read({"fp16=false", "bf16=false"}).numerics, Numerics::kFp32);
  EXPECT_EQ(read({"mixed_precision=bf16"}).numerics, Numerics::kBf16Exact);
  EXPECT_EQ(read({"mixed_precision=fp16"}).numerics, Numerics::kFp16);
  EXPECT_EQ(read({"mixed_precision=\"no\""}).numerics, Numerics::kFp32);
  EXPECT_EQ(read({"mixed_precision=true"}).numerics, Numerics::kFp16);
  EXPECT_EQ(read({"mixed_precision=false"}).numerics, Numerics::kFp32);
  EXPECT_PRED2(contains, refusal_of({"mixed_precision=fp8"}), "one of no, fp16, bf16");
  EXPECT_PRED2(contains, refusal_of({"bf16=true", "fp16=true"}), "fp16 and numerics");
  EXPECT_EQ(read({"gradient_checkpointing=true"}).tier, nn::Tier::kBlock);
  EXPECT_EQ(read({"gradient_checkpointing=false"}).tier, nn::Tier::kNone);
  EXPECT_PRED2(contains, refusal_of({"gradient_checkpointing=yes"}), "true or false");
  EXPECT_EQ(read({"learning_rate=0.003"}).optimizer.schedule.rate, 0.003);
  EXPECT_EQ(read({"max_memory_gb=12"}).memory.bytes, 12'000'000'000);
  EXPECT_DOUBLE_EQ(read({"safety_margin=0.7"}).memory.share, 0.7);
  EXPECT_PRED2(contains, refusal_of({"safety_margin=0.99"}), "0.7 to 0.95");
  EXPECT_PRED2(contains, refusal_of({"safety_margin=most"}), "0.7 to 0.95");
  EXPECT_PRED2(contains, refusal_of({"safety_margin=0.9", "max_memory_gb=4"}),
               "they mean the same");
}

TEST(ConfigAliases, OptimizersByName) {
  EXPECT_EQ(read({"optimizer=adamw_8bit"}).arithmetic().moments, optim::Moments::k8Bit);
  EXPECT_EQ(read({"optimizer=adamw"}).arithmetic().moments, optim::Moments::kFp32);
  EXPECT_PRED2(contains, refusal_of({"optimizer=sgd"}), "one of adamw, adamw_8bit");
  // Beside keys that are settings of the optimizer's group.
  const RunConfig named = read({"optimizer=adamw_8bit", "learning_rate=0.003", "weight_decay=0.2"});
  EXPECT_EQ(named.arithmetic().moments, optim::Moments::k8Bit);
  EXPECT_EQ(named.optimizer.schedule.rate, 0.003);
  EXPECT_EQ(named.optimizer.weight_decay, 0.2);
}

TEST(ConfigAliases, SizesOfNetworks) {
  const RunConfig config = read({"d_model=64", "encoder_layers=3", "batch_size=4"});
  const auto& model = config.model.as<models::TransformerCtcOptions>();
  EXPECT_EQ(model.width, 64);
  EXPECT_EQ(model.layers, 3);
  EXPECT_EQ(config.micro_batch, 4);
  EXPECT_PRED2(contains, refusal_of({"model=tiny", "d_model=64"}),
               "beside d_model, which is model.width in that group");
}

TEST(ConfigAliases, ResumeRequests) {
  const auto request = [](const std::string& setting) {
    ConfigNode tree = load_overrides({setting});
    return resolve_aliases(tree);
  };
  EXPECT_TRUE(request("resume_from_checkpoint=true").resumes);
  EXPECT_FALSE(request("resume_from_checkpoint=false").resumes);
  EXPECT_EQ(request("resume_from_checkpoint=runs/a/checkpoints/step-5").resume_from,
            "runs/a/checkpoints/step-5");
  EXPECT_FALSE(request("epochs=3").resumes);
}

// Only our own keys are written back.
TEST(ConfigAliases, AreNotWrittenBack) {
  const ConfigNode tree =
      write_options(read({"per_device_train_batch_size=4", "gradient_accumulation_steps=2"}));
  EXPECT_FALSE(contains(format_yaml(tree), "per_device"));
  EXPECT_EQ(read_options<RunConfig>(tree).effective_batch.utterances, 8);
}

}  // namespace
}  // namespace sotto::train
