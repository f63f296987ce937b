// A configuration as it stands in a file: keys, values and where each was written. YAML, JSON and
// --set are turned into this tree; options are read from it and written through it. So there is one
// path into the option structs whatever the notation, and every error can name its place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// Where something was written. Lines and columns count from 1, columns in bytes, as compilers do.
struct ConfigPlace {
  // "configs/digits.yaml", "--set model.layers=3"
  std::string source;
  // 0 where there is none: in an override, or for a file as a whole.
  int line = 0;
  int column = 0;
};

struct ConfigNode {
  // Plain text is what stands without quotes: numbers, true and false, and in YAML bare words.
  enum class Kind { kEmpty, kPlain, kQuoted, kList, kMap };

  Kind kind = Kind::kEmpty;
  // Of an entry of a map.
  std::string key = {};
  // Of kPlain and kQuoted, without quotes and escapes.
  std::string text = {};
  // Items of a list, entries of a map in the order of the file.
  std::vector<ConfigNode> children = {};
  // Written above the key in YAML.
  std::string comment = {};
  ConfigPlace key_place = {};
  ConfigPlace place = {};

  bool is_scalar() const { return kind == Kind::kPlain || kind == Kind::kQuoted; }

  // The entry of a map; nullptr where there is none. The pointer lasts until the map changes.
  const ConfigNode* find(std::string_view entry_key) const;
  ConfigNode* find(std::string_view entry_key);
};

// Adds an entry to a map. Throws ConfigError where the key is there already.
void add_entry(ConfigNode& map, ConfigNode entry);

// Lays "key.sub=value" over a tree; the value is read as YAML and replaces what was there, a whole
// group too. Throws ConfigError where the text is no such assignment.
void apply_override(ConfigNode& root, std::string_view text);

// What a node holds, for error messages: "'12'", "a list".
std::string describe_value(const ConfigNode& node);

// What to say of a place: an error without its "attempted" part, which the place supplies.
struct Complaint {
  std::string found;
  std::string expected = {};
  std::string hint = {};
};

// Throws ConfigError: "reading a.yaml: line 3, column 5: ...".
[[noreturn]] void refuse(const ConfigPlace& place, const Complaint& complaint);

}  // namespace sotto
