// A run that is tried, not done, with what its configuration leaves open decided as for the run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sotto/plan/host_choices.h"
#include "sotto/plan/run/run_description.h"
#include "sotto/train/run/rehearsal.h"

namespace sotto::plan {

// `pretended_device`: a card whose memory and abilities are laid over the GPU; empty: none. Throws
// as a run of this description would.
std::unique_ptr<train::Rehearsal> make_rehearsal(
    const RunDescription& run, const std::string& pretended_device, const train::Note& noted,
    const std::function<void(const std::vector<Reason>&)>& decided);

}  // namespace sotto::plan
