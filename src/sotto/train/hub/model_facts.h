// What the files of a run say of one of its checkpoints: the facts of its card.
#pragma once

#include <filesystem>

#include "sotto/train/checkpoint/checkpoint.h"
#include "sotto/train/hub/model_card.h"

namespace sotto::train {

// `folder`: that of the checkpoint. The run's metrics.jsonl and memory.json are looked for above
// it; what they do not say stays unknown. Throws DataError where they are there and cannot be read.
RunFacts read_run_facts(const std::filesystem::path& folder, const Checkpoint& checkpoint);

}  // namespace sotto::train
