// What a run does on the host, decided from its cores, its RAM and the data: threads that decode
// ahead, whether decoded audio is kept, how often a checkpoint is written; and the host memory of
// it all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/data/batch/source.h"
#include "sotto/device/host_info.h"
#include "sotto/plan/planner.h"

namespace sotto::plan {

struct Reason {
  // "optimizer.state"; of what is no setting a word.
  std::string key;
  std::string value;
  // In a few words, for a table; and with its numbers.
  std::string brief;
  std::string why;
  bool is_setting = true;
};

// Host memory that the run takes at most, by what it is for.
struct HostMemoryPlan {
  // State and inputs of layers that lie there, in pinned memory for a GPU.
  int64_t kept = 0;
  int64_t decoded_ahead = 0;
  int64_t audio_cache = 0;
  // While a checkpoint is written: the largest tensor, as it comes and as it is in the file.
  int64_t checkpoint = 0;

  int64_t total() const { return kept + decoded_ahead + audio_cache + checkpoint; }
};

struct HostChoices {
  std::vector<Reason> reasons;
  HostMemoryPlan memory;
};

// Decides what is open, in the way's configuration.
// `epoch_s`: seconds of audio of an epoch.
HostChoices choose_on_host(Way& way, const PlanRequest& request, const data::Source& source,
                           double epoch_s, const device::HostInfo& host);

}  // namespace sotto::plan
