#include "sotto/lab/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sotto/core/config/options.h"
#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/files/run_record.h"
#include "sotto/core/files/text_file.h"

namespace sotto::lab {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kResultFormatVersion = 1;
constexpr std::string_view kMetricsEnd = "_metrics.json";

constexpr std::array kStatuses = {Named{"done", Result::Status::kDone},
                                  Named{"does not fit", Result::Status::kDoesNotFit},
                                  Named{"failed", Result::Status::kFailed}};

// JSON has no numbers that are not finite: written as run records write them.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0.0 ? "inf" : "-inf";
}

Json optional_number(const std::optional<double>& value) {
  return value ? number(*value) : Json(nullptr);
}

std::optional<double> read_optional(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return record_number(*found);
}

Json memory_json(const StepMemory& memory) {
  return {{"after_forward_bytes", memory.after_forward},
          {"after_backward_bytes", memory.after_backward},
          {"peak_bytes", memory.peak}};
}

StepMemory memory_from(const nlohmann::json& json) {
  return {.after_forward = json.at("after_forward_bytes").get<int64_t>(),
          .after_backward = json.at("after_backward_bytes").get<int64_t>(),
          .peak = json.at("peak_bytes").get<int64_t>()};
}

Json largest_json(const LargestBatch& largest) {
  return {{"tried", largest.tried},
          {"predicted", largest.predicted},
          {"peak_bytes", largest.peak_bytes},
          {"seconds_per_step", largest.seconds}};
}

std::string json_file_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json steps_json(const Result& result) {
  Json steps = Json::array();
  for (size_t i = 0; i < result.memory.size(); ++i) {
    Json step = {{"step", i + 1}};
    step.update(memory_json(result.memory[i]));
    steps.push_back(std::move(step));
  }
  return steps;
}

nlohmann::json parse_file(const fs::path& path) {
  nlohmann::json json = nlohmann::json::parse(read_text_file(path), nullptr, false);
  const auto refuse_file = [&](const std::string& found) {
    throw DataError({.attempted = fmt::format("reading {}", path.string()),
                     .found = found,
                     .expected = "a result that sotto lab wrote",
                     .hint = "Remove the file, and run the experiment again."});
  };
  if (!json.is_object() || !json.contains("format_version")) refuse_file("no result");
  if (json["format_version"] != kResultFormatVersion)
    refuse_file(fmt::format("format_version {}", json["format_version"].dump()));
  return json;
}

Result::Status status_from(const std::string& text) {
  const auto found = std::ranges::find(kStatuses, text, &Named<Result::Status>::name);
  if (found != kStatuses.end()) return found->value;
  throw DataError({.attempted = "reading a result",
                   .found = fmt::format("status '{}'", text),
                   .expected = "done, does not fit or failed"});
}

Suite::Kind kind_from(const std::string& text) {
  for (const Suite::Kind kind :
       {Suite::Kind::kTraining, Suite::Kind::kLimits, Suite::Kind::kSizes}) {
    if (name_of_kind(kind) == text) return kind;
  }
  throw DataError({.attempted = "reading a result",
                   .found = fmt::format("kind '{}'", text),
                   .expected = "training, limits or sizes"});
}

// Throws an exception of the JSON library for missing or other values.
Result result_from(const nlohmann::json& json) {
  const nlohmann::json& memory = json.at("memory");
  Result result;
  result.suite = json.at("suite");
  result.kind = kind_from(json.at("kind"));
  result.dataset = json.at("dataset");
  result.name = json.at("experiment");
  result.title = json.at("title");
  result.status = status_from(json.at("status"));
  result.note = json.at("note");
  result.settings = json.at("settings").get<std::vector<std::string>>();
  result.decided = json.at("decided").get<std::vector<std::string>>();
  result.model = json.at("model");
  result.device = json.at("device");
  result.budget_bytes = json.at("budget_bytes");
  result.seed = json.at("seed");
  result.num_parameters = json.at("parameters");
  result.batch = json.at("batch_size");
  result.row_tokens = json.at("row_tokens");
  result.micro_batch = json.value("micro_batch", int64_t{0});
  result.has_smallest_budget = json.value("has_smallest_budget", false);
  result.num_steps = json.at("steps");
  result.train_loss = read_optional(json, "train_loss").value_or(0.0);
  result.dev_loss = read_optional(json, "validation_loss");
  result.dev_wer = read_optional(json, "validation_wer");
  result.total_seconds = json.at("total_seconds");
  result.seconds_per_step = json.at("seconds_per_step");
  result.seconds_error = json.value("seconds_per_step_error", 0.0);
  result.speed = json.at("speed");
  result.predicted_speed = json.at("predicted_speed");
  result.predicted = memory_from(memory.at("predicted"));
  if (const nlohmann::json& largest = memory.at("largest_batch"); !largest.is_null())
    result.largest = {.tried = largest.at("tried"),
                      .predicted = largest.at("predicted"),
                      .peak_bytes = largest.at("peak_bytes"),
                      .seconds = largest.at("seconds_per_step")};
  return result;
}

template <class Read>
auto read_or_refuse(const fs::path& path, Read read) {
  const nlohmann::json json = parse_file(path);
  try {
    return read(json);
  } catch (const nlohmann::json::exception& error) {
    throw DataError({.attempted = fmt::format("reading {}", path.string()),
                     .found = error.what(),
                     .expected = "a result that sotto lab wrote",
                     .hint = "Remove the file, and run the experiment again."});
  }
}

// Names of the experiments in suite.json; empty where it is missing or damaged.
std::vector<std::string> experiment_order(const fs::path& folder) {
  std::vector<std::string> names;
  const fs::path file = folder / kSuiteFile;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return names;
  const Json json = Json::parse(read_text_file(file), nullptr, false);
  if (!json.is_object() || !json.contains("experiments") || !json["experiments"].is_object())
    return names;
  for (const auto& [name, settings] : json["experiments"].items()) names.push_back(name);
  return names;
}

}  // namespace

double Result::train_perplexity() const {
  return std::exp(train_loss);
}

std::optional<double> Result::dev_perplexity() const {
  if (!dev_loss) return std::nullopt;
  return std::exp(*dev_loss);
}

int64_t Result::peak_bytes() const {
  return memory.empty() ? predicted.peak : max_memory().peak;
}

StepMemory Result::mean_memory() const {
  if (memory.empty()) return {};
  StepMemory sum;
  for (const StepMemory& step : memory) {
    sum.after_forward += step.after_forward;
    sum.after_backward += step.after_backward;
    sum.peak += step.peak;
  }
  const auto count = std::ssize(memory);
  return {.after_forward = sum.after_forward / count,
          .after_backward = sum.after_backward / count,
          .peak = sum.peak / count};
}

StepMemory Result::max_memory() const {
  return largest_of(memory);
}

StepMemory largest_of(const std::vector<StepMemory>& steps) {
  StepMemory most;
  for (const StepMemory& step : steps) {
    most.after_forward = std::max(most.after_forward, step.after_forward);
    most.after_backward = std::max(most.after_backward, step.after_backward);
    most.peak = std::max(most.peak, step.peak);
  }
  return most;
}

fs::path metrics_path(const fs::path& folder, const Result& result) {
  return folder / fmt::format("{}_{}{}", result.dataset, result.name, kMetricsEnd);
}

fs::path memory_path(const fs::path& folder, const Result& result) {
  return folder / fmt::format("{}_{}_memory.json", result.dataset, result.name);
}

Json metrics_json(const Result& result) {
  Json memory = {{"predicted", memory_json(result.predicted)}};
  if (!result.memory.empty()) {
    memory["mean"] = memory_json(result.mean_memory());
    memory["max"] = memory_json(result.max_memory());
  }
  // An experiment that was not trained has no loss.
  const auto trained = [&](double value) {
    return result.num_steps > 0 ? number(value) : Json(nullptr);
  };
  memory["largest_batch"] = result.largest ? largest_json(*result.largest) : Json(nullptr);
  Json json = {{"format_version", kResultFormatVersion},
               {"suite", result.suite},
               {"kind", name_of_kind(result.kind)},
               {"dataset", result.dataset},
               {"experiment", result.name},
               {"title", result.title},
               {"status", name_of(result.status, kStatuses)},
               {"note", result.note},
               {"settings", result.settings},
               {"decided", result.decided},
               {"model", result.model},
               {"device", result.device},
               {"budget_bytes", result.budget_bytes},
               {"seed", result.seed},
               {"parameters", result.num_parameters},
               {"batch_size", result.batch},
               {"row_tokens", result.row_tokens}};
  if (result.kind == Suite::Kind::kSizes) {
    json["micro_batch"] = result.micro_batch;
    json["has_smallest_budget"] = result.has_smallest_budget;
  }
  json["steps"] = result.num_steps;
  json["train_loss"] = trained(result.train_loss);
  if (result.is_text()) json["train_perplexity"] = trained(result.train_perplexity());
  json["validation_loss"] = optional_number(result.dev_loss);
  if (result.is_text()) {
    json["validation_perplexity"] = optional_number(result.dev_perplexity());
  } else {
    json["validation_wer"] = optional_number(result.dev_wer);
  }
  json["total_seconds"] = result.total_seconds;
  json["seconds_per_step"] = result.seconds_per_step;
  json["seconds_per_step_error"] = result.seconds_error;
  json["speed"] = result.speed;
  json["predicted_speed"] = result.predicted_speed;
  json["speed_unit"] = result.is_text() ? "tokens/s" : "audio-s/s";
  json["memory"] = std::move(memory);
  return json;
}

// The metrics come last: with them the experiment counts as complete.
void write_result(const fs::path& folder, const Result& result) {
  if (!result.memory.empty()) {
    const Json json = {{"format_version", kResultFormatVersion},
                       {"dataset", result.dataset},
                       {"experiment", result.name},
                       {"batch_size", result.batch},
                       {"mean", memory_json(result.mean_memory())},
                       {"max", memory_json(result.max_memory())},
                       {"predicted", memory_json(result.predicted)},
                       {"steps", steps_json(result)}};
    write_text_synced(memory_path(folder, result), json_file_text(json));
  } else {
    std::error_code ignored;
    fs::remove(memory_path(folder, result), ignored);
  }
  write_text_synced(metrics_path(folder, result), json_file_text(metrics_json(result)));
}

Result read_result(const fs::path& metrics_file) {
  Result result = read_or_refuse(metrics_file, result_from);
  const fs::path memory = memory_path(metrics_file.parent_path(), result);
  std::error_code ignored;
  if (!fs::exists(memory, ignored)) return result;
  result.memory = read_or_refuse(memory, [](const nlohmann::json& json) {
    std::vector<StepMemory> steps;
    for (const nlohmann::json& step : json.at("steps")) steps.push_back(memory_from(step));
    return steps;
  });
  return result;
}

std::vector<Result> read_results(const fs::path& folder, std::vector<std::string>& problems) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().ends_with(kMetricsEnd)) files.push_back(entry->path());
  }
  if (error)
    throw DataError({.attempted = fmt::format("reading results in {}", folder.string()),
                     .found = error.message()});
  std::ranges::sort(files);
  std::vector<Result> results;
  for (const fs::path& file : files) {
    try {
      results.push_back(read_result(file));
    } catch (const DataError& problem) {
      problems.emplace_back(problem.what());
    }
  }
  const std::vector<std::string> order = experiment_order(folder);
  // The standard run of limits is not among the experiments, and comes first.
  const auto position = [&](const Result& result) {
    const auto found = std::ranges::find(order, result.name);
    return found == order.end() ? std::ptrdiff_t{-1} : found - order.begin();
  };
  std::ranges::stable_sort(results, {}, position);
  return results;
}

}  // namespace sotto::lab
