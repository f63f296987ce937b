#include "sotto/sotto.h"

#include <algorithm>
#include <utility>

#include "sotto/core/build_info.h"
#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/files/folder_lock.h"
#include "sotto/device/budget.h"
#include "sotto/device/cpu_level.h"
#include "sotto/device/host_info.h"
#include "sotto/device/run_device.h"
#include "sotto/models/mask_checks.h"
#include "sotto/train/checkpoint/checkpoint.h"
#include "sotto/train/recognition/recogniser.h"
#include "sotto/train/run/resume.h"
#include "sotto/train/run/trainer.h"
#include "sotto/train/step/config_aliases.h"
#include "sotto/train/step/model_keys.h"

namespace sotto {

namespace {

namespace fs = std::filesystem;

ConfigNode load_tree(const Config& config) {
  return config.file.empty() ? load_overrides(config.settings)
                             : load_config(config.file, config.settings);
}

device::RunDevice open_device(const std::string& name, bool is_deterministic) {
  device::check_cpu_level(build_info().cpu_level, device::read_cpu_features());
  return device::open_device(name, /*pretended=*/{}, is_deterministic);
}

train::RunRequest request_of(const Config& config, const fs::path& folder,
                             const TrainingOptions& options) {
  ConfigNode tree = load_tree(config);
  const train::AliasedRequest resume =
      train::request_with(train::resolve_aliases(tree), options.resumes);
  auto lock = std::make_shared<const FolderLock>(folder);
  const std::optional<fs::path> checkpoint =
      train::choose_checkpoint(*lock, resume, options.warned);
  train::RunConfig run_config;
  if (checkpoint) {
    run_config = train::resumed_config(train::read_checkpoint(*checkpoint).config, tree);
  } else {
    train::check_model_keys(tree, /*named=*/{}, run_config.model.family);
    read_group(tree, as_group(run_config));
    models::check_masks(run_config.model, {});
    train::check_effects(run_config);
  }
  if (run_config.data.train.empty()) {
    throw ConfigError({.attempted = "starting a run",
                       .found = "nothing to train on was named",
                       .expected = "the setting data.train"});
  }
  device::RunDevice device = open_device(run_config.device, run_config.deterministic);
  const int64_t budget = device::resolve_budget(run_config.memory, device.memory, device.name);
  return {.config = std::move(run_config),
          .folder = folder,
          .budget_bytes = budget,
          .device = std::move(device),
          .lock = std::move(lock),
          .resume_from = checkpoint};
}

Plan plan_of(const train::RunPlan& plan) {
  const int64_t max_frames = plan.fit.limits.max_frames;
  return {.device = plan.device_name,
          .budget_bytes = plan.budget_bytes,
          .library_bytes = plan.constant_bytes,
          .needed_bytes = plan.constant_bytes + plan.fit.worst.high_water,
          .needed_in = plan.fit.worst.peak_moment.to_string(),
          .max_frames =
              max_frames == MicroBatchLimits::kUnlimited ? std::nullopt : std::optional(max_frames),
          .num_parameters = plan.num_parameters,
          .num_utterances = plan.num_utterances,
          .audio_seconds = plan.audio_seconds,
          .num_tokens = plan.num_tokens,
          .num_skipped = plan.num_skipped,
          .steps_an_epoch = plan.steps_an_epoch,
          .total_steps = plan.total_steps,
          .first_step = plan.first_step};
}

Scores scores_of(const train::Evaluation& evaluation) {
  Scores scores{.loss = evaluation.loss,
                .num_utterances = evaluation.num_utterances,
                .audio_seconds = evaluation.audio_seconds};
  if (evaluation.is_of_text()) {
    scores.perplexity = evaluation.perplexity();
  } else {
    scores.wer = evaluation.words.rate();
    scores.cer = evaluation.characters.rate();
  }
  return scores;
}

MemoryReport report_of(const train::MemoryComparison& comparison) {
  MemoryReport report{.parts = {},
                      .planned_peak_bytes = comparison.planned.peak,
                      .measured_peak_bytes = comparison.measured.peak,
                      .is_equal = comparison.is_equal};
  for (int i = 0; i < device::kNumCategories; ++i) {
    const auto place = static_cast<size_t>(i);
    report.parts.push_back({.name = std::string(name_of(static_cast<device::Category>(i))),
                            .planned_bytes = comparison.planned.at_peak[place],
                            .measured_bytes = comparison.measured.at_peak[place]});
  }
  return report;
}

}  // namespace

std::string to_yaml(const Config& config) {
  ConfigNode tree = load_tree(config);
  train::resolve_aliases(tree);
  return format_yaml(write_options(read_options<train::RunConfig>(tree)));
}

// Events of the run end up here, and therefore it does not move.
struct Training::State {
  State(const Config& config, const fs::path& folder, TrainingOptions given)
      : options(std::move(given)),
        trainer(request_of(config, folder, options), events()),
        plan(plan_of(trainer.plan())),
        step(plan.first_step - 1),
        is_finished(step >= plan.total_steps) {}

  train::RunEvents events() {
    train::RunEvents events;
    events.compared = [this](const train::MemoryComparison& both) { memory = report_of(both); };
    events.stepped = [this](const train::StepReport& report) { take_step(report); };
    events.warned = options.warned;
    events.noted = options.warned;
    events.should_stop = [this] {
      return (ends_with_epoch && is_epoch_over) || (options.should_stop && options.should_stop());
    };
    return events;
  }

  void take_step(const train::StepReport& report) {
    step = report.step;
    is_epoch_over = report.ends_epoch;
    largest_peak_bytes = std::max(largest_peak_bytes, report.peak_bytes);
    if (memory) memory->largest_peak_bytes = largest_peak_bytes;
    if (!options.stepped) return;
    options.stepped({.step = report.step,
                     .total_steps = report.total_steps,
                     .loss = report.result.loss,
                     .learning_rate = report.result.rate,
                     .peak_bytes = report.peak_bytes,
                     .seconds = report.seconds});
  }

  TrainingResult run(bool only_epoch) {
    ends_with_epoch = only_epoch;
    const train::RunSummary summary = trainer.run();
    is_finished = !summary.was_stopped || step >= plan.total_steps;
    TrainingResult result{.step = summary.steps,
                          .loss = summary.loss,
                          .audio_seconds = summary.audio_seconds,
                          .num_tokens = summary.num_tokens,
                          .seconds = summary.seconds,
                          .num_restarts = summary.num_restarts,
                          .scores = std::nullopt};
    if (summary.last_evaluation) result.scores = scores_of(*summary.last_evaluation);
    return result;
  }

  TrainingOptions options;
  std::optional<MemoryReport> memory;
  int64_t largest_peak_bytes = 0;
  bool ends_with_epoch = false;
  bool is_epoch_over = false;
  train::Trainer trainer;
  Plan plan;
  int64_t step;
  bool is_finished;
};

Training::Training(const Config& config, const fs::path& folder, const TrainingOptions& options)
    : state_(std::make_unique<State>(config, folder, options)) {}
Training::~Training() = default;
Training::Training(Training&& other) noexcept = default;

const Plan& Training::plan() const {
  return state_->plan;
}

bool Training::is_finished() const {
  return state_->is_finished;
}

TrainingResult Training::train_epoch() {
  return state_->run(/*only_epoch=*/true);
}

TrainingResult Training::train() {
  return state_->run(/*only_epoch=*/false);
}

const std::optional<MemoryReport>& Training::memory() const {
  return state_->memory;
}

struct Recogniser::State {
  State(const fs::path& folder, const RecogniserOptions& options)
      : device(open_device(options.device, /*is_deterministic=*/false)),
        recogniser(
            folder,
            device::resolve_budget(MemorySize::parse(options.memory), device.memory, device.name),
            device) {}

  device::RunDevice device;
  train::Recogniser recogniser;
};

Recogniser::Recogniser(const fs::path& folder, const RecogniserOptions& options)
    : state_(std::make_unique<State>(folder, options)) {}
Recogniser::~Recogniser() = default;
Recogniser::Recogniser(Recogniser&& other) noexcept = default;

Scores Recogniser::evaluate(const fs::path& data) {
  return scores_of(state_->recogniser.evaluate(data));
}

std::vector<std::string> Recogniser::transcribe(const std::vector<fs::path>& files) {
  std::vector<std::string> texts;
  for (const fs::path& file : files) texts.push_back(state_->recogniser.transcribe(file).text);
  return texts;
}

int64_t Recogniser::peak_bytes() const {
  return state_->recogniser.peak_bytes();
}

}  // namespace sotto
