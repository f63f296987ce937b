#include "sotto/train/step/foreign_groups.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/train/step/config_aliases.h"
#include "sotto/train/step/run_config.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

using test::contains;
using test::message_of;

struct Understood {
  RunConfig config;
  AliasedRequest request;
};

Understood understood(const std::string& yaml) {
  ConfigNode tree = parse_yaml(yaml, "user.yaml");
  AliasedRequest request = resolve_aliases(tree);
  return {.config = read_options<RunConfig>(tree), .request = std::move(request)};
}

std::string refusal_of_file(const std::string& yaml) {
  return message_of<ConfigError>([&] { understood(yaml); });
}

// A file as people have it for other tools.
constexpr const char* kUsersFile = R"(model:
  name: nvidia/parakeet-tdt-0.6b-v3
  gradient_checkpointing: true
data:
  train_manifest: data/train.jsonl
  val_manifest: data/dev.jsonl
  max_duration: 20.0
  min_duration: 0.5
  num_workers: 4
  max_samples: -1
training:
  output_dir: runs/user
  per_device_train_batch_size: 20
  per_device_eval_batch_size: 8
  gradient_accumulation_steps: 6
  learning_rate: 1.0e-4
  weight_decay: 0.001
  num_train_epochs: 3
  max_steps: -1
  warmup_steps: 5000
  lr_scheduler_type: cosine
  bf16: true
  fp16: false
  optim: adamw_8bit
  adam_beta2: 0.98
  max_grad_norm: 1.0
  eval_strategy: steps
  eval_steps: 2000
  save_strategy: steps
  save_steps: 1000
  save_total_limit: 3
  dataloader_num_workers: 4
  num_gpus: 1
  seed: 42
)";

TEST(ForeignGroups, UsersFileIsUnderstood) {
  std::string yaml(kUsersFile);
  // Twice in the groups of one file: refused below.
  yaml.erase(yaml.find("  dataloader_num_workers: 4\n"), 28);
  const auto [config, request] = understood(yaml);
  EXPECT_EQ(request.model, "nvidia/parakeet-tdt-0.6b-v3");
  EXPECT_EQ(request.folder, "runs/user");
  EXPECT_EQ(config.tier, nn::Tier::kBlock);
  EXPECT_EQ(config.data.train, "data/train.jsonl");
  EXPECT_EQ(config.data.dev, "data/dev.jsonl");
  EXPECT_EQ(config.data.utterances.max_seconds, 20.0);
  EXPECT_EQ(config.data.utterances.min_seconds, 0.5);
  EXPECT_EQ(config.data.utterances.max_samples, 0);
  EXPECT_EQ(config.data.loader_threads, 4);
  EXPECT_EQ(config.micro_batch, 20);
  EXPECT_EQ(config.effective_batch.utterances, 120);
  EXPECT_EQ(config.evaluation_micro_batch, 8);
  EXPECT_EQ(config.optimizer.schedule.rate, 1e-4);
  EXPECT_EQ(config.optimizer.schedule.warmup_steps, 5000);
  EXPECT_EQ(config.optimizer.schedule.kind, optim::ScheduleKind::kCosine);
  EXPECT_EQ(config.optimizer.weight_decay, 0.001);
  EXPECT_EQ(config.optimizer.beta2, 0.98);
  EXPECT_EQ(config.optimizer.clip_norm, 1.0);
  EXPECT_EQ(config.numerics, Numerics::kBf16Exact);
  EXPECT_EQ(config.arithmetic().moments, optim::Moments::k8Bit);
  EXPECT_EQ(config.epochs, 3);
  EXPECT_EQ(config.max_steps, 0);
  EXPECT_EQ(config.evaluate_every, 2000);
  EXPECT_EQ(config.checkpoint_every, 1000);
  EXPECT_EQ(config.keep_checkpoints, 3);
  EXPECT_EQ(config.device, "cuda");
  EXPECT_EQ(config.seed, 42);
}

TEST(ForeignGroups, KeysAreThereOnce) {
  EXPECT_PRED2(contains, refusal_of_file(kUsersFile),
               "dataloader_num_workers and data.loader_threads");
  EXPECT_PRED2(contains, refusal_of_file("training: {seed: 1}\nseed: 2\n"),
               "training.seed and seed");
  EXPECT_PRED2(contains, refusal_of_file("model: {name: a/b, preset: tiny}\n"), "name and preset");
  EXPECT_PRED2(contains, refusal_of_file("model: {name: a/b}\nmodel_name_or_path: a/b\n"),
               "model_name_or_path and name");
  EXPECT_PRED2(contains, refusal_of_file("data: {train: a, train_manifest: b}\n"),
               "data.train_manifest and train");
  EXPECT_PRED2(
      contains,
      refusal_of_file(
          "model: {gradient_checkpointing: true}\ntraining: {gradient_checkpointing: true}\n"),
      "model.gradient_checkpointing and gradient_checkpointing");
}

TEST(ForeignGroups, ValuesWithoutEffectAreRefused) {
  EXPECT_PRED2(contains, refusal_of_file("num_gpus: 2\n"), "several GPUs is not supported");
  EXPECT_PRED2(contains, refusal_of_file("training: {num_gpus: 1}\ndevice: cpu\n"),
               "num_gpus: 1 and device: cpu");
  EXPECT_EQ(understood("num_gpus: 1\ndevice: cuda:1\n").config.device, "cuda:1");
  EXPECT_EQ(understood("num_gpus: 0\n").config.device, "cpu");
  EXPECT_PRED2(contains, refusal_of_file("training: 3\n"), "training is '3'");
  EXPECT_PRED2(contains, refusal_of_file("model: {name: [a]}\n"), "name is a list");
  EXPECT_PRED2(contains, refusal_of_file("max_samples: -2\n"), "max_samples");
  EXPECT_PRED2(contains, refusal_of_file("per_device_eval_batch_size: -1\n"),
               "evaluation_micro_batch");
  EXPECT_EQ(understood("training:\nseed: 2\n").config.seed, 2);
  EXPECT_EQ(understood("max_samples: 50\n").config.data.utterances.max_samples, 50);
}

TEST(ForeignGroups, SchedulesAndIntervalsOfHuggingFace) {
  EXPECT_EQ(understood("lr_scheduler_type: constant_with_warmup\nwarmup_steps: 5\n")
                .config.optimizer.schedule.kind,
            optim::ScheduleKind::kConstant);
  EXPECT_PRED2(contains, refusal_of_file("lr_scheduler_type: constant\nwarmup_steps: 5\n"),
               "constant with a warm-up");
  EXPECT_PRED2(contains, refusal_of_file("lr_scheduler_type: polynomial\n"), "one of constant");
  EXPECT_EQ(understood("eval_strategy: epoch\nsave_strategy: epoch\n").config.evaluate_every, 0);
  EXPECT_PRED2(contains, refusal_of_file("eval_strategy: epoch\neval_steps: 5\n"),
               "eval_strategy: epoch with eval_steps");
  EXPECT_PRED2(contains, refusal_of_file("save_strategy: steps\n"),
               "save_strategy: steps without save_steps");
  EXPECT_PRED2(contains, refusal_of_file("optim: adafactor\n"), "one of adamw");
}

TEST(ForeignGroups, HybridNetworksAreRefusedByName) {
  for (const char* yaml :
       {"model: {aux_ctc: {ctc_loss_weight: 0.3}}\n", "model: {ctc_loss_weight: 0.3}\n",
        "aux_ctc: {decoder: {}}\n", "training: {ctc_loss_weight: 0.5}\n"})
    EXPECT_PRED2(contains, refusal_of_file(yaml),
                 "hybrid networks, which have a transducer and a CTC head")
        << yaml;
  EXPECT_EQ(understood("model: {ctc_loss_weight: 0.0}\nseed: 3\n").config.seed, 3);
}

}  // namespace
}  // namespace sotto::train
