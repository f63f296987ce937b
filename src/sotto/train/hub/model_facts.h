// Collects the facts of a model card from the files of a run.
#pragma once

#include <filesystem>

#include "sotto/train/checkpoint/checkpoint.h"
#include "sotto/train/hub/model_card.h"

namespace sotto::train {

// `folder`: the checkpoint's folder. The run's metrics.jsonl and memory.json are looked up in its
// parents; facts missing from them stay unknown. Throws DataError where they exist but cannot be
// read.
RunFacts read_run_facts(const std::filesystem::path& folder, const Checkpoint& checkpoint);

}  // namespace sotto::train
