// Conversion between YAML and the configuration tree. Supports the part of YAML that people write
// by hand; features that could give a file an unexpected meaning (aliases, tags, several documents,
// duplicate keys) are refused.
#pragma once

#include <string>

#include "sotto/core/config/config_tree.h"

namespace sotto {

// Parses one document; a text without a document gives an empty node. `source` names it in errors.
// Throws ConfigError.
ConfigNode parse_yaml(const std::string& text, const std::string& source);

// Parses one value at a location without lines: every node in it gets that location.
ConfigNode parse_yaml_value(const std::string& text, const ConfigLocation& location);

// Formats a map, each key below its comment, with comment lines of at most 100 columns.
// parse_yaml() reads it back to the same keys and values.
std::string format_yaml(const ConfigNode& map);

// Formats a scalar or a list of scalars on one line, as format_yaml() writes it after its key.
std::string format_yaml_value(const ConfigNode& value);

}  // namespace sotto
