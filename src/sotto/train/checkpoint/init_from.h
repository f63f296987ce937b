// Initialises the weights of a run from another model: matching tensors are loaded, others are
// listed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sotto/data/text/tokenizer.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

struct InitFrom {
  // A checkpoint, a run (its best checkpoint, else its latest), a Hugging Face folder, or an id in
  // the local cache.
  std::filesystem::path source;
  // The source is the model itself: all tensors must match, except for the head.
  bool is_whole_model = false;
};

// Returns one line for the user per tensor that was not loaded, with the reason. Tensors tied to
// the vocabulary are not loaded where the source has a different vocabulary. Throws DataError where
// the source does not exist, is damaged, or has no matching tensor; no weight is then changed.
std::vector<std::string> init_weights(const InitFrom& from, const data::Tokenizer& tokenizer,
                                      Learner& learner);

}  // namespace sotto::train
