#include "sotto/lab/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_json.h"
#include "sotto/core/error.h"
#include "sotto/core/files/run_record.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/units.h"
#include "sotto/device/opened_device.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/lab/run_items.h"
#include "sotto/models/model_profile.h"
#include "sotto/plan/explanation.h"
#include "sotto/plan/run/made_plan.h"
#include "sotto/plan/run/planned_rehearsal.h"
#include "sotto/plan/run/planned_training.h"
#include "sotto/train/run/rehearsal.h"
#include "sotto/train/run/run_files.h"
#include "sotto/train/step/library_constant.h"

namespace sotto::lab {

namespace {

namespace fs = std::filesystem;

void tell(const LabEvents& events, const std::string& what) {
  if (events.doing) events.doing(what);
}

fs::path run_folder(const ExperimentRequest& request) {
  return request.folder / "runs" / request.experiment.name;
}

std::optional<int64_t> window_of(const train::RunConfig& config) {
  for (const OptionInfo& option : list_options(config)) {
    if (option.key != "model.attention_left") continue;
    const int64_t left = std::stoll(option.value);
    return left < 0 ? std::nullopt : std::optional(left + 1);
  }
  return std::nullopt;
}

// Returns a note about a setting that changes nothing; empty if there is none.
std::string effect_note(const train::RunConfig& config) {
  const std::optional<int64_t> window = window_of(config);
  if (!config.model.task().is_text() || !window || *window < config.data.row_tokens) return {};
  return fmt::format("no effect: the window of {} tokens covers the whole sequence of {}", *window,
                     config.data.row_tokens);
}

Result begin_result(const ExperimentRequest& request, const train::RunConfig& config) {
  Result result;
  result.suite = request.suite;
  result.kind = request.kind;
  result.dataset = request.dataset;
  result.name = request.experiment.name;
  result.title = request.experiment.title;
  result.note = effect_note(config);
  result.settings = recorded_settings(request);
  result.model = nlohmann::ordered_json::parse(format_json(write_options(config.model)));
  result.seed = config.seed;
  result.batch = config.effective_batch.utterances;
  result.row_tokens = config.model.task().is_text() ? config.data.row_tokens : 0;
  return result;
}

StepMemory memory_of(const device::MemoryReport& report) {
  return {.after_forward = report.after_forward,
          .after_backward = report.after_backward,
          .peak = report.peak};
}

// What decides the memory of an item: its rows, its labels, and how many of these are targets.
using ItemSize = std::array<int64_t, 3>;

ItemSize item_size(const data::Example& example) {
  return {example.rows, std::ssize(example.labels),
          std::ranges::count(example.labels, kernels::CrossEntropy::kNoTarget)};
}

// Predicts the steps of the first epoch, each as one micro-batch, whether they fit or not. Steps of
// the same sizes are run once.
StepMemory predict_whole(const train::RunConfig& config, const device::OpenedDevice& opened) {
  const std::unique_ptr<train::RunData> data = train::open_run_data(config, std::nullopt, {});
  train::DryRun dry(config, data->shape(), train::DryRun::Purpose::kTraining, opened.device.target);
  const std::shared_ptr<data::Source> source = all_items(*data);
  const plan::PlannedEpoch epoch(config, *source);
  const int64_t num_steps = config.max_steps > 0
                                ? std::min(config.max_steps, epoch.order.num_steps())
                                : epoch.order.num_steps();
  std::vector<StepMemory> steps;
  std::set<std::vector<ItemSize>> known;
  for (int64_t step = 0; step < num_steps; ++step) {
    std::vector<data::Example> examples;
    std::vector<ItemSize> sizes;
    for (const uint32_t item : epoch.order.utterances(step)) {
      examples.push_back(source->dry_at(item));
      sizes.push_back(item_size(examples.back()));
    }
    if (!known.insert(std::move(sizes)).second) continue;
    steps.push_back(memory_of(
        dry.run_step(examples, {.reduction = config.reduction, .tier = config.tier})));
  }
  return largest_of(steps);
}

LargestBatch find_largest(train::RunConfig config, const device::OpenedDevice& opened) {
  // The trials themselves ignore this limit; setting up needs room for one item only.
  config.micro_batch = 1;
  train::Rehearsal rehearsal(std::move(config), opened.device, opened.budget_bytes);
  const train::Rehearsal::LargestBatch found = rehearsal.find_largest({});
  LargestBatch largest{.tried = found.tried, .predicted = found.predicted};
  for (const train::Rehearsal::Trial& trial : found.trials)
    if (trial.fits && trial.count == found.tried) largest.peak_bytes = trial.peak;
  if (found.tried > 0) largest.seconds = rehearsal.time_copies(found.tried);
  return largest;
}

// Adds the settings that the planner decided, as the run's own file lists them.
void add_decisions(const fs::path& file, Result& result) {
  const nlohmann::json facts = nlohmann::json::parse(read_text_file(file), nullptr, false);
  if (!facts.is_object()) return;
  for (const nlohmann::json& reason : facts.value("reasons", nlohmann::json::array()))
    result.decided.push_back(
        fmt::format("{}={}", reason.value("setting", ""), reason.value("value", "")));
}

// Plans the run and, on a device of this machine, runs the largest steps that its data has.
void measure_size(const ExperimentRequest& request, const LabEvents& events, Result& result) {
  // Steps that would take longer than this are not worth the wait: their memory is known.
  constexpr double kMaxStep_s = 60.0;
  constexpr int64_t kSteps = 3;
  const plan::RunDescription run = describe_run(request);
  tell(events, "planning");
  const plan::MadePlan made = plan::make_plan(run);
  const plan::Candidate& best = made.plan.best;
  result.device = made.facts.device_name;
  result.budget_bytes = made.facts.budget_bytes;
  result.num_parameters = models::profile_model(best.config.model, made.request.shape).parameters;
  result.predicted = memory_of(best.fit.worst);
  result.predicted_speed = best.speed();
  for (const plan::Reason& reason : plan::reasons_of(made.plan, made.request))
    if (reason.is_setting) result.decided.push_back(fmt::format("{}={}", reason.key, reason.value));
  if (made.facts.is_elsewhere) {
    result.note = "not measured: the device is not in this machine";
  } else if (!made.data) {
    result.note = "not measured: no data was given; name a manifest with --train";
  } else if (best.time.total_s() > kMaxStep_s) {
    result.note =
        fmt::format("not measured: a step takes {}", format_duration(best.time.total_s()));
  }
  if (!result.note.empty()) return;
  tell(events, "running the largest steps");
  const auto rehearsal = plan::make_rehearsal(run, {}, {}, [](const auto&) {});
  double audio_s = 0.0, elapsed_s = 0.0;
  result.predicted = {};
  for (const train::Rehearsal::Step& step : rehearsal->run_worst(kSteps, {})) {
    result.memory.push_back(memory_of(step.measured));
    if (step.planned.peak > result.predicted.peak) result.predicted = memory_of(step.planned);
    audio_s += step.audio_seconds;
    elapsed_s += step.seconds;
  }
  result.num_steps = std::ssize(result.memory);
  result.total_seconds = elapsed_s;
  if (elapsed_s > 0.0) {
    result.seconds_per_step = elapsed_s / static_cast<double>(result.num_steps);
    result.speed = audio_s / elapsed_s;
  }
}

// Trains to the end, from the latest checkpoint if there is one.
void train_run(const ExperimentRequest& request, const LabEvents& events, Result& result) {
  const fs::path folder = run_folder(request);
  plan::TrainingEvents training_events{
      .run = events.run, .shared = {}, .decided = {}, .advised = {}};
  training_events.run.planned = [&](const train::RunPlan& plan) {
    result.num_parameters = plan.num_parameters;
    if (!request.is_whole_batch) result.predicted = memory_of(plan.fit.worst);
    train::notify(events.run.planned, plan);
  };
  training_events.run.should_stop = events.should_stop;
  std::error_code ignored;
  plan::PlannedTraining training(
      {.run = describe_run(request),
       .folder = folder,
       .resumes = fs::exists(folder / train::kCheckpointsFolder, ignored)},
      std::move(training_events));
  if (training.run().was_stopped) throw Interrupted();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

void add_evaluation(const nlohmann::json& record, Result& result) {
  result.dev_loss = record_number(record.at("loss"));
  if (const auto words = record.find("words"); words != record.end())
    result.dev_wer = record_number(words->at("rate"));
}

// Fills in what the run's record says of all its steps, including those of earlier processes.
void collect(const fs::path& record_file, bool profiles_memory, Result& result) {
  double loss = 0.0, amount = 0.0, timed_s = 0.0;
  std::vector<double> seconds;
  for (const nlohmann::json& record : read_run_record(record_file).records) {
    if (record.at("kind") == "evaluation") add_evaluation(record, result);
    if (record.at("kind") != "step") continue;
    const double step_s = record.at("seconds");
    ++result.num_steps;
    result.total_seconds += step_s;
    loss += record_number(record.at("loss"));
    if (profiles_memory)
      result.memory.push_back({.after_forward = record.at("after_forward_bytes"),
                               .after_backward = record.at("after_backward_bytes"),
                               .peak = record.at("peak_bytes")});
    // The first step includes what happens once: libraries choose and load kernels.
    if (result.num_steps == 1) continue;
    seconds.push_back(step_s);
    timed_s += step_s;
    amount += result.is_text() ? record.at("frames").get<double>()
                               : record.at("audio_seconds").get<double>();
  }
  if (result.num_steps > 0) result.train_loss = loss / static_cast<double>(result.num_steps);
  result.seconds_per_step = seconds.empty() ? result.total_seconds : median(std::move(seconds));
  if (timed_s > 0.0) result.speed = amount / timed_s;
}

// The weights of an experiment are of no use later.
void remove_checkpoints(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {train::kCheckpointsFolder, train::kBestFolder})
    fs::remove_all(folder / name, ignored);
}

void train_and_collect(const ExperimentRequest& request, const train::RunConfig& config,
                       const LabEvents& events, Result& result) {
  {
    const device::OpenedDevice opened(config.memory, config.device, {}, config.deterministic);
    result.device = opened.device.name;
    result.budget_bytes = opened.budget_bytes;
    if (request.is_whole_batch) result.predicted = predict_whole(config, opened);
    if (request.finds_batch) {
      tell(events, "finding the largest batch");
      result.largest = find_largest(config, opened);
    }
  }
  tell(events, "training");
  const fs::path folder = run_folder(request);
  train_run(request, events, result);
  collect(folder / train::kMetricsFile, request.profiles_memory, result);
  add_decisions(folder / plan::kFactsFile, result);
  if (!request.keeps_checkpoints) remove_checkpoints(folder);
}

}  // namespace

plan::RunDescription describe_run(const ExperimentRequest& request) {
  plan::RunDescription run = request.run;
  if (!request.experiment.model.empty()) run.model = request.experiment.model;
  if (!request.experiment.memory.empty()) run.memory = request.experiment.memory;
  run.settings.insert(run.settings.end(), request.experiment.settings.begin(),
                      request.experiment.settings.end());
  if (!request.is_whole_batch) return run;
  const train::RunConfig config = plan::read_config(run, plan::name_config(run)).config;
  if (config.effective_batch.kind != data::EffectiveBatch::Kind::kUtterances)
    throw ConfigError(
        {.attempted = fmt::format("setting up {}", request.experiment.name),
         .found = fmt::format("effective_batch {}", config.effective_batch.to_string()),
         .expected = "a number of items, since each step is one micro-batch"});
  run.settings.push_back(fmt::format("micro_batch={}", config.effective_batch.utterances));
  // Everything is given: an experiment is not planned.
  for (const char* setting : {"adaptive_batching=false", "max_frames=0", "data.loader_threads=1",
                              "data.cache=none", "checkpoint_seconds=10min"})
    run.settings.emplace_back(setting);
  return run;
}

std::vector<std::string> recorded_settings(const ExperimentRequest& request) {
  const plan::RunDescription run = describe_run(request);
  std::vector<std::string> settings = run.settings;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) settings.push_back(fmt::format("{}={}", key, value));
  };
  add("model.preset", run.model);
  add("data.train", run.train);
  add("data.dev", run.dev);
  add("memory", run.memory);
  add("device", run.device);
  if (run.max_steps > 0) add("max_steps", std::to_string(run.max_steps));
  return settings;
}

train::RunConfig config_of(const ExperimentRequest& request) {
  const plan::RunDescription run = describe_run(request);
  train::RunConfig config = plan::read_config(run, plan::name_config(run)).config;
  if (request.kind != Suite::Kind::kSizes) plan::check_has_data(config);
  return config;
}

Result run_experiment(const ExperimentRequest& request, const LabEvents& events) {
  const train::RunConfig config = config_of(request);
  Result result = begin_result(request, config);
  try {
    if (request.kind == Suite::Kind::kSizes) {
      measure_size(request, events, result);
    } else {
      train_and_collect(request, config, events, result);
    }
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    const bool is_memory = dynamic_cast<const Infeasible*>(&error) != nullptr ||
                           dynamic_cast<const OutOfMemory*>(&error) != nullptr;
    result.status = is_memory ? Result::Status::kDoesNotFit : Result::Status::kFailed;
    result.note = error.what();
  }
  return result;
}

}  // namespace sotto::lab
