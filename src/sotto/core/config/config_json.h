// JSON in and out of the configuration tree. A reader of its own, beside YAML's, because yaml-cpp
// refuses the surrogate pairs with which JSON escapes characters such as emoji.
#pragma once

#include <string>

#include "sotto/core/config/config_tree.h"

namespace sotto {

// Reads a JSON text. `source` names it in errors. Throws ConfigError.
ConfigNode parse_json(const std::string& text, const std::string& source);

// The text of a map, indented, keys in their order, without comments. parse_json() reads it back to
// the same keys and values.
std::string format_json(const ConfigNode& map);

}  // namespace sotto
