// Runs the experiments of a suite one after the other, and writes their results and the comparison
// into a folder. Called again on the same folder, it continues where it stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "sotto/lab/comparison.h"
#include "sotto/lab/experiment.h"
#include "sotto/lab/suite.h"

namespace sotto::lab {

struct LabRequest {
  Suite suite;
  // Data, device, budget and settings of the command line, which override those of the suite.
  plan::RunDescription run;
  // The results' folder.
  std::filesystem::path folder;
  // Prefix of the files; empty: the name of the training data's folder.
  std::string dataset = {};
  // Overrides the suite's number of seeds; 0: as in the suite.
  int64_t num_seeds = 0;
  // For suites of limits: the file of a standard run; empty: estimated.
  std::filesystem::path standard = {};
  bool finds_batch = true;
  bool profiles_memory = true;
  bool keeps_checkpoints = false;
  // A card whose memory and capabilities are simulated on the GPU; empty: none.
  std::string pretended_device = {};
};

struct SuiteEvents {
  LabEvents experiment = {};
  // Called before an experiment and after it; `index` from 0.
  std::function<void(const Experiment&, int64_t index, int64_t total)> began = {};
  std::function<void(const Result&, bool is_from_before)> ended = {};
};

// Returns the comparison of what the folder has of this suite and data, also from earlier calls;
// none where it was interrupted before the end. Throws ConfigError and DataError before the first
// experiment for what would fail in each.
std::optional<Comparison> run_suite(const LabRequest& request, const SuiteEvents& events);

// Returns the prefix of files for a corpus: the name of its folder, or of the file.
std::string dataset_name(const std::filesystem::path& train);

}  // namespace sotto::lab
