#include "sotto/report/run_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sotto/core/error.h"
#include "sotto/core/files/run_record.h"
#include "sotto/core/limits.h"
#include "sotto/core/units.h"

namespace sotto::report {

namespace {

using Json = nlohmann::json;

// 0 where there is none: earlier versions recorded less.
int64_t integer_in(const Json& record, const char* key) {
  return record.value(key, int64_t{0});
}

double number_in(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found == record.end() ? std::nan("") : record_number(*found);
}

RunStep step_of(const Json& record) {
  return {.step = record.at("step").get<int64_t>(),
          .loss = number_in(record, "loss"),
          .rate = number_in(record, "rate"),
          .gradient_norm = number_in(record, "gradient_norm"),
          .is_updated = record.value("updated", true),
          .num_items = integer_in(record, "utterances"),
          .num_micro_batches = integer_in(record, "micro_batches"),
          .num_frames = integer_in(record, "frames"),
          .audio_seconds = record.value("audio_seconds", 0.0),
          .seconds = record.value("seconds", 0.0),
          .peak_bytes = integer_in(record, "peak_bytes"),
          .reserved_bytes = integer_in(record, "reserved_bytes"),
          .after_forward_bytes = integer_in(record, "after_forward_bytes"),
          .after_backward_bytes = integer_in(record, "after_backward_bytes")};
}

RunEvaluation evaluation_of(const Json& record) {
  RunEvaluation evaluation{.step = record.at("step").get<int64_t>(),
                           .loss = number_in(record, "loss"),
                           .seconds = record.value("seconds", 0.0),
                           .wer = {},
                           .cer = {},
                           .perplexity = {}};
  if (record.contains("perplexity")) evaluation.perplexity = number_in(record, "perplexity");
  if (record.contains("words")) evaluation.wer = number_in(record["words"], "rate");
  if (record.contains("characters")) evaluation.cer = number_in(record["characters"], "rate");
  return evaluation;
}

RunStage stage_of(const Json& record) {
  return {.stage = record.at("stage").get<int64_t>(),
          .name = record.value("name", ""),
          .num_samples = integer_in(record, "samples"),
          .step = record.at("step").get<int64_t>(),
          .num_steps = integer_in(record, "steps"),
          .total_steps = integer_in(record, "total_steps"),
          .weights_of_step = integer_in(record, "weights_of_step")};
}

void add_step(RunContent& run, const Json& record) {
  const RunStep step = step_of(record);
  run.steps.push_back(step);
  if (!step.is_updated && step.num_items > 0)
    run.events.push_back({.kind = RunEvent::Kind::kOverflow,
                          .step = step.step,
                          .text = "gradients were not finite; the weights are unchanged"});
}

std::string restart_text(const Json& record) {
  std::string text = fmt::format("attempt {}", integer_in(record, "attempt"));
  if (record.contains("limits"))
    text += fmt::format("; limit per micro-batch from here on: {}",
                        describe(limits_from_json(record["limits"])));
  const std::string reason = record.value("reason", "");
  return reason.empty() ? text : fmt::format("{} ({})", text, reason);
}

std::string release_text(const Json& record) {
  const int64_t bytes = integer_in(record, "audio_bytes") + integer_in(record, "host_bytes");
  return fmt::format("released {}; resident {} before, {} after", format_bytes(bytes),
                     format_bytes(integer_in(record, "resident_before_bytes")),
                     format_bytes(integer_in(record, "resident_after_bytes")));
}

void add_record(RunContent& run, const Json& record) {
  const auto kind = record.at("kind").get<std::string>();
  const auto add_event = [&](RunEvent::Kind event, const std::string& text) {
    run.events.push_back({.kind = event, .step = record.at("step").get<int64_t>(), .text = text});
  };
  if (kind == "step") {
    add_step(run, record);
  } else if (kind == "evaluation") {
    run.evaluations.push_back(evaluation_of(record));
  } else if (kind == "stage") {
    run.stages.push_back(stage_of(record));
  } else if (kind == "out_of_memory") {
    add_event(RunEvent::Kind::kOutOfMemory, restart_text(record));
  } else if (kind == "resume") {
    add_event(RunEvent::Kind::kResume,
              fmt::format("continued after step {}", record.at("step").get<int64_t>()));
  } else if (kind == "skipped") {
    add_event(RunEvent::Kind::kSkipped, record.value("reason", ""));
  } else if (kind == "release") {
    add_event(RunEvent::Kind::kRelease, release_text(record));
  }
}

// Entries with the same step as their successor are removed.
template <class Entry>
void keep_last_of_each_step(std::vector<Entry>& entries) {
  std::ranges::stable_sort(entries, {}, &Entry::step);
  std::vector<Entry> kept;
  for (Entry& entry : entries) {
    if (!kept.empty() && kept.back().step == entry.step) kept.pop_back();
    kept.push_back(std::move(entry));
  }
  entries = std::move(kept);
}

}  // namespace

int64_t add_records(const std::vector<Json>& records, RunContent& run) {
  int64_t num_strange = 0;
  for (const Json& record : records) {
    try {
      add_record(run, record);
    } catch (const Json::exception&) {
      ++num_strange;
    } catch (const DataError&) {
      ++num_strange;
    }
  }
  keep_last_of_each_step(run.steps);
  keep_last_of_each_step(run.evaluations);
  keep_last_of_each_step(run.stages);
  std::ranges::stable_sort(run.events, {}, &RunEvent::step);
  return num_strange;
}

}  // namespace sotto::report
