// Detects keys of `model:` that belong to another family than the one being trained.
#pragma once

#include <string>

#include "sotto/core/config/config_tree.h"
#include "sotto/models/model_options.h"

namespace sotto::train {

// `named`: the model named on the command line, else empty. Its family, or else that of the tree's
// own preset, must have every key. Throws ConfigError that names all keys of other families and a
// remedy; keys unknown to all families are left to the reader of the tree.
void check_model_keys(const ConfigNode& tree, const std::string& named,
                      const models::Family& of_run);

}  // namespace sotto::train
