// Conversion between JSON and the configuration tree. It has its own reader, separate from YAML,
// because yaml-cpp refuses the surrogate pairs with which JSON escapes characters such as emoji.
#pragma once

#include <string>

#include "sotto/core/config/config_tree.h"

namespace sotto {

// Parses a JSON text. `source` names it in errors. Throws ConfigError.
ConfigNode parse_json(const std::string& text, const std::string& source);

// Formats a map as indented text, keys in order, without comments. parse_json() reads it back to
// the same keys and values.
std::string format_json(const ConfigNode& map);

}  // namespace sotto
