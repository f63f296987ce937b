// Loads the weights and optimizer state of a checkpoint into a learner that may store them in
// another form: `--resume` with other numerics.
//
//   weights   fp32, bf16 with 16 bits of remainder   same values: exact in both directions
//             bf16 with 8 or 0 bits of remainder     exact into a form with more bits
//   moments   8-bit into fp32                        exact: the values that the codes decode to
//
// Conversion into a form with fewer bits is refused: it would change the run.
#pragma once

#include <filesystem>

#include "sotto/train/step/step.h"

namespace sotto::train {

// Returns whether anything was converted; everything else is restored bit-exactly. Throws DataError
// with the differences where names or shapes differ, and with the reason where the target form
// cannot represent the values; nothing is then changed.
bool load_learner(const std::filesystem::path& folder, Learner& learner);

}  // namespace sotto::train
