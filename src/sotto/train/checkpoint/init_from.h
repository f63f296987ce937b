// The weights that a run begins with, taken from elsewhere: what matches is taken, what does not is
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
  // A checkpoint, a run (its best, else its newest), a folder of Hugging Face, or an id in its
  // cache.
  std::filesystem::path source;
  // It is the model itself: all of it must fit, but for its head.
  bool is_whole_model = false;
};

// Returns what was not taken, and why, each in one line for the user. Tensors of the vocabulary are
// not taken where the source has another one. Throws DataError where there is nothing of that name,
// where it is damaged, or where nothing of it fits; no weight is then changed.
std::vector<std::string> init_weights(const InitFrom& from, const data::Tokenizer& tokenizer,
                                      Learner& learner);

}  // namespace sotto::train
