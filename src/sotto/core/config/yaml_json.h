// Settings that another program wrote as YAML, as JSON values: unquoted words become numbers, true,
// false or null as YAML reads them.
#pragma once

#include <nlohmann/json.hpp>

#include "sotto/core/config/config_tree.h"

namespace sotto {

nlohmann::json json_of_yaml(const ConfigNode& node);

}  // namespace sotto
