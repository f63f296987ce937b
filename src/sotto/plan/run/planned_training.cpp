#include "sotto/plan/run/planned_training.h"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/plan/explanation.h"
#include "sotto/plan/run/decided_run.h"
#include "sotto/train/checkpoint/run_name.h"
#include "sotto/train/run/run_files.h"

namespace sotto::plan {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPlanFile = "plan.yaml";

// Returns the folder of a run without a name: the latest run of its model if resumed; else a new
// folder.
fs::path numbered_folder(const std::string& model, bool resumes, const train::Note& noted) {
  const fs::path runs = train::kRunsFolder;
  if (resumes) {
    if (const std::optional<fs::path> newest = train::newest_run(runs, model)) {
      train::notify(noted,
                    fmt::format("resuming {}, the latest run of {}", newest->string(), model));
      return *newest;
    }
  }
  const fs::path folder = train::next_run_folder(runs, model);
  train::notify(noted, fmt::format("writing this run to {}", folder.string()));
  return folder;
}

fs::path folder_of(const TrainingRequest& request, const NamedConfig& named,
                   const train::Note& noted) {
  if (!request.folder.empty()) return request.folder;
  if (!named.request.folder.empty()) return named.request.folder;
  const ReadConfig read = read_config(request.run, named);
  if (!read.config.name.empty()) return fs::path(train::kRunsFolder) / read.config.name;
  return numbered_folder(read.model_name, request.resumes || named.request.resumes, noted);
}

// Copies the decisions of an earlier facts.json, if it can be read.
void keep_decisions(const fs::path& path, nlohmann::ordered_json& facts) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  std::ifstream file(path);
  const auto before = nlohmann::ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  for (const char* key : {"reasons", "step_time"})
    if (before.is_object() && before.contains(key)) facts[key] = before[key];
}

}  // namespace

// Locks the folder before reading anything in it.
PlannedTraining::PlannedTraining(const TrainingRequest& request, TrainingEvents events)
    : events_(std::move(events)), failing_step_(request.failing_step) {
  const NamedConfig named = name_config(request.run, events_.run.noted);
  lock_ = std::make_shared<const FolderLock>(folder_of(request, named, events_.run.noted));
  checkpoint_ = train::choose_checkpoint(
      *lock_, train::request_with(named.request, request.resumes), events_.run.warned);
  const ReadConfig read = read_config(request.run, named, checkpoint_);
  check_has_data(read.config);
  if (!checkpoint_ && !request.run.config.empty())
    check_is_another(folder() / train::kConfigFile, request.run.config);
  open_ = read.open;
  opened_ = std::make_unique<device::OpenedDevice>(
      read.config.memory, read.config.device, request.pretended_device, read.config.deterministic);
  if (device::are_programs(opened_->device.holders)) train::notify(events_.shared, opened_->device);
  make_trainer(read, events_.run);
}

train::RunConfig PlannedTraining::decide(const train::RunConfig& config, train::RunData& data) {
  DecidedRun decided = decide_open(config, open_, *opened_, data);
  plan_yaml_ = std::move(decided.plan_yaml);
  facts_ = {.reasons = decided.reasons, .time = std::move(decided.time)};
  train::notify(events_.decided, decided.reasons);
  return std::move(decided.config);
}

// A resumed run keeps its reasons unless something was decided anew; its length and its budget may
// be others.
void PlannedTraining::write_plan_files(const train::RunPlan& plan) {
  const std::string text = std::exchange(plan_yaml_, {});
  if (!text.empty()) write_text_synced(folder() / kPlanFile, text);
  const fs::path facts = folder() / kFactsFile;
  nlohmann::ordered_json json = facts_json(plan, trainer_->config(), opened_->device, facts_);
  if (text.empty() && checkpoint_) keep_decisions(facts, json);
  write_text_synced(facts,
                    json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  train::notify(events_.known, json);
}

void PlannedTraining::make_trainer(const ReadConfig& read, train::RunEvents events) {
  // The run's folder exists when the plan is reported.
  events.planned = [this, show = events.planned](const train::RunPlan& plan) {
    write_plan_files(plan);
    train::notify(show, plan);
  };
  train::RunRequest request{.config = read.config,
                            .folder = folder(),
                            .budget_bytes = opened_->budget_bytes,
                            .device = opened_->device,
                            .lock = lock_,
                            .resume_from = checkpoint_,
                            .inits_whole_model = read.inits_whole_model,
                            .failing_step = failing_step_};
  if (open_.any())
    request.decide = [this](const train::RunConfig& config, train::RunData& data) {
      return decide(config, data);
    };
  if (const std::optional<Reason> split = split_reason(read.config.model); split && !open_.any())
    train::notify(events_.decided, std::vector<Reason>{*split});
  try {
    trainer_ = std::make_unique<train::Trainer>(std::move(request), std::move(events));
  } catch (const Infeasible&) {
    // A planner that finds nothing gives its own advice.
    if (!open_.any()) advise(read.config, checkpoint_.has_value());
    throw;
  }
}

train::RunSummary PlannedTraining::run() {
  try {
    return trainer_->run();
  } catch (const OutOfMemory&) {
    advise(trainer_->config(), trainer_->plan().first_step > 1);
    throw;
  }
}

// Errors here do not replace the reason why the run ended.
void PlannedTraining::advise(const train::RunConfig& config, bool is_resumed) const {
  if (!events_.advised) return;
  try {
    events_.advised(ladder_text(config, *opened_, is_resumed));
  } catch (const std::exception& error) {
    train::notify(events_.run.warned,
                  fmt::format("could not find out what would help: {}", error.what()));
  }
}

}  // namespace sotto::plan
