#include "sotto/lab/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_json.h"
#include "sotto/core/error.h"
#include "sotto/core/files/run_record.h"
#include "sotto/core/files/text_file.h"
#include "sotto/device/opened_device.h"
#include "sotto/lab/measurements.h"
#include "sotto/lab/sizes.h"
#include "sotto/plan/run/planned_training.h"
#include "sotto/train/run/run_files.h"

namespace sotto::lab {

namespace {

namespace fs = std::filesystem;

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
  result.micro_batch = request.experiment.micro_batch;
  result.has_smallest_budget = request.experiment.has_smallest_budget;
  result.row_tokens = config.model.task().is_text() ? config.data.row_tokens : 0;
  return result;
}

// Adds the settings that the planner decided, as the run's own file lists them.
void add_decisions(const fs::path& file, Result& result) {
  const nlohmann::json facts = nlohmann::json::parse(read_text_file(file), nullptr, false);
  if (!facts.is_object()) return;
  for (const nlohmann::json& reason : facts.value("reasons", nlohmann::json::array()))
    result.decided.push_back(
        fmt::format("{}={}", reason.value("setting", ""), reason.value("value", "")));
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
  // A run that was killed before its first checkpoint starts from scratch.
  std::error_code ignored;
  plan::PlannedTraining training({.run = describe_run(request),
                                  .folder = folder,
                                  .resumes = fs::exists(folder, ignored),
                                  .pretended_device = request.pretended_device},
                                 std::move(training_events));
  if (training.run().was_stopped) throw Interrupted();
}

double quantile(std::vector<double> values, double share) {
  const auto at = values.begin() + std::lround(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

void add_evaluation(const nlohmann::json& record, Result& result) {
  result.dev_loss = record_number(record.at("loss"));
  if (const auto words = record.find("words"); words != record.end())
    result.dev_wer = record_number(words->at("rate"));
}

// Fills in what the run's record says of all its steps, including those of earlier processes. Steps
// whose items were all skipped have no loss and no memory of their own.
void collect(const fs::path& record_file, const ExperimentRequest& request, Result& result) {
  double loss = 0.0, amount = 0.0, timed_s = 0.0;
  std::vector<double> seconds;
  for (const nlohmann::json& record : read_run_record(record_file).records) {
    if (record.at("kind") == "evaluation") add_evaluation(record, result);
    if (record.at("kind") != "step" || record.at("utterances") == 0) continue;
    if (request.is_whole_batch && record.at("micro_batches") > 1)
      result.note = "memory ran out: steps were split into several micro-batches";
    const double step_s = record.at("seconds");
    ++result.num_steps;
    result.total_seconds += step_s;
    loss += record_number(record.at("loss"));
    if (request.profiles_memory)
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
  if (seconds.empty()) {
    result.seconds_per_step = result.total_seconds;
    return;
  }
  const auto num_timed = static_cast<double>(seconds.size());
  result.seconds_per_step = quantile(seconds, 0.5);
  // Half of the steps lie in this range; from it follows how well the median is known.
  const double range = quantile(seconds, 0.75) - quantile(seconds, 0.25);
  result.seconds_error = 0.93 * range / std::sqrt(num_timed);
  // Steps of one batch are alike: the same time as in the table. Others differ in length.
  const double timed = request.is_whole_batch ? result.seconds_per_step * num_timed : timed_s;
  if (timed > 0.0) result.speed = amount / timed;
}

void train_and_collect(const ExperimentRequest& request, const train::RunConfig& config,
                       const LabEvents& events, Result& result) {
  {
    const device::OpenedDevice opened(config.memory, config.device, request.pretended_device,
                                      config.deterministic);
    result.device = opened.device.name;
    result.budget_bytes = opened.budget_bytes;
    if (request.is_whole_batch) result.predicted = predict_whole(config, opened);
    if (request.finds_batch) {
      begin_phase(events, "finding the largest batch");
      result.largest = find_largest(config, opened, events);
    }
  }
  begin_phase(events, "training");
  const fs::path folder = run_folder(request);
  train_run(request, events, result);
  collect(folder / train::kMetricsFile, request, result);
  add_decisions(folder / plan::kFactsFile, result);
}

// Settings that an experiment itself decides would be overridden.
struct OwnSettings {
  std::vector<std::string> keys;
  std::string why;
  std::string hint;
};

void refuse_settings(const plan::RunDescription& run, const OwnSettings& own) {
  for (const std::string& setting : run.settings) {
    const std::string key = setting.substr(0, setting.find('='));
    if (std::ranges::find(own.keys, key) == own.keys.end()) continue;
    throw ConfigError({.attempted = "setting up an experiment",
                       .found = setting,
                       .expected = fmt::format("no such setting: {}", own.why),
                       .hint = own.hint});
  }
}

// Adds what makes every micro-batch of a step have this many items.
void fix_micro_batch(int64_t count, plan::RunDescription& run) {
  refuse_settings(run, {.keys = {"micro_batch", "max_frames", "adaptive_batching"},
                        .why = fmt::format("each micro-batch has {} items", count),
                        .hint = "Change --micro-batches."});
  run.settings.push_back(fmt::format("micro_batch={}", count));
  run.settings.push_back("adaptive_batching=false");
}

}  // namespace

fs::path run_folder(const ExperimentRequest& request) {
  return request.folder / "runs" / request.experiment.name;
}

void check_stop(const LabEvents& events) {
  if (events.should_stop && events.should_stop()) throw Interrupted();
}

void begin_phase(const LabEvents& events, const std::string& what) {
  check_stop(events);
  if (events.doing) events.doing(what);
}

void remove_checkpoints(const ExperimentRequest& request) {
  if (request.keeps_checkpoints) return;
  // Without a checkpoint, a best one would count as that of an earlier run.
  std::error_code ignored;
  for (const char* name : {train::kBestFolder, train::kCheckpointsFolder})
    fs::remove_all(run_folder(request) / name, ignored);
}

plan::RunDescription describe_run(const ExperimentRequest& request) {
  plan::RunDescription run = request.run;
  if (!request.experiment.model.empty()) run.model = request.experiment.model;
  if (!request.experiment.memory.empty()) run.memory = request.experiment.memory;
  run.settings.insert(run.settings.end(), request.experiment.settings.begin(),
                      request.experiment.settings.end());
  if (request.kind == Suite::Kind::kSizes && request.experiment.memory.empty())
    refuse_settings(run, {.keys = {"memory"},
                          .why = "the experiment finds the memory that it needs",
                          .hint = "Name budgets with --budgets."});
  if (request.experiment.micro_batch > 0) fix_micro_batch(request.experiment.micro_batch, run);
  if (!request.is_whole_batch) return run;
  refuse_settings(run, {.keys = {"micro_batch", "max_frames", "adaptive_batching"},
                        .why = "each step is one micro-batch",
                        .hint = "Change --batch-size, or effective_batch."});
  // Whatever is not given has a fixed value: an experiment is not planned.
  const std::vector<std::string> fixed = {"numerics=fp32",          "tier=none",
                                          "optimizer.state=device", "data.loader_threads=1",
                                          "data.cache=none",        "checkpoint_seconds=10min"};
  run.settings.insert(run.settings.begin(), fixed.begin(), fixed.end());
  const train::RunConfig config = plan::read_config(run, plan::name_config(run)).config;
  if (config.model.has_loss_rows()) run.settings.insert(run.settings.begin(), "model.loss_rows=0");
  if (config.effective_batch.kind != data::EffectiveBatch::Kind::kUtterances)
    throw ConfigError(
        {.attempted = fmt::format("setting up {}", request.experiment.name),
         .found = fmt::format("effective_batch {}", config.effective_batch.to_string()),
         .expected = "a number of items, since each step is one micro-batch"});
  for (const std::string& setting :
       {fmt::format("micro_batch={}", config.effective_batch.utterances),
        std::string("adaptive_batching=false"), std::string("max_frames=0")})
    run.settings.push_back(setting);
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
  add("pretend_device", request.pretended_device);
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
