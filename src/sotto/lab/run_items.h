// The training data of an experiment as items, for what is known before it runs.
#pragma once

#include <limits>
#include <memory>

#include "sotto/train/step/run_data.h"

namespace sotto::lab {

// Returns all items of the training data, however long.
inline std::shared_ptr<data::Source> all_items(train::RunData& data) {
  return data.make_train(
      [](const data::Source&) { return std::numeric_limits<double>::infinity(); });
}

}  // namespace sotto::lab
