// Host settings of a run, decided from its cores, its RAM and the data: number of decoding threads,
// caching of decoded audio, checkpoint interval; and the host memory that these take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/data/batch/source.h"
#include "sotto/device/host_info.h"
#include "sotto/plan/planner.h"

namespace sotto::plan {

struct Reason {
  // Key such as "optimizer.state"; a word where it is not a setting.
  std::string key;
  std::string value;
  // A few words for a table, and the full reason with figures.
  std::string brief;
  std::string why;
  bool is_setting = true;
};

// Maximum host memory of the run, by purpose.
struct HostMemoryPlan {
  // Optimizer state and layer inputs kept on the host, in pinned memory for a GPU.
  int64_t kept = 0;
  int64_t decoded_ahead = 0;
  int64_t audio_cache = 0;
  // While a checkpoint is written: the largest tensor, as copied and in its file format.
  int64_t checkpoint = 0;

  int64_t total() const { return kept + decoded_ahead + audio_cache + checkpoint; }
};

struct HostChoices {
  std::vector<Reason> reasons;
  HostMemoryPlan memory;
};

// Decides open settings in the configuration of `candidate`. `epoch_s`: seconds of audio per epoch.
HostChoices choose_on_host(Candidate& candidate, const PlanRequest& request,
                           const data::Source& source, double epoch_s,
                           const device::HostInfo& host);

}  // namespace sotto::plan
