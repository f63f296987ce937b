// A suite: a matrix of settings whose runs are compared. Written as YAML, so that users can add
// their own; configs/lab contains the suites of the program.
//
//   format_version: 1
//   name: rates
//   kind: training
//   seeds: 2             # of the first experiment, so that the noise is known
//   settings:            # of every run, as in a run's configuration
//     model: {preset: tiny}
//   experiments:         # named sets of further settings; or all combinations of a matrix
//     - name: slow
//       settings: {optimizer: {schedule: {rate: 0.0001}}}
//   matrix:
//     numerics: [fp32, bf16-exact]
//     tier: [none, block]
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::lab {

// One run of a suite: the suite's settings, overridden by its own.
struct Experiment {
  std::string name;
  std::string title = {};
  // "key.sub=value"
  std::vector<std::string> settings = {};
  // Network and budget, as for --model and --memory; empty: those of the suite.
  std::string model = {};
  std::string memory = {};
  // Budget as a fraction of the standard run's memory, for kLimits; 0: none.
  double budget_share = 0.0;
  // For kSizes, instead of a budget: items per micro-batch (0: see `memory`), or the smallest
  // budget in which the network can be trained.
  int64_t micro_batch = 0;
  bool has_smallest_budget = false;
};

struct Suite {
  // Trained and compared; trained under budgets that are fractions of what a standard run takes;
  // planned and rehearsed for each of several networks, by budget and by micro-batch.
  enum class Kind { kTraining, kLimits, kSizes };

  std::string name;
  std::string summary = {};
  Kind kind = Kind::kTraining;
  std::vector<std::string> settings = {};
  std::vector<Experiment> experiments = {};
  // Each step is one micro-batch, or the experiment does not fit; false: a step is split as the
  // budget requires.
  bool is_whole_batch = false;
  // Seeds of the first experiment; for kLimits, of every experiment.
  int64_t num_seeds = 1;
  // Entries of the vocabulary that is trained where no tokenizer is given; 0: characters.
  int64_t vocabulary = 0;
  // For kSizes.
  std::vector<std::string> models = {};
  std::vector<std::string> budgets = {};
  std::vector<int64_t> micro_batches = {};
};

// Name of a kind: "training".
std::string_view name_of_kind(Suite::Kind kind);

// Parses a suite; `source` names it in errors. Throws ConfigError.
Suite parse_suite(const std::string& text, const std::string& source);

// Returns the suites of the program.
std::vector<Suite> built_in_suites();

// Returns a suite of the program by name, or reads the file at that path. Throws ConfigError with
// the nearest name where there is neither.
Suite find_suite(const std::string& name_or_path);

// Replaces the experiments of a suite of sizes: one for each network and budget, one for each
// network and micro-batch, and with micro-batches one for each network in its smallest budget.
// Throws ConfigError where two would have the same name.
void expand_sizes(Suite& suite);

// Throws ConfigError for a name that cannot be part of a file's name, or that names a repetition
// with another seed. `what`: what is named, for the message.
void check_file_name(const std::string& name, const std::string& what);

// Keeps the experiments named in `only` (empty: all) that are not in `skip`. Throws ConfigError for
// an unknown name, with the nearest one, and where nothing is left.
void select_experiments(Suite& suite, const std::vector<std::string>& only,
                        const std::vector<std::string>& skip);

}  // namespace sotto::lab
