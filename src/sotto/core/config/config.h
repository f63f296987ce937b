// Configurations: reads a YAML or JSON file and --set overrides into a struct of options
// (options.h), and writes one back.
//
// Rules where the notations are ambiguous: Integers are plain decimal digits (not 1e3, 1_000, 010).
// Numbers may have a fraction and an exponent (.5, 1e-4); nan and inf are refused. Booleans are
// true and false; yes, on and True are refused. A number or boolean in quotes is text, and refused
// where a number is expected; a text field takes the literal spelling, with or without quotes, so
// that 1.10 stays "1.10". A key without a value, ~ and null are refused. Options that are not given
// keep their defaults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sotto/core/config/config_tree.h"
#include "sotto/core/config/options.h"

namespace sotto {

// Written into every configuration as `format_version`. A file without it has this version.
inline constexpr int64_t kConfigFormatVersion = 1;

// One setting, as shown by --help and the documentation.
struct OptionInfo {
  // Example: "model.layers"
  std::string key;
  std::string help;
  // Description of valid values: "one of cpu, cuda".
  std::string expected;
  // The value as written in YAML.
  std::string value;
};

// Loads a JSON (.json) or YAML file, chosen by its name, and applies the overrides "key.sub=value"
// in order. Throws ConfigError; throws DataError where the file cannot be read as text.
ConfigNode load_config(const std::filesystem::path& path,
                       const std::vector<std::string>& overrides = {});

// Builds a tree from overrides alone.
ConfigNode load_overrides(const std::vector<std::string>& overrides);

// Reads a tree into options, then calls their validate(). Throws ConfigError with the location of
// the first error, which leaves the options partly read. Throws DataError for a newer format.
void read_group(const ConfigNode& root, const OptionGroup& options);

// Returns the tree of options, with their help texts as comments.
ConfigNode write_group(const OptionGroup& options);

// Returns every field, including those of nested groups, in order.
std::vector<OptionInfo> list_group(const OptionGroup& options);

template <class Options>
Options read_options(const ConfigNode& root) {
  Options options;
  read_group(root, as_group(options));
  return options;
}

// Main entry point for reading: a file with overrides applied, or the defaults with overrides.
template <class Options>
Options read_config(const std::filesystem::path& path,
                    const std::vector<std::string>& overrides = {}) {
  return read_options<Options>(load_config(path, overrides));
}

template <class Options>
Options read_overrides(const std::vector<std::string>& overrides) {
  return read_options<Options>(load_overrides(overrides));
}

// Main entry point for writing; format_yaml() and format_json() return the text. Takes a copy,
// because visit() is one function for reading and writing.
template <class Options>
ConfigNode write_options(Options options) {
  return write_group(as_group(options));
}

// Lists the settings of a struct with its current values: the defaults for Options{}.
template <class Options>
std::vector<OptionInfo> list_options(Options options) {
  return list_group(as_group(options));
}

}  // namespace sotto
