// A run within its budget, from its description to its end: the implementation of `sotto train` and
// of the library's Training. Finds the checkpoint to resume from, decides open settings, and
// advises where memory does not suffice.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/files/folder_lock.h"
#include "sotto/device/opened_device.h"
#include "sotto/plan/host_choices.h"
#include "sotto/plan/run/run_description.h"
#include "sotto/plan/run/run_facts.h"
#include "sotto/train/run/trainer.h"

namespace sotto::plan {

struct TrainingRequest {
  RunDescription run;
  // Folder of its files; empty: runs/NAME, or a numbered folder of its model where it has no name.
  std::filesystem::path folder = {};
  // Resumes from the latest checkpoint.
  bool resumes = false;
  // A card whose memory and capabilities are simulated on the GPU.
  std::string pretended_device = {};
  // Memory runs out once in this step, to show the recovery; 0: in none.
  int64_t failing_step = 0;
};

struct TrainingEvents {
  train::RunEvents run = {};
  // Called before anything is planned, for a GPU whose memory other processes hold in part.
  std::function<void(const device::RunDevice&)> shared = {};
  // Called with the decisions and their reasons; not called where nothing was open and the split
  // of steps does not matter.
  std::function<void(const std::vector<Reason>&)> decided = {};
  // Called with the content of facts.json, after it was written.
  std::function<void(const nlohmann::ordered_json&)> known = {};
  // Called with advice on saving memory, in lines, before the error that ends a run for lack of
  // memory.
  std::function<void(const std::string&)> advised = {};
};

class PlannedTraining {
 public:
  // Reads configuration and data, plans, allocates. Throws ConfigError, DataError and Infeasible
  // before anything is trained.
  PlannedTraining(const TrainingRequest& request, TrainingEvents events);
  // Not copyable: the run's events refer to this object.
  PlannedTraining(const PlannedTraining&) = delete;
  PlannedTraining& operator=(const PlannedTraining&) = delete;

  const std::filesystem::path& folder() const { return lock_->folder(); }
  train::Trainer& trainer() { return *trainer_; }

  // Same as Trainer::run().
  train::RunSummary run();

 private:
  train::RunConfig decide(const train::RunConfig& config, train::RunData& data);
  void write_plan_files(const train::RunPlan& plan);
  void make_trainer(const ReadConfig& read, train::RunEvents events);
  void advise(const train::RunConfig& config, bool is_resumed) const;

  TrainingEvents events_;
  std::shared_ptr<const FolderLock> lock_;
  std::optional<std::filesystem::path> checkpoint_;
  OpenChoices open_;
  std::unique_ptr<device::OpenedDevice> opened_;
  std::string plan_yaml_;
  DecisionFacts facts_;
  const int64_t failing_step_;
  std::unique_ptr<train::Trainer> trainer_;
};

}  // namespace sotto::plan
