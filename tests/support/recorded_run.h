// The folder of a run with all files that a report reads, written without training.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "support/temp_folder.h"

namespace sotto::test {

// What a recorded run is made of; a test changes it before write().
struct RecordedRun {
  nlohmann::json header = {{"format_version", 1}, {"kind", "run_record"}};
  std::vector<nlohmann::json> records;
  nlohmann::json facts;
  nlohmann::json memory;
  std::string config =
      "format_version: 1\nname: digits\nnumerics: fp32\nmodel: {preset: tiny, layers: 2}\n";
  std::string log = "format_version 1, sotto 1, commit a\nDone after step 40: loss 1\n";

  // A run of 40 steps on speech, evaluated twice; one step ran out of memory.
  static RecordedRun of_speech() {
    RecordedRun run;
    for (int64_t step = 1; step <= 40; ++step) {
      if (step == 7) run.records.push_back(out_of_memory(step));
      run.records.push_back(record_of(step));
      if (step % 20 == 0) run.records.push_back(evaluation_of(step, step == 20 ? 0.5 : 0.25));
    }
    run.facts = facts_of();
    run.memory = memory_of();
    return run;
  }

  std::string metrics() const {
    std::string text = header.dump() + "\n";
    for (const nlohmann::json& record : records) text += record.dump() + "\n";
    return text;
  }

  void write(const TempFolder& folder, const std::string& name) const {
    folder.write(name + "/metrics.jsonl", metrics());
    folder.write(name + "/facts.json", facts.dump());
    folder.write(name + "/memory.json", memory.dump());
    folder.write(name + "/config.yaml", config);
    folder.write(name + "/log.txt", log);
    std::filesystem::create_directories(folder.path() / name / "checkpoints/step-40");
  }

 private:
  static nlohmann::json record_of(int64_t step) {
    const int64_t bytes = (60 + step % 5) << 20;
    return {{"kind", "step"},
            {"step", step},
            {"epoch", step / 10},
            {"loss", 8.0 / static_cast<double>(step)},
            {"rate", 1e-3},
            {"gradient_norm", 2.0},
            {"updated", true},
            {"utterances", 8},
            {"micro_batches", 2},
            {"frames", 800},
            {"audio_seconds", 16.0},
            {"seconds", 0.5},
            {"peak_bytes", bytes},
            {"after_forward_bytes", bytes / 2},
            {"after_backward_bytes", bytes / 3},
            {"reserved_bytes", bytes + 4096}};
  }
  static nlohmann::json out_of_memory(int64_t step) {
    return {{"kind", "out_of_memory"},
            {"step", step},
            {"attempt", 1},
            {"limits", {{"max_frames", 400}, {"max_utterances", 4}}},
            {"peak_bytes", 64 << 20},
            {"reason", "an injected failure"}};
  }
  static nlohmann::json evaluation_of(int64_t step, double rate) {
    return {{"kind", "evaluation"}, {"step", step},       {"words", {{"rate", rate}}},
            {"loss", rate * 4.0},   {"seconds", 1.5},     {"characters", {{"rate", rate / 2.0}}},
            {"utterances", 12},     {"audio_seconds", 24}};
  }
  static nlohmann::json facts_of() {
    return {
        {"format_version", 1},
        {"program", {{"version", "1.0"}, {"commit", "abc"}}},
        {"machine", {{"processor", "a CPU"}, {"processors", 2}, {"device", "CPU"}}},
        {"task", "transcription"},
        {"model", {{"family", "transformer_ctc"}, {"preset", "tiny"}, {"parameters", 12345}}},
        {"data",
         {{"train", "train.jsonl"},
          {"dev", "dev.jsonl"},
          {"items", 80},
          {"seconds", 160.0},
          {"padding", {{"batch", 8}, {"shuffled_share", 0.31}, {"sorted_share", 0.05}}}}},
        {"budget", {{"total_bytes", 100 << 20}, {"library_bytes", 0}, {"arena_bytes", 100 << 20}}},
        {"needed", {{"high_water_bytes", 65 << 20}}},
        {"steps", {{"per_epoch", 10}, {"total", 40}}},
        {"reasons", {{{"setting", "tier"}, {"value", "none"}, {"reason", "everything fits"}}}},
        {"step_time",
         {{"seconds", 0.4},
          {"parts",
           {{{"name", "matrix products"}, {"seconds", 0.3}},
            {{"name", "other kernels"}, {"seconds", 0.1}}}}}}};
  }
  static nlohmann::json memory_of() {
    const nlohmann::json categories = {{"weights", 10 << 20},   {"gradients", 10 << 20},
                                       {"optimizer", 20 << 20}, {"activations", 20 << 20},
                                       {"workspace", 3 << 20},  {"data", 1 << 20}};
    const nlohmann::json report = {{"peak_bytes", 64 << 20},
                                   {"high_water_bytes", (64 << 20) + 4096},
                                   {"host_peak_bytes", 0},
                                   {"bytes_at_peak", categories},
                                   {"peak_moment", "backward of layer 1, micro-batch 1"}};
    nlohmann::json timeline = nlohmann::json::array();
    for (const char* phase : {"forward", "backward"}) {
      for (int64_t layer = 0; layer < 3; ++layer)
        timeline.push_back({{"phase", phase},
                            {"micro_batch", 0},
                            {"layer", layer},
                            {"bytes", (40 + 8 * layer) << 20},
                            {"by_category",
                             {{"weights", 10 << 20},
                              {"gradients", 10 << 20},
                              {"optimizer", 20 << 20},
                              {"activations", (8 * layer) << 20}}}});
    }
    return {
        {"format_version", 1}, {"planned", report}, {"measured", report}, {"timeline", timeline}};
  }
};

}  // namespace sotto::test
