// Metrics that a run records: lines of metrics.jsonl, and the same values for TensorBoard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sotto/core/files/run_record.h"
#include "sotto/core/formats/event_file.h"

namespace sotto::train {

class Metrics {
 public:
  using Warning = std::function<void(const std::string&)>;
  using Recorded = std::function<void(const nlohmann::json&)>;

  // Continues metrics.jsonl of the folder; lines of `first_step` and later are removed, because
  // those steps run again. Starts an event file whose steps continue from there. Throws DataError
  // where they cannot be written. Later write failures, such as a full disk, lose lines but do not
  // end the run: a warning is issued once, and again only after a write has succeeded in between.
  // `recorded` receives every line that is added, written or not.
  Metrics(const std::filesystem::path& folder, int64_t first_step, Warning warned,
          Recorded recorded = {});

  // Adds a line, and its values as named scalars. A line with scalars must have a "step".
  void add(const nlohmann::json& record, const std::vector<Scalar>& scalars = {});

  // Returns when everything added would survive a power failure, or after a warning.
  void sync();

 private:
  void add_or_warn(const std::function<void()>& write);

  RunRecord record_;
  EventFile events_;
  Warning warned_;
  Recorded recorded_;
  bool is_failing_ = false;
};

}  // namespace sotto::train
