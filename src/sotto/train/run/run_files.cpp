#include "sotto/train/run/run_files.h"

#include <algorithm>
#include <string>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/files/text_file.h"
#include "sotto/train/checkpoint/checkpoint.h"
#include "sotto/train/run/trainer.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLimitsFile = "limits.json";
constexpr int64_t kFormatVersion = 1;

// Longer timelines are shortened: reports draw them, and a file stays small.
constexpr size_t kMaxTimeline = 1'000;

std::string_view name_of_phase(device::Phase phase) {
  switch (phase) {
    case device::Phase::kSetUp: return "set-up";
    case device::Phase::kForward: return "forward";
    case device::Phase::kBackward: return "backward";
    case device::Phase::kUpdate: return "update";
  }
  return "";
}

nlohmann::json categories_json(const device::CategoryBytes& bytes) {
  nlohmann::json json;
  for (int i = 0; i < device::kNumCategories; ++i)
    json[std::string(device::name_of(static_cast<device::Category>(i)))] =
        bytes[static_cast<size_t>(i)];
  return json;
}

// Of several adjacent moments the largest is written.
nlohmann::json timeline_json(const std::vector<device::MomentPeak>& timeline) {
  nlohmann::json json = nlohmann::json::array();
  const size_t at_once = timeline.size() / kMaxTimeline + 1;
  for (size_t i = 0; i < timeline.size(); i += at_once) {
    const auto first = timeline.begin() + static_cast<std::ptrdiff_t>(i);
    const auto last =
        timeline.begin() + static_cast<std::ptrdiff_t>(std::min(i + at_once, timeline.size()));
    const device::MomentPeak& most = *std::max_element(
        first, last, [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    json.push_back({{"phase", name_of_phase(most.moment.phase)},
                    {"micro_batch", most.moment.micro_batch},
                    {"layer", most.moment.layer},
                    {"name", most.moment.to_string()},
                    {"bytes", most.bytes},
                    {"by_category", categories_json(most.by_category)}});
  }
  return json;
}

nlohmann::json to_json(const LimitsBasis& basis) {
  return {{"memory", basis.memory}, {"device", basis.device}, {"limits", to_json(basis.named)}};
}

}  // namespace

void clear_leftovers(const fs::path& folder) {
  // Without atomic rename, a replacement may be incomplete.
  const auto check = [](const fs::path& path) { check_checkpoint(path, CheckpointPart::kAll); };
  remove_leftovers(folder, check);
  remove_leftovers(folder / kCheckpointsFolder, check);
}

void check_run_folder(const fs::path& folder) {
  check_writable(folder);
  std::error_code ignored;
  if (fs::exists(folder / kCheckpointsFolder, ignored)) check_writable(folder / kCheckpointsFolder);
}

void write_config_file(const fs::path& folder, const RunConfig& config) {
  write_text_synced(folder / kConfigFile, format_yaml(write_options(config)));
}

nlohmann::json step_record(const StepReport& report) {
  nlohmann::json record = {{"kind", "step"},
                           {"step", report.step},
                           {"epoch", report.epoch},
                           {"ends_epoch", report.ends_epoch},
                           {"loss", report.result.loss},
                           {"rate", report.result.rate},
                           {"gradient_norm", report.result.gradient_norm},
                           {"updated", report.result.is_updated},
                           {"utterances", report.num_utterances},
                           {"micro_batches", report.result.num_micro_batches},
                           {"frames", report.result.num_frames},
                           {"audio_seconds", report.audio_seconds},
                           {"seconds", report.seconds},
                           {"memory_bytes", report.live_bytes},
                           {"peak_bytes", report.peak_bytes},
                           {"after_forward_bytes", report.result.after_forward_bytes},
                           {"after_backward_bytes", report.result.after_backward_bytes},
                           {"reserved_bytes", report.reserved_bytes},
                           {"infeasible", report.result.infeasible}};
  // The terms of a loss with several terms.
  if (report.result.terms.size() > 1) {
    for (const NamedLoss& term : report.result.terms) record["losses"][term.name] = term.loss;
  }
  return record;
}

nlohmann::json evaluation_record(int64_t step, const Evaluation& evaluation) {
  if (evaluation.task->is_text()) {
    return {{"kind", "evaluation"},
            {"step", step},
            {"loss", evaluation.loss},
            {"perplexity", evaluation.perplexity()},
            {"tokens", evaluation.num_tokens},
            {"seconds", evaluation.seconds}};
  }
  return {{"kind", "evaluation"},
          {"step", step},
          {"words", counts_json(evaluation.words)},
          {"characters", counts_json(evaluation.characters)},
          {"loss", evaluation.loss},
          {"utterances", evaluation.num_utterances},
          {"audio_seconds", evaluation.audio_seconds},
          {"seconds", evaluation.seconds},
          {"skipped", evaluation.num_skipped}};
}

// A resumed run that repeats the beginning of the stage removes the record with its first step.
nlohmann::json stage_record(const StageStart& start) {
  nlohmann::json record = {{"kind", "stage"},
                           {"step", start.first_step},
                           {"stage", start.stage},
                           {"stages", start.num_stages},
                           {"name", start.name},
                           {"samples", start.num_samples},
                           {"steps", start.num_steps},
                           {"total_steps", start.total_steps},
                           {"weights_of_step", start.weights_of_step}};
  if (start.metric) record["metric"] = *start.metric;
  return record;
}

nlohmann::json restart_record(const Restart& restart) {
  return {{"kind", "out_of_memory"},          {"step", restart.step},
          {"attempt", restart.attempt},       {"limits", to_json(restart.limits)},
          {"peak_bytes", restart.peak_bytes}, {"reason", restart.reason}};
}

// `step`: the last one before this process.
nlohmann::json resume_record(int64_t step) {
  return {{"kind", "resume"}, {"step", step}};
}

nlohmann::json skipped_record(int64_t step, const data::SkippedUtterance& skipped) {
  return {{"kind", "skipped"}, {"step", step}, {"reason", skipped.reason}};
}

nlohmann::json release_record(int64_t step, const ReleasedCaches& released) {
  return {{"kind", "release"},
          {"step", step},
          {"audio_bytes", released.audio_bytes},
          {"host_bytes", released.host_bytes},
          {"resident_before_bytes", released.resident_before_bytes},
          {"resident_after_bytes", released.resident_after_bytes}};
}

std::vector<Scalar> step_scalars(const StepReport& report) {
  if (report.is_empty()) return {};
  std::vector<Scalar> scalars = {
      {.tag = "train/loss", .value = report.result.loss},
      {.tag = "train/learning_rate", .value = report.result.rate},
      {.tag = "train/gradient_norm", .value = report.result.gradient_norm},
      {.tag = "memory/peak_bytes", .value = static_cast<double>(report.peak_bytes)}};
  if (report.result.terms.size() > 1) {
    for (const NamedLoss& term : report.result.terms)
      scalars.push_back({.tag = "train/loss_" + term.name, .value = term.loss});
  }
  if (report.audio_seconds > 0.0) {
    scalars.push_back(
        {.tag = "train/audio_seconds_per_second", .value = report.audio_seconds / report.seconds});
  } else if (report.num_utterances > 0) {
    const auto num_tokens = static_cast<double>(report.result.num_frames);
    scalars.push_back({.tag = "train/tokens_per_second", .value = num_tokens / report.seconds});
  }
  return scalars;
}

std::vector<Scalar> evaluation_scalars(const Evaluation& evaluation) {
  if (evaluation.task->is_text()) {
    return {{.tag = "evaluation/loss", .value = evaluation.loss},
            {.tag = "evaluation/perplexity", .value = evaluation.perplexity()}};
  }
  return {{.tag = "evaluation/loss", .value = evaluation.loss},
          {.tag = "evaluation/wer", .value = evaluation.words.rate()},
          {.tag = "evaluation/cer", .value = evaluation.characters.rate()}};
}

nlohmann::json counts_json(const decode::ErrorCounts& counts) {
  return {{"rate", counts.rate()},
          {"insertions", counts.insertions},
          {"deletions", counts.deletions},
          {"substitutions", counts.substitutions},
          {"reference", counts.reference_length}};
}

nlohmann::json memory_json(const device::MemoryReport& report) {
  return {{"peak_bytes", report.peak},
          {"high_water_bytes", report.high_water},
          {"host_peak_bytes", report.host_peak},
          {"after_forward_bytes", report.after_forward},
          {"after_backward_bytes", report.after_backward},
          {"bytes_at_peak", categories_json(report.at_peak)},
          {"peak_moment", report.peak_moment.to_string()}};
}

void write_memory_file(const fs::path& folder, int64_t step, const MemoryComparison& comparison) {
  const nlohmann::json json = {{"format_version", kFormatVersion},
                               {"step", step},
                               {"planned", memory_json(comparison.planned)},
                               {"measured", memory_json(comparison.measured)},
                               {"timeline", timeline_json(comparison.planned.timeline)}};
  write_text_synced(folder / "memory.json", json.dump(2) + "\n");
}

void write_learned_limits(const fs::path& folder, const MicroBatchLimits& limits,
                          const LimitsBasis& basis) {
  nlohmann::json json = {{"format_version", kFormatVersion}, {"limits", to_json(limits)}};
  json["learned_for"] = to_json(basis);
  write_text_synced(folder / kLimitsFile, json.dump(2) + "\n");
}

void forget_learned_limits(const fs::path& folder) {
  std::error_code ignored;
  fs::remove(folder / kLimitsFile, ignored);
}

MicroBatchLimits read_learned_limits(const fs::path& folder, const LimitsBasis& basis) {
  const fs::path path = folder / kLimitsFile;
  if (!fs::exists(path)) return {};
  // Reading a pipe would block until a writer opens it.
  const nlohmann::json json =
      nlohmann::json::parse(fs::is_regular_file(path) ? read_text_file(path) : std::string(),
                            nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("limits")) {
    throw DataError({.attempted = fmt::format("reading {}", path.string()),
                     .found = "invalid limits",
                     .expected = "limits as sotto writes them",
                     .hint = "Remove the file: limits are then found again."});
  }
  // Files of earlier versions do not store the basis: limits are learned again.
  if (json.value("learned_for", nlohmann::json()) != to_json(basis)) return {};
  return limits_from_json(json.at("limits"));
}

}  // namespace sotto::train
