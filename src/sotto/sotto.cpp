#include "sotto/sotto.h"

#include <algorithm>
#include <utility>

#include "sotto/core/build_info.h"
#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/device/cpu_level.h"
#include "sotto/device/opened_device.h"
#include "sotto/plan/run/planned_training.h"
#include "sotto/train/recognition/recogniser.h"

namespace sotto {

namespace {

namespace fs = std::filesystem;

void check_cpu() {
  device::check_cpu_level(build_info().cpu_level, device::read_cpu_features());
}

plan::RunDescription describe(const Config& config) {
  return {.config = config.file.string(), .settings = config.settings, .model = config.model};
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
          .steps_per_epoch = plan.steps_per_epoch,
          .total_steps = plan.total_steps,
          .first_step = plan.first_step};
}

Scores scores_of(const train::Evaluation& evaluation) {
  Scores scores{.loss = evaluation.loss,
                .num_utterances = evaluation.num_utterances,
                .audio_seconds = evaluation.audio_seconds};
  if (evaluation.task->is_text()) {
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
    const auto index = static_cast<size_t>(i);
    report.parts.push_back({.name = std::string(name_of(static_cast<device::Category>(i))),
                            .planned_bytes = comparison.planned.at_peak[index],
                            .measured_bytes = comparison.measured.at_peak[index]});
  }
  return report;
}

}  // namespace

std::string to_yaml(const Config& config) {
  const plan::RunDescription run = describe(config);
  return format_yaml(write_options(plan::read_config(run, plan::name_config(run)).config));
}

// The run's events refer to this object, so it must not move.
struct Training::State {
  State(const Config& config, const fs::path& folder, TrainingOptions given)
      : options(std::move(given)),
        training({.run = describe(config), .folder = folder, .resumes = options.resumes},
                 {.run = events(), .advised = options.warned}),
        plan(plan_of(training.trainer().plan())),
        step(plan.first_step - 1),
        is_finished(step >= plan.total_steps) {}

  train::RunEvents events() {
    check_cpu();
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
    const train::RunSummary summary = training.run();
    // A stage that ended early shortens the run.
    plan.total_steps = training.trainer().plan().total_steps;
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
  plan::PlannedTraining training;
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
      : opened(open(options)), recogniser(folder, opened.budget_bytes, opened.device) {}

  static device::OpenedDevice open(const RecogniserOptions& options) {
    check_cpu();
    return device::OpenedDevice(MemorySize::parse(options.memory), options.device);
  }

  device::OpenedDevice opened;
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
