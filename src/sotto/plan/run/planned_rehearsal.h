// A rehearsal of a run, with its open settings decided as for the run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sotto/plan/host_choices.h"
#include "sotto/plan/run/run_description.h"
#include "sotto/train/run/rehearsal.h"

namespace sotto::plan {

// `pretended_device`: a card whose memory and capabilities are simulated on the GPU; empty: none.
// Throws as a run of this description would.
std::unique_ptr<train::Rehearsal> make_rehearsal(
    const RunDescription& run, const std::string& pretended_device, const train::Note& noted,
    const std::function<void(const std::vector<Reason>&)>& decided);

}  // namespace sotto::plan
