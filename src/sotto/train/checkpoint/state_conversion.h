// The weights and the optimizer's state of a checkpoint into a learner that may keep them in
// another form: `--resume` with other numerics.
//
//   weights   fp32, bf16 with 16 bits of remainder   the same numbers: exact in both directions
//             bf16 with 8 bits, with none            exact into a form with more bits
//   moments   8-bit into fp32                        exact: what the optimizer makes of the codes
//
// Into a form with fewer bits nothing is converted: the run would not be the same.
#pragma once

#include <filesystem>

#include "sotto/train/step/step.h"

namespace sotto::train {

// Returns whether anything had to be converted; all else is as it was, to the bit. Throws DataError
// with the differences where names or shapes are others, and with the reason where a form cannot
// hold what is there; nothing is then changed.
bool load_learner(const std::filesystem::path& folder, Learner& learner);

}  // namespace sotto::train
