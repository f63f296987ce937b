// A configuration as written in a file: keys, values and the location of each. YAML, JSON and --set
// are converted to this tree; options are read from it and written through it. This gives one path
// into the option structs for every notation, and every error can name its location.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// Location in a source text. Lines and columns count from 1, columns in bytes, as compilers do.
struct ConfigLocation {
  // Examples: "configs/digits.yaml", "--set model.layers=3"
  std::string source;
  // 0 if there is no line: in an override, or for a file as a whole.
  int line = 0;
  int column = 0;
};

struct ConfigNode {
  // Plain text is unquoted text: numbers, true and false, and in YAML bare words.
  enum class Kind { kEmpty, kPlain, kQuoted, kList, kMap };

  Kind kind = Kind::kEmpty;
  // Key of a map entry.
  std::string key = {};
  // Text of kPlain and kQuoted, without quotes and escapes.
  std::string text = {};
  // Items of a list, or entries of a map in file order.
  std::vector<ConfigNode> children = {};
  // Comment written above the key in YAML.
  std::string comment = {};
  ConfigLocation key_location = {};
  ConfigLocation location = {};

  bool is_scalar() const { return kind == Kind::kPlain || kind == Kind::kQuoted; }

  // Returns the entry of a map; nullptr if there is none. The pointer is valid until the map
  // changes.
  const ConfigNode* find(std::string_view entry_key) const;
  ConfigNode* find(std::string_view entry_key);
};

// Adds an entry to a map. Throws ConfigError where the key exists already.
void add_entry(ConfigNode& map, ConfigNode entry);

// Applies "key.sub=value" to a tree; the value is parsed as YAML and replaces the old value, even a
// whole group. Throws ConfigError where the text is not such an assignment.
void apply_override(ConfigNode& root, std::string_view text);

// Describes the value of a node for error messages: "'12'", "a list".
std::string describe_value(const ConfigNode& node);

// An error without its "attempted" part, which the location supplies.
struct Complaint {
  std::string found;
  std::string expected = {};
  std::string hint = {};
};

// Throws ConfigError: "reading a.yaml: line 3, column 5: ...".
[[noreturn]] void refuse(const ConfigLocation& location, const Complaint& complaint);

}  // namespace sotto
