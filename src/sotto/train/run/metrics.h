// What a run writes down of itself as it goes: lines of metrics.jsonl, and the same numbers for
// TensorBoard.
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

  // Continues metrics.jsonl of the folder, of which lines of `first_step` and later ones are cut
  // off: they are of steps that are run again. Begins an event file whose steps go on from there.
  // Throws DataError where they cannot be written. Later a full disk costs lines and not the run:
  // it is warned of once, and again only after it was not so in between.
  Metrics(const std::filesystem::path& folder, int64_t first_step, Warning warned);

  // A line, and its numbers under names where it has any. A line with names is of a "step".
  void add(const nlohmann::json& record, const std::vector<Scalar>& scalars = {});

  // Returns when all that was added would survive a power failure, or that was warned of.
  void sync();

 private:
  void add_or_warn(const std::function<void()>& write);

  RunRecord record_;
  EventFile events_;
  Warning warned_;
  bool is_failing_ = false;
};

}  // namespace sotto::train
