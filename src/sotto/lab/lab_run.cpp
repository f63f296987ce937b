#include "sotto/lab/lab_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/files/folder_lock.h"
#include "sotto/core/files/text_file.h"
#include "sotto/data/text/sentence_piece.h"
#include "sotto/data/text/text_sample.h"
#include "sotto/lab/comparison_files.h"
#include "sotto/lab/run_items.h"
#include "sotto/lab/standard.h"

namespace sotto::lab {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSuiteFile = "suite.json";
constexpr int64_t kSuiteFormatVersion = 1;

// Settings of the suite come first, so that those of the command line override them. A network that
// is named replaces the suite's.
plan::RunDescription with_suite(const LabRequest& request) {
  plan::RunDescription run = request.run;
  std::vector<std::string> settings = request.suite.settings;
  if (!run.model.empty())
    std::erase_if(settings, [](const std::string& s) { return s.starts_with("model.preset="); });
  run.settings.insert(run.settings.begin(), settings.begin(), settings.end());
  return run;
}

// Throws ConfigError for options that this kind of suite does not use.
void check_options(const LabRequest& request) {
  const Suite& suite = request.suite;
  const auto refuse_option = [&](const std::string& option, const std::string& hint) {
    throw ConfigError({.attempted = fmt::format("running the suite {}", suite.name),
                       .found = option,
                       .expected = fmt::format("options of a suite of kind {}",
                                               name_of_kind(suite.kind)),
                       .hint = hint});
  };
  const bool is_of_sizes = suite.kind == Suite::Kind::kSizes;
  if (is_of_sizes && !request.run.memory.empty())
    refuse_option("--memory " + request.run.memory, "Name budgets with --budgets.");
  if (is_of_sizes && !request.run.model.empty())
    refuse_option("--model " + request.run.model, "Name networks with --models.");
  if (suite.kind == Suite::Kind::kLimits && !request.run.memory.empty())
    refuse_option("--memory " + request.run.memory,
                  "Budgets are fractions of the memory of the standard run (--standard FILE).");
  if (suite.kind != Suite::Kind::kLimits && !request.standard.empty())
    refuse_option("--standard " + request.standard.string(), "It belongs to sotto lab run limits.");
}

int64_t num_seeds_of(const LabRequest& request) {
  return request.num_seeds > 0 ? request.num_seeds : request.suite.num_seeds;
}

// Repeats the first experiment with further seeds; under limits, where the error rate is compared,
// every experiment.
std::vector<Experiment> all_experiments(const LabRequest& request) {
  std::vector<Experiment> all;
  for (const Experiment& experiment : request.suite.experiments) {
    const bool is_repeated = all.empty() || request.suite.kind == Suite::Kind::kLimits;
    all.push_back(experiment);
    for (int64_t seed = 2; is_repeated && seed <= num_seeds_of(request); ++seed) {
      Experiment& repeated = all.emplace_back(experiment);
      repeated.name = repetition_name(experiment.name, seed);
      repeated.title = fmt::format("{}, seed {}", experiment.title, seed);
      repeated.settings.push_back(fmt::format("seed={}", seed));
    }
  }
  return all;
}

// Trains a vocabulary on the training text, once per folder, and returns its file.
fs::path make_tokenizer(const LabRequest& request, const train::RunConfig& config,
                        const SuiteEvents& events) {
  const fs::path file = request.folder / "tokenizer.model";
  std::error_code ignored;
  if (fs::exists(file, ignored)) return file;
  train::notify(events.experiment.doing,
                fmt::format("training a vocabulary of {} entries", request.suite.vocabulary));
  const data::TextSample sample = data::sample_texts({config.data.train}, config.data.text, {});
  write_text_synced(file,
                    data::train_sentence_piece(sample.texts, {.size = request.suite.vocabulary}));
  return file;
}

ExperimentRequest request_for(const LabRequest& request, const plan::RunDescription& run,
                              const Experiment& experiment) {
  return {.run = run,
          .suite = request.suite.name,
          .kind = request.suite.kind,
          .dataset = request.dataset,
          .experiment = experiment,
          .folder = request.folder,
          .is_whole_batch = request.suite.is_whole_batch,
          // Once per experiment, not once per seed.
          .finds_batch = request.finds_batch && request.suite.is_whole_batch &&
                         std::ranges::find(request.suite.experiments, experiment.name,
                                           &Experiment::name) != request.suite.experiments.end(),
          .profiles_memory = request.profiles_memory,
          .keeps_checkpoints = request.keeps_checkpoints};
}

void check_corpus(const train::RunConfig& config) {
  const std::unique_ptr<train::RunData> data = train::open_run_data(config, std::nullopt, {});
  const std::shared_ptr<data::Source> source = all_items(*data);
  const int64_t batch = config.effective_batch.utterances;
  if (config.effective_batch.kind != data::EffectiveBatch::Kind::kUtterances ||
      source->num_items() >= batch)
    return;
  throw ConfigError({.attempted = "setting up the experiments",
                     .found = fmt::format("{} {} in {}", source->num_items(),
                                          config.model.task().items, config.data.train.string()),
                     .expected = fmt::format("at least one batch of {}", batch),
                     .hint = "Use more data, or a smaller --batch-size."});
}

// Records the settings of all experiments in the folder. Throws ConfigError where an earlier call
// ran one of them, completely or partly, with other settings.
void keep_settings(const LabRequest& request, const std::vector<ExperimentRequest>& experiments) {
  const fs::path file = request.folder / kSuiteFile;
  nlohmann::ordered_json json = {{"format_version", kSuiteFormatVersion},
                                 {"experiments", nlohmann::ordered_json::object()}};
  std::error_code ignored;
  if (fs::exists(file, ignored)) {
    const auto earlier = nlohmann::ordered_json::parse(read_text_file(file), nullptr, false);
    if (earlier.is_object() && earlier.value("format_version", int64_t{0}) == kSuiteFormatVersion &&
        earlier.contains("experiments"))
      json = earlier;
  }
  for (const ExperimentRequest& one : experiments) {
    const std::string& name = one.experiment.name;
    const std::vector<std::string> settings = recorded_settings(one);
    nlohmann::ordered_json& kept = json["experiments"][name];
    if (!kept.is_null() && kept != nlohmann::ordered_json(settings))
      throw ConfigError({.attempted = fmt::format("continuing in {}", request.folder.string()),
                         .found = fmt::format("an experiment {} with other settings", name),
                         .expected = "the settings of this call",
                         .hint = "Name another folder with --out, or remove this one."});
    kept = settings;
  }
  write_text_synced(file, json.dump(2) + "\n");
}

// Returns a complete result of an earlier call.
std::optional<Result> earlier_result(const ExperimentRequest& request) {
  Result named;
  named.dataset = request.dataset;
  named.name = request.experiment.name;
  const fs::path file = metrics_path(request.folder, named);
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  Result result = read_result(file);
  return result.is_done() ? std::optional(std::move(result)) : std::nullopt;
}

// Returns the standard run, and gives each experiment its share of that run's memory.
std::vector<Result> limit_experiments(LabRequest& request, const plan::RunDescription& run) {
  const train::RunConfig config =
      config_of(request_for(request, run, request.suite.experiments.front()));
  std::vector<Result> standard = request.standard.empty()
                                     ? std::vector{estimate_standard(config)}
                                     : read_standard(request.standard, config);
  for (Result& result : standard) {
    result.suite = request.suite.name;
    result.dataset = request.dataset;
  }
  const auto peak = static_cast<double>(standard.front().peak_bytes());
  for (Experiment& experiment : request.suite.experiments)
    experiment.memory = fmt::format("{}B", static_cast<int64_t>(experiment.budget_share * peak));
  return standard;
}

// Runs an experiment, or takes its result from an earlier call. Throws Interrupted.
Result run_or_read(const ExperimentRequest& request, const SuiteEvents& events) {
  std::optional<Result> earlier = earlier_result(request);
  const bool is_from_before = earlier.has_value();
  Result result = is_from_before ? std::move(*earlier) : run_experiment(request, events.experiment);
  if (!is_from_before) write_result(request.folder, result);
  train::notify(events.ended, result, is_from_before);
  return result;
}

}  // namespace

std::string dataset_name(const fs::path& train) {
  if (train.empty()) return "assumed";
  const fs::path folder = fs::absolute(train).lexically_normal().parent_path();
  const std::string name =
      folder.has_filename() ? folder.filename().string() : train.stem().string();
  std::string safe;
  for (const char letter : name)
    safe += std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' ? letter : '_';
  return safe.empty() ? "data" : safe;
}

std::optional<Comparison> run_suite(const LabRequest& asked, const SuiteEvents& events) {
  LabRequest request = asked;
  check_options(request);
  plan::RunDescription run = with_suite(request);
  const train::RunConfig first =
      config_of(request_for(request, run, request.suite.experiments.front()));
  if (request.dataset.empty()) request.dataset = dataset_name(first.data.train);
  const bool is_of_sizes = request.suite.kind == Suite::Kind::kSizes;
  const FolderLock lock(request.folder);
  std::vector<Result> results;
  if (request.suite.kind == Suite::Kind::kLimits) results = limit_experiments(request, run);
  if (first.model.task().is_text() && first.data.tokenizer.empty() && request.suite.vocabulary > 0)
    run.settings.push_back(
        fmt::format("data.tokenizer={}", make_tokenizer(request, first, events).string()));
  std::vector<ExperimentRequest> experiments;
  for (const Experiment& experiment : all_experiments(request))
    experiments.push_back(request_for(request, run, experiment));
  // Settings that are wrong fail before the first experiment runs.
  for (const ExperimentRequest& one : experiments) config_of(one);
  if (!is_of_sizes) check_corpus(config_of(experiments.front()));
  keep_settings(request, experiments);

  for (size_t i = 0; i < experiments.size(); ++i) {
    const ExperimentRequest& one = experiments[i];
    train::notify(events.began, one.experiment, static_cast<int64_t>(i), std::ssize(experiments));
    try {
      results.push_back(run_or_read(one, events));
    } catch (const Interrupted&) {
      return std::nullopt;
    }
    // Written each time: what is there can be read while the others run.
    write_comparison(request.folder, compare_results(results));
  }
  return compare_results(std::move(results));
}

}  // namespace sotto::lab
