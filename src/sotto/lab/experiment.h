// Runs one experiment. Training: predicts its memory, tries the largest batch, trains, and collects
// the result from the run's own files; the run is an ordinary one, in a folder of its own, and
// resumes where it was interrupted. Sizes: plans, and rehearses the largest steps (sizes.h).
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "sotto/lab/result.h"
#include "sotto/lab/suite.h"
#include "sotto/plan/run/run_description.h"
#include "sotto/train/run/trainer.h"

namespace sotto::lab {

struct ExperimentRequest {
  // Data, device, budget and settings of every run, from the suite and the command line.
  plan::RunDescription run;
  std::string suite;
  Suite::Kind kind = Suite::Kind::kTraining;
  std::string dataset;
  Experiment experiment;
  // Results; the run's files are in runs/NAME below it.
  std::filesystem::path folder;
  // The whole batch is one micro-batch; otherwise the run is split as its budget requires.
  bool is_whole_batch = true;
  bool finds_batch = true;
  bool profiles_memory = true;
  // Checkpoints are otherwise removed once the result is known.
  bool keeps_checkpoints = false;
  // A card whose memory and capabilities are simulated on the GPU; empty: none.
  std::string pretended_device = {};
};

// Returns the run of an experiment with all of its settings.
plan::RunDescription describe_run(const ExperimentRequest& request);

// Returns all of its settings as a result records them, including those with an option of their
// own.
std::vector<std::string> recorded_settings(const ExperimentRequest& request);

// Returns its configuration, with open settings undecided. Throws ConfigError.
train::RunConfig config_of(const ExperimentRequest& request);

struct LabEvents {
  train::RunEvents run = {};
  // Called with a line about what is done now: "finding the largest batch".
  std::function<void(const std::string&)> doing = {};
  // True ends the suite, saved, after the current training step or trial.
  std::function<bool()> should_stop = {};
};

// Thrown where should_stop ended a run: the experiment is continued by the next call.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

// Throws Interrupted if the suite is asked to stop. The second also says what is done next.
void check_stop(const LabEvents& events);
void begin_phase(const LabEvents& events, const std::string& what);

// The run's own folder.
std::filesystem::path run_folder(const ExperimentRequest& request);

// Removes the weights of a completed experiment, which are of no use later, unless they are kept.
void remove_checkpoints(const ExperimentRequest& request);

// Never throws for a reason that concerns this experiment alone: the result then states it. Throws
// Interrupted, and ConfigError for settings that are wrong in every experiment.
Result run_experiment(const ExperimentRequest& request, const LabEvents& events);

}  // namespace sotto::lab
