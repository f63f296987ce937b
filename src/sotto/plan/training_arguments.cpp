#include "sotto/plan/training_arguments.h"

#include <cmath>

#include "sotto/core/error.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"

namespace sotto::plan {

namespace {

using optim::ScheduleKind;

std::string scheduler_of(const optim::ScheduleOptions& schedule, std::vector<std::string>& notes) {
  switch (schedule.kind) {
    case ScheduleKind::kConstant: return "constant_with_warmup";
    case ScheduleKind::kLinear: return "linear";
    case ScheduleKind::kCosine: return "cosine";
    case ScheduleKind::kInverseSqrt: return "inverse_sqrt";
    case ScheduleKind::kPlateau: return "reduce_lr_on_plateau";
    case ScheduleKind::kTriStage: break;
  }
  notes.emplace_back("schedule tri_stage: not in transformers, replaced by linear");
  return "linear";
}

int64_t warmup_steps(const optim::ScheduleOptions& schedule, int64_t total) {
  if (schedule.warmup_share == 0.0) return schedule.warmup_steps;
  return std::llround(schedule.warmup_share * static_cast<double>(total));
}

void add_optimizer(const optim::OptimizerOptions& optimizer, int64_t total,
                   TrainingArguments& arguments) {
  nlohmann::ordered_json& json = arguments.json;
  json["learning_rate"] = optimizer.schedule.rate;
  json["lr_scheduler_type"] = scheduler_of(optimizer.schedule, arguments.notes);
  json["warmup_steps"] = warmup_steps(optimizer.schedule, total);
  json["weight_decay"] = optimizer.weight_decay;
  json["adam_beta1"] = optimizer.beta1;
  json["adam_beta2"] = optimizer.beta2;
  json["adam_epsilon"] = optimizer.epsilon;
  json["max_grad_norm"] = optimizer.clip_norm;
  if (!optimizer.rate_factors.empty())
    arguments.notes.emplace_back("optimizer.rate_factors: pass your own optimizer to the Trainer");
}

}  // namespace

TrainingArguments training_arguments(const train::RunConfig& config,
                                     const TransformersChoice& choice, int64_t steps_per_epoch) {
  if (!config.stages.empty())
    throw ConfigError({.attempted = "writing TrainingArguments for transformers",
                       .found = "a run with stages",
                       .expected = "epochs or max_steps, which its Trainer knows",
                       .hint = "Remove stages from the configuration."});
  const PaddedTraining& training = choice.training;
  const train::Compute compute = config.arithmetic().compute;
  const int64_t total = train::total_steps(config, steps_per_epoch);
  TrainingArguments arguments;
  nlohmann::ordered_json& json = arguments.json;
  json["output_dir"] = "runs/" + config.name;
  json["per_device_train_batch_size"] = training.utterances;
  json["gradient_accumulation_steps"] = training.accumulation;
  json["per_device_eval_batch_size"] = training.utterances;
  json["num_train_epochs"] = config.epochs;
  json["max_steps"] = config.max_steps > 0 ? config.max_steps : -1;
  json["bf16"] = compute == train::Compute::kBf16;
  json["fp16"] = compute == train::Compute::kFp16;
  // None keeps the card's default; false would disable it.
  json["tf32"] = compute == train::Compute::kTf32 ? nlohmann::ordered_json(true) : nullptr;
  json["gradient_checkpointing"] = training.checkpoints;
  if (training.checkpoints) json["gradient_checkpointing_kwargs"] = {{"use_reentrant", false}};
  json["optim"] = training.has_8bit_moments ? "adamw_bnb_8bit" : "adamw_torch_fused";
  add_optimizer(config.optimizer, total, arguments);
  json["train_sampling_strategy"] = "group_by_length";
  json["length_column_name"] = "input_length";
  json["dataloader_num_workers"] = config.data.loader_threads;
  json["seed"] = config.seed;
  const bool evaluates = !config.data.dev.empty();
  const int64_t evaluate_every = config.evaluate_every;
  json["eval_strategy"] = !evaluates ? "no" : evaluate_every > 0 ? "steps" : "epoch";
  if (evaluates && evaluate_every > 0) json["eval_steps"] = evaluate_every;
  json["save_strategy"] = config.checkpoint_every > 0 ? "steps" : "epoch";
  if (config.checkpoint_every > 0) json["save_steps"] = config.checkpoint_every;
  json["save_total_limit"] = config.keep_checkpoints;
  if (!config.model.as<models::Wav2Vec2Options>().freeze_feature_encoder)
    arguments.notes.emplace_back(
        "the estimate assumes a frozen feature encoder: call model.freeze_feature_encoder()");
  return arguments;
}

}  // namespace sotto::plan
