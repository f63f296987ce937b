#include "sotto/train/hub/model_facts.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "sotto/core/files/json_object.h"
#include "sotto/core/files/run_record.h"
#include "sotto/core/files/text_file.h"
#include "sotto/train/run/run_files.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;

constexpr const char* kCheckpoints = "checkpoints";

// Returns the run's folder for RUN/best and RUN/checkpoints/step-N; none for a checkpoint
// elsewhere, where the files around it may belong to another run.
std::optional<fs::path> find_run_folder(const fs::path& checkpoint) {
  const fs::path folder = fs::weakly_canonical(checkpoint);
  const fs::path parent = folder.parent_path();
  fs::path run;
  if (folder.filename() == kBestFolder) run = parent;
  if (parent.filename() == kCheckpoints) run = parent.parent_path();
  const bool is_run = !run.empty() && fs::exists(run / kMetricsFile);
  return is_run ? std::optional(run) : std::nullopt;
}

// Returns the lines of a kind by step, up to the step of the weights. A run that was killed and
// resumed has lines for some steps twice; the later ones are used.
std::map<int64_t, nlohmann::json> lines_of(const std::vector<nlohmann::json>& records,
                                           const char* kind, int64_t last_step) {
  std::map<int64_t, nlohmann::json> lines;
  for (const nlohmann::json& record : records) {
    if (record.value("kind", "") == kind && record.at("step") <= last_step)
      lines[record.at("step").get<int64_t>()] = record;
  }
  return lines;
}

decode::ErrorCounts counts_of(const nlohmann::json& counts) {
  return {.insertions = counts.at("insertions"),
          .deletions = counts.at("deletions"),
          .substitutions = counts.at("substitutions"),
          .reference_length = counts.at("reference")};
}

Evaluation evaluation_of(const nlohmann::json& line) {
  Evaluation evaluation;
  evaluation.loss = record_number(line.at("loss"));
  if (line.contains("tokens")) {
    evaluation.task = &kLanguageModelling;
    evaluation.num_tokens = line.at("tokens");
    return evaluation;
  }
  evaluation.words = counts_of(line.at("words"));
  evaluation.characters = counts_of(line.at("characters"));
  evaluation.num_utterances = line.at("utterances");
  evaluation.audio_seconds = record_number(line.at("audio_seconds"));
  return evaluation;
}

// Returns the size of the first epoch, where the lines of all its steps exist.
std::optional<EpochAmount> amount_of(const std::map<int64_t, nlohmann::json>& steps,
                                     const Checkpoint& checkpoint) {
  if (checkpoint.state.next.epoch == 0) return std::nullopt;
  EpochAmount amount;
  int64_t expected = 1;
  for (const auto& [step, line] : steps) {
    if (step != expected++) return std::nullopt;
    if (line.at("epoch") != 0) break;
    amount.num_items += line.at("utterances").get<int64_t>();
    amount.audio_seconds += record_number(line.at("audio_seconds"));
    if (checkpoint.config.model.task().is_text())
      amount.num_tokens += line.at("frames").get<int64_t>();
  }
  return amount.num_items > 0 ? std::optional(amount) : std::nullopt;
}

void take_metrics(const fs::path& path, const Checkpoint& checkpoint, RunFacts& facts) {
  const std::vector<nlohmann::json> records = read_run_record(path).records;
  try {
    const std::map<int64_t, nlohmann::json> steps = lines_of(records, "step", facts.step);
    facts.epoch = amount_of(steps, checkpoint);
    for (const auto& [step, line] : steps) {
      const int64_t bytes = line.at("peak_bytes");
      facts.largest_peak_bytes = std::max(facts.largest_peak_bytes.value_or(0), bytes);
    }
    const std::map<int64_t, nlohmann::json> evaluations =
        lines_of(records, "evaluation", facts.step);
    if (evaluations.empty()) return;
    facts.evaluated_step = evaluations.rbegin()->first;
    facts.evaluation = evaluation_of(evaluations.rbegin()->second);
  } catch (const nlohmann::json::exception& error) {
    throw DataError({.attempted = fmt::format("reading {}", path.string()),
                     .found = error.what(),
                     .expected = "the lines that `sotto train` writes",
                     .hint = "Without the file the model is exported with fewer facts."});
  }
}

void take_memory(const fs::path& path, RunFacts& facts) {
  if (!fs::exists(path)) return;
  const nlohmann::json memory = parse_json_object(
      read_text_file(path), {.path = path, .part = "it", .expected = "what `sotto train` writes"});
  const auto peak_of = [&](const char* which) -> std::optional<int64_t> {
    const auto report = memory.find(which);
    if (report == memory.end() || !report->is_object()) return std::nullopt;
    const auto peak = report->find("peak_bytes");
    if (peak == report->end() || !peak->is_number_integer()) return std::nullopt;
    return peak->get<int64_t>();
  };
  facts.planned_peak_bytes = peak_of("planned");
  facts.measured_peak_bytes = peak_of("measured");
}

}  // namespace

RunFacts read_run_facts(const fs::path& folder, const Checkpoint& checkpoint) {
  RunFacts facts{.config = checkpoint.config, .step = checkpoint.state.step};
  if (const std::optional<fs::path> run = find_run_folder(folder)) {
    take_metrics(*run / kMetricsFile, checkpoint, facts);
    take_memory(*run / "memory.json", facts);
  }
  return facts;
}

}  // namespace sotto::train
