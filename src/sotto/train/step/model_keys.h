// Keys of `model:` that belong to another family than the one that is trained.
#pragma once

#include <string>

#include "sotto/core/config/config_tree.h"
#include "sotto/models/model_options.h"

namespace sotto::train {

// `named`: the model where the command line names one, else empty; its family, else that of the
// tree's own preset, has to have every key. Throws ConfigError that names all keys of other
// families and what to do; what no family knows is left to the reader of the tree.
void check_model_keys(const ConfigNode& tree, const std::string& named,
                      const models::Family& of_run);

}  // namespace sotto::train
