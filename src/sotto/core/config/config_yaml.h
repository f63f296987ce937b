// YAML in and out of the configuration tree. The part of YAML that people write by hand is read;
// what would let a file mean something else than it says (aliases, tags, several documents, the
// same key twice) is refused.
#pragma once

#include <string>

#include "sotto/core/config/config_tree.h"

namespace sotto {

// Reads one document; a text without any gives an empty node. `source` names it in errors. Throws
// ConfigError.
ConfigNode parse_yaml(const std::string& text, const std::string& source);

// Reads one value that stands at a place without lines: everything in it gets that place.
ConfigNode parse_yaml_value(const std::string& text, const ConfigPlace& place);

// The text of a map, each key under its comment, no comment line longer than 100 columns.
// parse_yaml() reads it back to the same keys and values.
std::string format_yaml(const ConfigNode& map);

// A scalar or a list of scalars on one line, as format_yaml() writes it behind its key.
std::string format_yaml_value(const ConfigNode& value);

}  // namespace sotto
