#include "sotto/train/step/run_config.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"

namespace sotto::train {

void DataOptions::visit(OptionVisitor& visitor) {
  visitor.value("train", train, "manifest of training utterances; for decoder_lm a text file");
  visitor.value("dev", dev, "manifest or text file for evaluation");
  visitor.value("tokenizer", tokenizer,
                "vocab.json or SentencePiece .model; empty: characters of the training texts");
  visitor.group("text", text, "normalisation of transcripts");
  visitor.value("language", language,
                "language of all utterances, for whisper; empty: lang of each in the manifest");
  visitor.choice("task", task, "transcribe, or translate into English, for whisper",
                 data::kWhisperTasks);
  visitor.value("row_tokens", row_tokens, "tokens per row of text, for decoder_lm",
                {.min = 2, .max = 1 << 20});
  visitor.choice("documents", documents, "unit of plain text that is a document, for decoder_lm",
                 data::kDocuments);
  visitor.value("separate_documents", separate_documents,
                "attention ends with a document; false: a row is one sequence, for decoder_lm");
  utterances.visit(visitor);
  visitor.choice("too_large", too_large,
                 "what to do with an utterance that alone exceeds the budget",
                 data::kTooLongPolicies);
  visitor.group("augment", augment, "augmentation of the training audio");
  visitor.value("loader_threads", loader_threads, "threads that prefetch audio",
                {.min = 1, .max = 256});
  visitor.value("loader_memory", loader_memory, "memory for prefetched audio");
  visitor.choice("cache", cache, "where decoded audio is cached between epochs", data::kCacheKinds);
  visitor.value("cache_size", cache_size, "maximum size of the cache");
}

void DataOptions::validate() const {
  if (cache != data::CacheKind::kNone || cache_size.kind == MemorySize::Kind::kAuto) return;
  throw ConfigError({.attempted = "setting up the data",
                     .found = fmt::format("cache_size {} without a cache", cache_size.to_string()),
                     .expected = "cache: memory or cache: disk"});
}

void RunConfig::visit(OptionVisitor& visitor) {
  visitor.value("name", name,
                "name of the run, written to runs/NAME; empty: the model's name and a number");
  visitor.group("model", model, "the network");
  visitor.value("init_from", init_from,
                "checkpoint, run or model with the initial weights; empty: random");
  visitor.group("data", data, "training and evaluation data");
  visitor.group("optimizer", optimizer, "AdamW and its schedule");
  visitor.value("memory", memory, "memory budget; a percentage is of free memory");
  visitor.value("host_memory", host_memory,
                "additional host memory, for a GPU or offloaded tensors");
  visitor.value("device", device, "cpu, cuda or cuda:N");
  visitor.choice("numerics", numerics, "arithmetic of the run", kNumerics);
  visitor.group("precision", precision, "overrides for parts of the numerics");
  visitor.value("deterministic", deterministic,
                "bit-identical results in every run, also on a GPU");
  std::string tiers = tier.to_string();
  visitor.value("tier", tiers,
                "recomputation per layer: none, norms, ffn, qkv, block, host; or groups of layers "
                "starting with the first: 12 block, norms");
  tier = nn::LayerTiers::parse(tiers);
  std::string batch = effective_batch.to_string();
  visitor.value("effective_batch", batch, "utterances per update, or seconds of audio: 32, 120s");
  effective_batch = data::EffectiveBatch::parse(batch);
  visitor.value("micro_batch", micro_batch,
                "maximum utterances per micro-batch; 0: as memory allows", {.min = 0});
  visitor.value("max_frames", max_frames,
                "maximum encoder frames per micro-batch; 0: as memory allows", {.min = 0});
  visitor.value("evaluation_micro_batch", evaluation_micro_batch,
                "maximum utterances per micro-batch of an evaluation; 0: as memory allows",
                {.min = 0});
  visitor.value("adaptive_batching", adaptive_batching,
                "fill micro-batches by length; false: micro_batch utterances each");
  visitor.choice("curriculum", curriculum, "order of the utterances", data::kCurricula);
  visitor.choice("reduction", reduction, "reduction of the losses of a step", kReductions);
  visitor.value("epochs", epochs, "passes over the training data",
                {.min = 1, .max = 1'000'000'000});
  visitor.value("max_steps", max_steps, "number of updates, overrides epochs; 0: use epochs",
                {.min = 0});
  visitor.groups("stages", stages,
                 "progressive training: samples, epochs or steps, and schedule of each stage; "
                 "replaces epochs and max_steps",
                 StageOptions{.samples = {}, .schedule = optimizer.schedule});
  visitor.value("seed", seed, "random seed of weights, order and dropout", {.min = 0});
  visitor.group("decode", decode, "the search for transcripts in evaluations");
  visitor.value("evaluate_every", evaluate_every, "updates between evaluations; 0: every epoch",
                {.min = 0});
  visitor.value("checkpoint_every", checkpoint_every, "updates between checkpoints; 0: every epoch",
                {.min = 0});
  visitor.duration("checkpoint_seconds", checkpoint_seconds, "maximum time between checkpoints",
                   {.above = 0});
  visitor.value("keep_checkpoints", keep_checkpoints,
                "number of latest checkpoints kept, in addition to the best",
                {.min = 1, .max = 10'000});
  visitor.value("keep_best", keep_best,
                "number of checkpoints with the best evaluations kept; 1: only best/",
                {.min = 1, .max = 10'000});
  visitor.value("early_stopping", early_stopping.patience,
                "evaluations without improvement before the run stops; 0: never", {.min = 0});
  visitor.value("early_stopping_difference", early_stopping.difference,
                "decrease of WER (as a fraction) or perplexity that counts as improvement",
                {.min = 0});
  visitor.value("release_caches_every", release_caches_every,
                "updates between releases of cached memory; 0: never", {.min = 0});
}

namespace {

// Data settings that apply only to speech, or only to text.
constexpr std::array kOfText = {std::string_view("row_tokens"), std::string_view("documents"),
                                std::string_view("separate_documents")};
constexpr std::array kOfSpeech = {std::string_view("min_seconds"),  std::string_view("max_seconds"),
                                  std::string_view("max_samples"),  std::string_view("too_short"),
                                  std::string_view("too_long"),     std::string_view("broken"),
                                  std::string_view("unknown_text"), std::string_view("empty_text"),
                                  std::string_view("too_large"),    std::string_view("augment"),
                                  std::string_view("cache"),        std::string_view("cache_size"),
                                  std::string_view("language"),     std::string_view("task")};

// Throws for a setting that differs from its default but has no effect on the network.
void check_data_of(const DataOptions& options, std::span<const std::string_view> idle,
                   std::string_view learns_from) {
  const std::vector<OptionInfo> defaults = list_options(DataOptions{});
  const std::vector<OptionInfo> chosen = list_options(options);
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::string& key = chosen[i].key;
    const bool is_idle =
        std::ranges::find(idle, std::string_view(key).substr(0, key.find('.'))) != idle.end();
    if (!is_idle || chosen[i].value == defaults[i].value) continue;
    throw ConfigError({.attempted = "checking the settings of the data",
                       .found = fmt::format("data.{}: {}", key, chosen[i].value),
                       .expected = fmt::format("none: the network learns from {}", learns_from)});
  }
}

}  // namespace

void RunConfig::check_text() const {
  check_data_of(data, kOfSpeech, model.task().input_name);
  const auto refuse = [](const std::string& found, const std::string& expected) {
    throw ConfigError(
        {.attempted = "setting up a language model", .found = found, .expected = expected});
  };
  if (effective_batch.kind == data::EffectiveBatch::Kind::kSeconds)
    refuse(fmt::format("effective_batch {}", effective_batch.to_string()), "a number of rows");
  if (curriculum != data::Curriculum::kShuffle)
    refuse(fmt::format("curriculum {}", name_of(curriculum, data::kCurricula)),
           "shuffle: rows of text are equally long");
  model.check_rows(data.rows());
}

void RunConfig::validate() const {
  arithmetic();
  check_order(stages);
  if (model.task().is_text()) {
    check_text();
  } else {
    check_data_of(data, kOfText, model.task().input_name);
  }
  const bool is_plain = name != "." && name != ".." && name.find('/') == std::string::npos &&
                        name.find('\0') == std::string::npos;
  if (!is_plain) {
    throw ConfigError({.attempted = "checking the run's name",
                       .found = fmt::format("'{}'", name),
                       .expected = "the name of a folder below runs/, such as digits"});
  }
  if (!adaptive_batching && micro_batch == 0) {
    throw ConfigError({.attempted = "checking the micro-batches",
                       .found = "adaptive_batching: false without micro_batch",
                       .expected = "micro_batch, the utterances per micro-batch",
                       .hint = "Set micro_batch, or leave adaptive_batching on."});
  }
  if (effective_batch.kind == data::EffectiveBatch::Kind::kUtterances &&
      micro_batch > effective_batch.utterances) {
    throw ConfigError(
        {.attempted = "checking the micro-batches",
         .found = fmt::format("micro_batch: {} with effective_batch: {}", micro_batch,
                              effective_batch.utterances),
         .expected = fmt::format("a micro_batch of at most {}", effective_batch.utterances),
         .hint = "Raise effective_batch, or remove micro_batch."});
  }
}

void check_effects(const RunConfig& config) {
  const auto refuse = [](const std::string& found, const std::string& hint) {
    throw ConfigError({.attempted = "checking the settings",
                       .found = found + ", which has no effect",
                       .expected = "only settings that take effect",
                       .hint = hint});
  };
  // A plan may be made without data.
  if (!config.data.train.empty() && config.data.dev.empty() && config.evaluate_every > 0)
    refuse("evaluate_every without evaluation data", "Name a manifest with --dev.");
  if (!config.data.train.empty() && config.data.dev.empty() && config.evaluation_micro_batch > 0)
    refuse("evaluation_micro_batch without evaluation data", "Name a manifest with --dev.");
  if (!config.data.train.empty() && config.data.dev.empty() && config.keep_best > 1)
    refuse("keep_best without evaluation data", "Name a manifest with --dev.");
  if (config.early_stopping.patience == 0 && config.early_stopping.difference > 0.0)
    refuse("early_stopping_difference without early_stopping",
           "Set early_stopping, the evaluations without improvement.");
  const auto is_idle = [](const optim::ScheduleOptions& schedule) {
    return schedule.kind == optim::ScheduleKind::kConstant && schedule.final_ratio > 0.0;
  };
  if (is_idle(config.optimizer.schedule))
    refuse("optimizer.schedule.final_ratio with kind: constant",
           "Choose a schedule that decays: --set optimizer.schedule.kind=linear.");
  for (const StageOptions& stage : config.stages)
    if (is_idle(stage.schedule))
      refuse(fmt::format("final_ratio with kind: constant in the stage of {}",
                         stage.samples.to_string()),
             "Choose a kind that decays, or set final_ratio: 0 there.");
  const data::DatasetOptions& utterances = config.data.utterances;
  if (utterances.min_seconds == 0.0 && utterances.too_short != data::DatasetOptions().too_short)
    refuse("data.too_short without data.min_seconds", "Set data.min_seconds.");
  check_prompt_effects(config);
}

void check_prompt_effects(const RunConfig& config) {
  if (config.model.prompts()) return;
  const auto refuse = [](const std::string& found) {
    throw ConfigError({.attempted = "checking the settings",
                       .found = found + ", which has no effect",
                       .expected = "only settings that take effect",
                       .hint = "Only networks of the family whisper have prompts."});
  };
  if (!config.data.language.empty()) refuse(fmt::format("data.language: {}", config.data.language));
  if (config.data.task != data::WhisperTask::kTranscribe) refuse("data.task: translate");
}

void check_stage_effects(const RunConfig& config) {
  if (config.stages.empty()) return;
  const auto refuse = [](const std::string& found, const std::string& hint) {
    throw ConfigError({.attempted = "checking the stages",
                       .found = found + " beside stages, which has no effect",
                       .expected = "only settings that take effect",
                       .hint = hint});
  };
  if (config.epochs != RunConfig().epochs)
    refuse(fmt::format("epochs: {}", config.epochs), "Set epochs or steps in each stage.");
  if (config.max_steps > 0)
    refuse(fmt::format("max_steps: {}", config.max_steps), "Set epochs or steps in each stage.");
  // A part of the schedule has an effect if a stage takes it over.
  const std::vector<OptionInfo> of_run = list_options(config.optimizer.schedule);
  const std::vector<OptionInfo> defaults = list_options(optim::ScheduleOptions());
  for (size_t i = 0; i < of_run.size(); ++i) {
    const auto takes_over = [&](const StageOptions& stage) {
      return list_options(stage.schedule)[i].value == of_run[i].value;
    };
    if (of_run[i].value != defaults[i].value && std::ranges::none_of(config.stages, takes_over))
      refuse(fmt::format("optimizer.schedule.{}: {}", of_run[i].key, of_run[i].value),
             "Every stage has a value of its own: remove it.");
  }
}

bool RunConfig::is_single_pass() const {
  if (stages.empty()) return epochs == 1;
  return stages.size() == 1 && stages.front().epochs == 1;
}

MicroBatchLimits limits_of(const RunConfig& config) {
  MicroBatchLimits limits;
  if (config.micro_batch > 0) limits.max_utterances = config.micro_batch;
  if (config.max_frames > 0) limits.max_frames = config.max_frames;
  limits.is_adaptive = config.adaptive_batching;
  return limits;
}

data::DatasetOptions dataset_options(const RunConfig& config, const data::Manifest& manifest) {
  data::DatasetOptions options = config.data.utterances;
  options.sample_rate = config.model.sample_rate();
  options.min_rows = config.model.min_rows(manifest.feature_dim());
  options.max_rows = config.model.max_rows(manifest.feature_dim());
  return options;
}

int64_t total_steps(const RunConfig& config, int64_t steps_per_epoch) {
  return config.max_steps > 0 ? config.max_steps : config.epochs * steps_per_epoch;
}

}  // namespace sotto::train
