// The events of a run for other programs, one JSON object per line: `sotto train --json-events`.
// docs/events.md describes them.
//
//   JsonEvents stream("runs/digits/events.jsonl");
//   stream.follow(events);  // before the run is made
//   stream.finish(summary);
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands/failure.h"
#include "sotto/core/files/run_record.h"
#include "sotto/plan/run/planned_training.h"

namespace sotto::cli {

class JsonEvents {
 public:
  // Continues the file, or creates it with its folder, and adds `started`. Throws DataError where
  // it cannot be written, or another process is writing it. Later, a line that cannot be written is
  // lost, and the run continues.
  explicit JsonEvents(const std::filesystem::path& file);

  // Adds events to the handlers of a run, which this object must outlive.
  void follow(plan::TrainingEvents& events);

  // `summary`: that of --json.
  void finish(const nlohmann::ordered_json& summary);
  void fail(const Failure& failure);

 private:
  void add(const char* event, nlohmann::json content);
  void add_line_of_metrics(const nlohmann::json& line);

  RunRecord file_;
  // The last step that was recorded.
  int64_t step_ = 0;
  bool is_failing_ = false;
};

}  // namespace sotto::cli
