#include "sotto/lab/standard.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "sotto/core/error.h"
#include "sotto/core/files/run_record.h"
#include "sotto/core/files/text_file.h"
#include "sotto/lab/comparison.h"
#include "sotto/lab/run_items.h"
#include "sotto/plan/transformers_estimate.h"
#include "sotto/train/step/run_data.h"

namespace sotto::lab {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kStandardFormatVersion = 1;

[[noreturn]] void refuse_standard(const fs::path& file, const std::string& found,
                                  const std::string& expected) {
  throw DataError({.attempted = fmt::format("reading the standard run {}", file.string()),
                   .found = found,
                   .expected = expected,
                   .hint = "bench/standard_peer.py writes such files."});
}

nlohmann::json read_json(const fs::path& file) {
  nlohmann::json json = nlohmann::json::parse(read_text_file(file), nullptr, false);
  if (!json.is_object()) refuse_standard(file, "no JSON object", "a JSON object");
  const nlohmann::json version = json.value("format_version", nlohmann::json(nullptr));
  if (json.contains("error"))
    refuse_standard(file, json["error"].dump(), "a run that was completed");
  if (version != kStandardFormatVersion)
    refuse_standard(file, fmt::format("format_version {}", version.dump()),
                    fmt::format("{}", kStandardFormatVersion));
  return json;
}

// Throws an exception of the JSON library for missing or other values.
Result standard_from(const nlohmann::json& json) {
  Result result;
  result.kind = Suite::Kind::kLimits;
  result.name = kStandardName;
  result.title = fmt::format("padded batches, {}", json.at("program").get<std::string>());
  result.model = {{"name", json.at("model")}};
  result.device = json.at("device");
  result.num_parameters = json.at("parameters");
  result.batch = json.at("effective_batch");
  result.num_steps = json.at("steps");
  result.speed = json.at("audio_seconds_per_second");
  result.seconds_per_step = json.at("seconds_per_step");
  result.memory = {{.after_forward = 0, .after_backward = 0, .peak = json.at("peak_bytes")}};
  return result;
}

std::string rates_text(const std::vector<double>& rates) {
  std::string text;
  for (const double rate : rates)
    text += fmt::format("{}{:.1f} %", text.empty() ? "" : ", ", 100.0 * rate);
  return text;
}

void check_standard(const fs::path& file, const Result& standard, const train::RunConfig& config) {
  if (standard.peak_bytes() <= 0 || standard.speed <= 0.0)
    refuse_standard(file,
                    fmt::format("peak_bytes {}, audio_seconds_per_second {}", standard.peak_bytes(),
                                standard.speed),
                    "numbers above 0");
  const auto refuse_other = [&](const std::string& found, const std::string& expected,
                                const std::string& hint) {
    throw ConfigError(
        {.attempted = fmt::format("comparing with the standard run {}", file.string()),
         .found = found,
         .expected = expected,
         .hint = hint});
  };
  if (standard.model.value("name", "") != config.model.preset())
    refuse_other(fmt::format("its network {}, and {} here", standard.model.value("name", ""),
                             config.model.preset()),
                 "the same network", "Name it with --model.");
  if (config.effective_batch.kind != data::EffectiveBatch::Kind::kUtterances ||
      config.effective_batch.utterances != standard.batch)
    refuse_other(fmt::format("its effective batch {}, and {} here", standard.batch,
                             config.effective_batch.to_string()),
                 "the same effective batch", fmt::format("Add --batch-size {}.", standard.batch));
}

}  // namespace

std::vector<Result> read_standard(const fs::path& file, const train::RunConfig& config) {
  const nlohmann::json json = read_json(file);
  std::vector<Result> results;
  try {
    const Result result = standard_from(json);
    const std::vector<double> rates = json.value("wer", std::vector<double>{});
    const std::string heard_by = json.value("wer_model", "");
    if (!heard_by.empty()) {
      // Another network than the one whose memory was measured.
      results.push_back(result);
      results.front().note =
          fmt::format("word error rates of {}, by seed: {}", heard_by, rates_text(rates));
      check_standard(file, results.front(), config);
      return results;
    }
    for (size_t i = 0; i < std::max<size_t>(rates.size(), 1); ++i) {
      Result& one = results.emplace_back(result);
      one.seed = static_cast<int64_t>(i + 1);
      if (i > 0) one.name = repetition_name(kStandardName, one.seed);
      if (!rates.empty()) one.dev_wer = rates[i];
    }
  } catch (const nlohmann::json::exception& error) {
    refuse_standard(file, error.what(), "the figures of a standard run");
  }
  check_standard(file, results.front(), config);
  return results;
}

Result estimate_standard(const train::RunConfig& config) {
  if (config.effective_batch.kind != data::EffectiveBatch::Kind::kUtterances)
    throw ConfigError(
        {.attempted = "estimating the standard run",
         .found = fmt::format("effective_batch {}", config.effective_batch.to_string()),
         .expected = "a number of utterances"});
  const std::unique_ptr<train::RunData> data = train::open_run_data(config, std::nullopt, {});
  const std::shared_ptr<data::Source> source = all_items(*data);
  const plan::PaddedTraining padded{.utterances = config.effective_batch.utterances,
                                    .seconds = double{std::ranges::max(source->lengths())},
                                    .is_half = false};
  Result result;
  result.kind = Suite::Kind::kLimits;
  result.name = kStandardName;
  result.title = "padded batches in transformers, estimated";
  result.note = "estimated, not measured: name the figures of a run with --standard FILE";
  result.batch = padded.utterances;
  result.predicted.peak = plan::estimate_transformers(config.model, padded).peak;
  return result;
}

}  // namespace sotto::lab
