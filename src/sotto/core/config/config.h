// Configurations: reading a YAML or JSON file and --set overrides into a struct of options
// (options.h), and writing one back.
//
// What the notations leave open is decided so. Integers are plain decimal digits (not 1e3, 1_000,
// 010). Numbers may have a fraction and an exponent (.5, 1e-4); nan and inf are refused. Booleans
// are true and false; yes, on and True are refused. A number or boolean in quotes is text, and
// refused where a number is expected; a text field takes what is written, with or without quotes,
// so that 1.10 stays "1.10". A key without a value, ~ and null are refused. What is not named keeps
// its default.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sotto/core/config/config_tree.h"
#include "sotto/core/config/options.h"

namespace sotto {

// Written into every configuration as `format_version`. A file without it is of this version.
inline constexpr int64_t kConfigFormatVersion = 1;

// One setting, for --help and the documentation.
struct OptionInfo {
  // "model.layers"
  std::string key;
  std::string help;
  // What a value must be: "one of cpu, cuda".
  std::string expected;
  // As it is written in YAML.
  std::string value;
};

// The tree of a file, by its name JSON (.json) or YAML, with the overrides "key.sub=value" laid
// over it in their order. Throws ConfigError; DataError where the file cannot be read as text.
ConfigNode load_config(const std::filesystem::path& path,
                       const std::vector<std::string>& overrides = {});

// The tree of overrides alone.
ConfigNode load_overrides(const std::vector<std::string>& overrides);

// Reads a tree into options, then calls their validate(). Throws ConfigError with the place of the
// first thing that is wrong; the options are then half read. Throws DataError for a newer format.
void read_group(const ConfigNode& root, const OptionGroup& options);

// The tree of options, with their help as comments.
ConfigNode write_group(const OptionGroup& options);

// Every field, groups inside groups too, in their order.
std::vector<OptionInfo> list_group(const OptionGroup& options);

template <class Options>
Options read_options(const ConfigNode& root) {
  Options options;
  read_group(root, as_group(options));
  return options;
}

// The usual way in: a file with overrides laid over it, or the defaults with overrides.
template <class Options>
Options read_config(const std::filesystem::path& path,
                    const std::vector<std::string>& overrides = {}) {
  return read_options<Options>(load_config(path, overrides));
}

template <class Options>
Options read_overrides(const std::vector<std::string>& overrides) {
  return read_options<Options>(load_overrides(overrides));
}

// The way out; format_yaml() and format_json() give its text. They take a copy, because visit() is
// one function for reading and writing.
template <class Options>
ConfigNode write_options(Options options) {
  return write_group(as_group(options));
}

// The settings of a struct with its values as they stand: its defaults for Options{}.
template <class Options>
std::vector<OptionInfo> list_options(Options options) {
  return list_group(as_group(options));
}

}  // namespace sotto
