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
#include "sotto/core/units.h"
#include "sotto/data/text/sentence_piece.h"
#include "sotto/data/text/text_sample.h"
#include "sotto/device/opened_device.h"
#include "sotto/lab/comparison_files.h"
#include "sotto/lab/run_items.h"
#include "sotto/lab/standard.h"

namespace sotto::lab {

namespace {

namespace fs = std::filesystem;

// Settings of the suite come first, so that those of the command line override them; one with an
// option of its own replaces the suite's.
plan::RunDescription with_suite(const LabRequest& request) {
  plan::RunDescription run = request.run;
  std::vector<std::string> settings = request.suite.settings;
  const auto drop = [&](bool is_given, const std::string& key) {
    if (is_given)
      std::erase_if(settings, [&](const std::string& s) { return s.starts_with(key + "="); });
  };
  drop(!run.model.empty(), "model.preset");
  drop(!run.train.empty(), "data.train");
  drop(!run.dev.empty(), "data.dev");
  drop(!run.memory.empty(), "memory");
  drop(!run.device.empty(), "device");
  drop(run.max_steps > 0, "max_steps");
  run.settings.insert(run.settings.begin(), settings.begin(), settings.end());
  return run;
}

// Throws ConfigError for options that this kind of suite does not use.
void check_options(const LabRequest& request) {
  const Suite& suite = request.suite;
  const auto refuse_if = [&](bool is_given, const std::string& option, const std::string& hint) {
    if (!is_given) return;
    throw ConfigError(
        {.attempted = fmt::format("running the suite {}", suite.name),
         .found = option,
         .expected = fmt::format("options of a suite of kind {}", name_of_kind(suite.kind)),
         .hint = hint});
  };
  const bool is_of_sizes = suite.kind == Suite::Kind::kSizes;
  const std::string without = "Leave it out: it would have no effect.";
  refuse_if(is_of_sizes && !request.run.memory.empty(), "--memory " + request.run.memory,
            "Name budgets with --budgets.");
  refuse_if(is_of_sizes && !request.run.model.empty(), "--model " + request.run.model,
            "Name networks with --models.");
  refuse_if(is_of_sizes && request.num_seeds > 0, "--seeds", without);
  refuse_if(is_of_sizes && !request.profiles_memory, "--no-memory-profiling", without);
  refuse_if(is_of_sizes && request.keeps_checkpoints, "--keep-checkpoints", without);
  refuse_if(!suite.is_whole_batch && !request.finds_batch, "--no-find-batch", without);
  refuse_if(suite.kind == Suite::Kind::kLimits && !request.run.memory.empty(),
            "--memory " + request.run.memory,
            "Budgets are fractions of the memory of the standard run (--standard FILE).");
  refuse_if(suite.kind != Suite::Kind::kLimits && !request.standard.empty(),
            "--standard " + request.standard.string(), "It belongs to sotto lab run limits.");
  if (!request.dataset.empty()) check_file_name(request.dataset, "the data (--dataset)");
  for (const Experiment& experiment : suite.experiments)
    check_file_name(experiment.name, "an experiment");
}

int64_t num_seeds_of(const LabRequest& request) {
  return request.num_seeds > 0 ? request.num_seeds : request.suite.num_seeds;
}

fs::path tokenizer_file(const LabRequest& request) {
  return request.folder /
         fmt::format("{}_tokenizer_{}.model", request.dataset, request.suite.vocabulary);
}

// Trains a vocabulary on the training text, once per folder.
void make_tokenizer(const LabRequest& request, const train::RunConfig& config,
                    const SuiteEvents& events) {
  const fs::path file = tokenizer_file(request);
  std::error_code ignored;
  if (fs::exists(file, ignored)) return;
  begin_phase(events.experiment,
              fmt::format("training a vocabulary of {} entries", request.suite.vocabulary));
  const data::TextSample sample = data::sample_texts({config.data.train}, config.data.text, {});
  write_text_synced(file,
                    data::train_sentence_piece(sample.texts, {.size = request.suite.vocabulary}));
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
          .keeps_checkpoints = request.keeps_checkpoints,
          .pretended_device = request.pretended_device};
}

// Repeats the first experiment with the seeds that follow its own; under limits, where the error
// rate is compared, every experiment.
std::vector<ExperimentRequest> all_experiments(const LabRequest& request,
                                               const plan::RunDescription& run) {
  std::vector<ExperimentRequest> all;
  for (const Experiment& experiment : request.suite.experiments) {
    const bool is_repeated = all.empty() || request.suite.kind == Suite::Kind::kLimits;
    all.push_back(request_for(request, run, experiment));
    const auto first_seed = static_cast<int64_t>(config_of(all.back()).seed);
    for (int64_t i = 1; is_repeated && i < num_seeds_of(request); ++i) {
      Experiment repeated = experiment;
      repeated.name = repetition_name(experiment.name, first_seed + i);
      repeated.title = fmt::format("{}, seed {}", experiment.title, first_seed + i);
      repeated.settings.push_back(fmt::format("seed={}", first_seed + i));
      all.push_back(request_for(request, run, repeated));
    }
  }
  return all;
}

// Opens the data, with the evaluation data. Throws ConfigError where there is less than a batch.
// Returns the fingerprint of the training data.
uint64_t check_corpus(const train::RunConfig& config) {
  const std::unique_ptr<train::RunData> data = train::open_run_data(config, std::nullopt, {});
  data->make_dev();
  const std::shared_ptr<data::Source> source = all_items(*data);
  const int64_t batch = config.effective_batch.utterances;
  if (config.effective_batch.kind == data::EffectiveBatch::Kind::kUtterances &&
      source->num_items() < batch)
    throw ConfigError({.attempted = "setting up the experiments",
                       .found = fmt::format("{} {} in {}", source->num_items(),
                                            config.model.task().items, config.data.train.string()),
                       .expected = fmt::format("at least one batch of {}", batch),
                       .hint = "Use more data, or a smaller --batch-size."});
  return data->fingerprint();
}

[[noreturn]] void refuse_folder(const LabRequest& request, const std::string& found,
                                const std::string& expected) {
  throw ConfigError({.attempted = fmt::format("continuing in {}", request.folder.string()),
                     .found = found,
                     .expected = expected,
                     .hint = "Name another folder with --out, or remove this one."});
}

// What earlier calls ran in this folder, from suite.json; empty in a new folder. Throws ConfigError
// for a folder with other files, whose names may be those of ours.
nlohmann::ordered_json read_suite_file(const LabRequest& request) {
  const fs::path file = request.folder / kSuiteFile;
  std::error_code error;
  if (!fs::exists(file, error)) {
    for (fs::directory_iterator entry(request.folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (!name.starts_with('.'))
        refuse_folder(request, fmt::format("other files, such as {}", name), "an empty folder");
    }
    return {{"format_version", kSuiteFormatVersion},
            {"experiments", nlohmann::ordered_json::object()}};
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(read_text_file(file), nullptr, false);
  if (!json.is_object() || !json.contains("format_version") || !json.contains("experiments") ||
      !json["experiments"].is_object())
    refuse_folder(request, fmt::format("a damaged {}", kSuiteFile), "one that sotto lab wrote");
  if (json["format_version"] != kSuiteFormatVersion)
    refuse_folder(request,
                  fmt::format("{} of format_version {}", kSuiteFile, json["format_version"].dump()),
                  fmt::format("{}", kSuiteFormatVersion));
  return json;
}

// Gives all experiments the same budget in bytes: what is free changes while they run. An earlier
// call decides it.
void fix_budget(const LabRequest& request, plan::RunDescription& run,
                nlohmann::ordered_json& record) {
  if (request.suite.kind != Suite::Kind::kTraining) return;
  const train::RunConfig config =
      config_of(request_for(request, run, request.suite.experiments.front()));
  if (config.memory.kind == MemorySize::Kind::kBytes) return;
  const std::string& pretended = request.pretended_device;
  const std::string asked =
      config.memory.to_string() + (pretended.empty() ? "" : " pretending " + pretended);
  int64_t bytes = 0;
  if (record.value("budget", "") == asked) bytes = record.value("budget_bytes", int64_t{0});
  if (bytes <= 0)
    bytes = device::OpenedDevice(config.memory, config.device, pretended, config.deterministic)
                .budget_bytes;
  record["budget"] = asked;
  record["budget_bytes"] = bytes;
  run.memory = fmt::format("{}B", bytes);
  std::erase_if(run.settings, [](const std::string& s) { return s.starts_with("memory="); });
}

// Throws ConfigError where the training data is not that of an earlier call, and for what
// check_corpus() finds.
void check_data(const LabRequest& request, const std::vector<ExperimentRequest>& experiments,
                nlohmann::ordered_json& record) {
  for (const ExperimentRequest& one : experiments) {
    const train::RunConfig config = config_of(one);
    const std::string fingerprint = fmt::format("{:016x}", check_corpus(config));
    nlohmann::ordered_json& kept =
        record["data"][fmt::format("{}, rows of {}", request.dataset, config.data.row_tokens)];
    if (!kept.is_null() && kept != fingerprint)
      refuse_folder(request, fmt::format("results on other data named {}", request.dataset),
                    "the data of the earlier experiments");
    kept = fingerprint;
  }
}

// Whether an experiment has neither a complete result nor a run that could be continued.
bool is_open(const ExperimentRequest& request) {
  Result named;
  named.dataset = request.dataset;
  named.name = request.experiment.name;
  const fs::path file = metrics_path(request.folder, named);
  std::error_code ignored;
  if (fs::exists(file, ignored)) return !read_result(file).is_done();
  return !fs::exists(run_folder(request), ignored);
}

// Records the settings of all experiments in the folder. Throws ConfigError where an earlier call
// ran one of them, completely or partly, with other settings.
void keep_settings(const LabRequest& request, const std::vector<ExperimentRequest>& experiments,
                   nlohmann::ordered_json json) {
  for (const ExperimentRequest& one : experiments) {
    const std::string& name = one.experiment.name;
    const std::vector<std::string> settings = recorded_settings(one);
    nlohmann::ordered_json& kept = json["experiments"][name];
    if (!kept.is_null() && kept != nlohmann::ordered_json(settings)) {
      if (!is_open(one))
        refuse_folder(request, fmt::format("an experiment {} with other settings", name),
                      "the settings of this call");
      // It failed with the other settings, and starts from scratch.
      std::error_code ignored;
      fs::remove_all(run_folder(one), ignored);
    }
    kept = settings;
  }
  write_text_synced(request.folder / kSuiteFile, json.dump(2) + "\n");
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
  // What it lacks is measured now.
  const bool lacks =
      (request.finds_batch && !result.largest) ||
      (request.profiles_memory && result.memory.empty() && request.kind != Suite::Kind::kSizes);
  return result.is_done() && !lacks ? std::optional(std::move(result)) : std::nullopt;
}

// Returns the standard run, and gives each experiment its share of that run's memory.
std::vector<Result> limit_experiments(LabRequest& request, const plan::RunDescription& run) {
  const train::RunConfig config =
      config_of(request_for(request, run, request.suite.experiments.front()));
  std::vector<Result> standard = request.standard.empty() ? std::vector{estimate_standard(config)}
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

// Compares what is in the folder of this suite and data, in the order of suite.json: also what
// earlier calls ran.
Comparison compare_folder(const LabRequest& request) {
  std::vector<std::string> problems;
  std::vector<Result> results = read_results(request.folder, problems);
  std::erase_if(results, [&](const Result& result) {
    return result.suite != request.suite.name || result.dataset != request.dataset;
  });
  return compare_results(std::move(results));
}

// Runs an experiment, or takes its result from an earlier call. Throws Interrupted.
void run_or_read(const ExperimentRequest& request, const SuiteEvents& events) {
  std::optional<Result> earlier = earlier_result(request);
  const bool is_from_before = earlier.has_value();
  Result result = is_from_before ? std::move(*earlier) : run_experiment(request, events.experiment);
  if (!is_from_before) write_result(request.folder, result);
  // Once the result is safe.
  if (result.is_done()) remove_checkpoints(request);
  train::notify(events.ended, result, is_from_before);
}

}  // namespace

std::string dataset_name(const fs::path& train) {
  if (train.empty()) return "assumed_data";
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
  // A card that cannot be simulated here would fail every experiment.
  if (!request.pretended_device.empty())
    device::open_device(first.device, request.pretended_device, first.deterministic);
  if (request.dataset.empty()) request.dataset = dataset_name(first.data.train);
  const FolderLock lock(request.folder);
  nlohmann::ordered_json record = read_suite_file(request);
  std::vector<Result> standard;
  if (request.suite.kind == Suite::Kind::kLimits) standard = limit_experiments(request, run);
  fix_budget(request, run, record);
  const bool needs_tokenizer =
      first.model.task().is_text() && first.data.tokenizer.empty() && request.suite.vocabulary > 0;
  if (needs_tokenizer)
    run.settings.push_back(fmt::format("data.tokenizer={}", tokenizer_file(request).string()));
  // Settings that are wrong fail before the first experiment runs.
  const std::vector<ExperimentRequest> experiments = all_experiments(request, run);
  for (const ExperimentRequest& one : experiments) config_of(one);
  try {
    if (needs_tokenizer) make_tokenizer(request, first, events);
    if (request.suite.kind != Suite::Kind::kSizes) check_data(request, experiments, record);
    keep_settings(request, experiments, std::move(record));
    for (const Result& result : standard) write_result(request.folder, result);
    for (size_t i = 0; i < experiments.size(); ++i) {
      check_stop(events.experiment);
      train::notify(events.began, experiments[i].experiment, static_cast<int64_t>(i),
                    std::ssize(experiments));
      run_or_read(experiments[i], events);
      // Written each time: what is there can be read while the others run.
      write_comparison(request.folder, compare_folder(request));
    }
  } catch (const Interrupted&) {
    return std::nullopt;
  }
  return compare_folder(request);
}

}  // namespace sotto::lab
